import FMCore
import Glibc

/// What stdin is, which decides whether it is read.
///
/// - A lone dash reads it, however long that takes.
/// - Where there is no text to send without it, anything but a terminal is read to its end.
/// - Beside a prompt, a file or a pipe on it is context. Nothing else is: services and programs that
///   start others often leave a socket or a device there on which nothing ever comes. A pipe may be
///   such a leftover too, so its first byte is waited for only so long, and then it is an error
///   rather than a hang or an answer that misses its context.
struct StandardInput {
  enum Reading {
    case asked
    case asPrompt
    case asContext
  }

  /// Texts longer than this are no prompt: no model has room for 64 MiB.
  static let maximumBytes = 64 << 20
  private static let secondsToNote: Int32 = 2
  private static let secondsToWait: Int32 = 30

  let console: Console

  /// The text on stdin without its last line breaks; nil where there is none to read.
  func read(_ reading: Reading) throws -> String? {
    switch reading {
    case .asked: break
    case .asPrompt:
      if isatty(STDIN_FILENO) == 1 { return nil }
      try noteWaiting(for: "the prompt")
    case .asContext:
      var status = stat()
      guard fstat(STDIN_FILENO, &status) == 0 else { return nil }
      switch status.st_mode & S_IFMT {
      case S_IFREG: break
      case S_IFIFO:
        try noteWaiting(for: "the context")
        let left = Self.secondsToWait - Self.secondsToNote
        guard try console.wait(for: STDIN_FILENO, POLLIN, milliseconds: left * 1000) else {
          throw UsageError(
            message: "stdin is a pipe on which nothing came for \(Self.secondsToWait) s; give - to"
              + " wait for it, or </dev/null for no context")
        }
      default: return nil
      }
    }
    let text = try readText(STDIN_FILENO, named: "stdin", limit: Self.maximumBytes) {
      try console.wait(for: STDIN_FILENO, POLLIN)
    }
    var trimmed = text[...]
    while let last = trimmed.last, last == "\n" || last == "\r\n" { trimmed.removeLast() }
    return trimmed.isEmpty ? nil : String(trimmed)
  }

  private func noteWaiting(for what: String) throws {
    let soon = try console.wait(
      for: STDIN_FILENO, POLLIN, milliseconds: Self.secondsToNote * 1000)
    if !soon { console.report("waiting for \(what) on stdin (</dev/null: there is none)") }
  }
}

/// Reads a descriptor to its end as UTF-8 text without NUL; a byte order mark is dropped.
///
/// - Parameter beforeEach: called before each read, to wait without blocking in it.
/// - Throws: a `Failure` that calls the text by its name.
func readText(
  _ descriptor: Int32, named name: String, limit: Int, beforeEach: () throws -> Void = {}
) throws -> String {
  var bytes: [UInt8] = []
  var buffer = [UInt8](repeating: 0, count: 65536)
  while true {
    try beforeEach()
    let count = read(descriptor, &buffer, buffer.count)
    if count == 0 { break }
    guard count > 0 else {
      if errno == EINTR || errno == EAGAIN { continue }
      throw Failure(.unknown, "Cannot read \(name): \(String(cString: strerror(errno))).")
    }
    bytes += buffer[..<count]
    guard bytes.count <= limit else {
      throw Failure(
        .invalidPromptText,
        "Cannot use \(name): it holds more than \(limit >> 20) MiB; give a shorter text.")
    }
  }
  if let place = bytes.firstIndex(of: 0) {
    throw Failure(
      .invalidPromptText,
      "Cannot use \(name): it holds a NUL byte (at offset \(place)), as no text does; give UTF-8"
        + " text there, and pictures with --image.")
  }
  guard let text = String(validating: bytes, as: UTF8.self) else {
    throw Failure(
      .invalidPromptText,
      "Cannot use \(name): it is no UTF-8 text; give text there, and pictures with --image.")
  }
  return text.unicodeScalars.first == "\u{FEFF}"
    ? String(text.unicodeScalars.dropFirst()) : text
}
