import FMCore
import Glibc

/// A place that a command was told to write to.
///
/// A regular file appears whole or not at all: it is written beside and moved into place. Whatever
/// else has that name, such as a pipe or a device, is written into and never replaced; a symbolic
/// link stays one, and what it leads to is written.
struct OutputFile {
  let path: String
  let console: Console

  /// - Throws: `Stop`, or a `Failure` that names the path; a regular file is then as it was.
  func write(_ bytes: [UInt8]) throws {
    do {
      var status = stat()
      if stat(path, &status) == 0 {
        guard status.st_mode & S_IFMT == S_IFREG else { return try writeInto(bytes) }
        try replace(resolved(path), with: bytes, mode: status.st_mode & 0o777)
      } else if errno == ENOENT, lstat(path, &status) != 0 {
        let mask = umask(0)
        umask(mask)
        try replace(path, with: bytes, mode: 0o666 & ~mask)
      } else {
        // A link that leads nowhere: what it names is made.
        try writeInto(bytes)
      }
    } catch let error as OutputError {
      throw Failure(.unknown, "\(path): cannot write it: \(error); choose another place.")
    }
  }

  private func resolved(_ path: String) throws -> String {
    guard let resolved = realpath(path, nil) else { throw OutputError() }
    defer { free(resolved) }
    return String(cString: resolved)
  }

  private func replace(_ target: String, with bytes: [UInt8], mode: mode_t) throws {
    var template = Array((target + ".XXXXXX").utf8CString)
    let descriptor = mkstemp(&template)
    guard descriptor >= 0 else { throw OutputError() }
    var isOpen = true
    do {
      try console.write(bytes, to: descriptor)
      guard fchmod(descriptor, mode) == 0 else { throw OutputError() }
      isOpen = false
      // A file system that is full may say so only now.
      guard close(descriptor) == 0, rename(template, target) == 0 else { throw OutputError() }
    } catch {
      if isOpen { close(descriptor) }
      unlink(template)
      throw error
    }
  }

  private func writeInto(_ bytes: [UInt8]) throws {
    let descriptor = try openForWriting()
    do {
      try console.write(bytes, to: descriptor)
    } catch {
      close(descriptor)
      throw error
    }
    guard close(descriptor) == 0 else { throw OutputError() }
  }

  /// Waits for a pipe's reader as long as nobody interrupts.
  private func openForWriting() throws -> Int32 {
    while true {
      let flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK
      let descriptor = open(path, flags, 0o666)
      if descriptor >= 0 { return descriptor }
      var status = stat()
      guard errno == ENXIO, stat(path, &status) == 0, status.st_mode & S_IFMT == S_IFIFO else {
        throw OutputError(code: errno)
      }
      try console.wait(for: -1, 0, milliseconds: 50)
    }
  }
}
