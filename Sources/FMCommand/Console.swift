import FMCore
import Glibc

/// Why a command stops without anything being wrong.
enum Stop: Error {
  case interrupted
  case outputClosed

  var exitCode: ExitCode {
    switch self {
    case .interrupted: .interrupted
    case .outputClosed: .outputClosed
    }
  }
}

/// Why bytes could not be written, as the system says it.
struct OutputError: Error, CustomStringConvertible {
  /// An `errno`.
  var code = errno
  var description: String { String(cString: strerror(code)) }
}

/// The standard streams. Whatever blocks on them ends at an interrupt.
final class Console {
  let interrupt: InterruptSource
  let outputIsTerminal: Bool
  /// Whether the last byte that went to a terminal left its line open.
  private var lineIsOpen = false
  /// Set when a request did not end after it was cancelled: the process must then end without the
  /// libraries' clean-up, which would pull the ground from under it.
  var hasAbandonedWork = false

  init() {
    // A descriptor that was closed would be taken by the next socket, and the answer be written into
    // it. /dev/null, opened for reading, keeps the place and refuses writes.
    for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) == -1 {
      _ = open("/dev/null", O_RDONLY)
    }
    // A closed pipe is met as EPIPE.
    signal(SIGPIPE, SIG_IGN)
    interrupt = InterruptSource()
    outputIsTerminal = isatty(STDOUT_FILENO) == 1
  }

  // MARK: - Output

  /// Writes all of a text to stdout. On a terminal, control characters other than the newline and
  /// the tab are left out: a model's words must not steer a terminal.
  ///
  /// - Throws: `Stop`, or a `Failure` when the output cannot be written.
  func write(_ text: String) throws {
    let text = outputIsTerminal ? text.withoutControls : text
    guard let last = text.utf8.last else { return }
    lineIsOpen = last != UInt8(ascii: "\n")
    try write(Array(text.utf8))
  }

  /// Writes bytes to stdout as they are.
  ///
  /// - Throws: `Stop`, or a `Failure` when the output cannot be written.
  func write(_ bytes: [UInt8]) throws {
    do {
      try write(bytes, to: STDOUT_FILENO)
    } catch let error as OutputError {
      throw Failure(.unknown, "Cannot write to stdout: \(error). Give it a place to go.")
    }
  }

  /// Writes all bytes to a descriptor; for one that does not block, it waits where that is full.
  ///
  /// - Throws: `Stop`, or an `OutputError`.
  func write(_ bytes: [UInt8], to descriptor: Int32) throws {
    var rest = bytes[...]
    while !rest.isEmpty {
      // A pipe that poll(2) calls writable takes PIPE_BUF bytes without blocking.
      let count = rest.prefix(4096).withUnsafeBytes {
        Glibc.write(descriptor, $0.baseAddress, $0.count)
      }
      if count >= 0 {
        rest = rest.dropFirst(count)
        if !rest.isEmpty { try wait(for: descriptor, POLLOUT) }
        continue
      }
      switch errno {
      case EINTR: continue
      case EAGAIN: try wait(for: descriptor, POLLOUT)
      case EPIPE: throw Stop.outputClosed
      default: throw OutputError(code: errno)
      }
    }
  }

  /// Runs a command, and writes the failure it throws to stdout as JSON where that was asked for. A
  /// wrong command line and an interrupt print none.
  func tellingFailure(asJSON: Bool, _ command: () throws -> Void) throws {
    do {
      try command()
    } catch let error where error is UsageError || error is Stop {
      throw error
    } catch {
      let failure = Failure(error)
      if asJSON { try write(failure.commandJSON.jsonText + "\n") }
      throw failure
    }
  }

  /// Ends the line that an answer left open.
  func endLine() throws {
    if lineIsOpen { try write("\n") }
  }

  /// One line on stderr, whatever the message holds.
  func report(_ message: String) {
    if lineIsOpen, outputIsTerminal { try? endLine() }
    note("fm: " + message)
  }

  /// A line on stderr.
  func note(_ line: String) {
    var rest = Array((line.onOneLine + "\n").utf8)[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes {
        Glibc.write(STDERR_FILENO, $0.baseAddress, $0.count)
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else { return }
      rest = rest.dropFirst(count)
    }
  }

  // MARK: - Waiting

  /// Waits until the descriptor is ready, or has an error that the next call will meet.
  ///
  /// - Returns: false when that took longer than `milliseconds` (-1: there is no limit).
  /// - Throws: `Stop.interrupted`.
  @discardableResult
  func wait(for descriptor: Int32, _ events: Int32, milliseconds: Int32 = -1) throws -> Bool {
    var entries = [
      pollfd(fd: interrupt.descriptor, events: Int16(POLLIN), revents: 0),
      pollfd(fd: descriptor, events: Int16(events), revents: 0),
    ]
    while true {
      let ready = poll(&entries, 2, milliseconds)
      if ready < 0, errno == EINTR { continue }
      if entries[0].revents != 0 {
        interrupt.take()
        throw Stop.interrupted
      }
      return ready != 0
    }
  }
}

extension String {
  /// Without control characters other than newline and tab.
  fileprivate var withoutControls: String {
    guard unicodeScalars.contains(where: \.steersTerminal) else { return self }
    return String(String.UnicodeScalarView(unicodeScalars.filter { !$0.steersTerminal }))
  }

  /// With every run of line breaks and other control characters as one blank.
  fileprivate var onOneLine: String {
    var result = String.UnicodeScalarView()
    var isControl = false
    for scalar in unicodeScalars {
      if scalar.properties.generalCategory == .control {
        if !isControl { result.append(" ") }
        isControl = true
      } else {
        result.append(scalar)
        isControl = false
      }
    }
    return String(result)
  }
}

extension Unicode.Scalar {
  fileprivate var steersTerminal: Bool {
    (value < 0x20 && value != 0x0A && value != 0x09) || (0x7F...0x9F).contains(value)
  }
}
