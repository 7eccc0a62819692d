import CLinux
import Glibc

/// A child process that does not outlive the thread that starts it; owns its descriptors.
///
/// Whoever makes one ends with `reap()`: without it a zombie stays.
final class EngineChild: Sendable {
  enum Exit: Sendable, Equatable {
    case code(Int32)
    case signal(Int32)
    /// The host ignores SIGCHLD, or took the child's status itself.
    case unknown

    var description: String {
      switch self {
      case .code(let code): "exit code \(code)"
      case .signal(let signal): "signal \(signal) (\(String(cString: strsignal(signal))))"
      case .unknown: "an unknown status"
      }
    }
  }

  struct Readiness {
    var hasOutput = false
    var hasEnded = false
    var isWoken = false
  }

  let processID: Int32
  private let processDescriptor: Int32
  private let input: Int32
  private let output: Int32

  private var child: fm_child {
    fm_child(pid: processID, pidfd: processDescriptor, input: input, output: output)
  }

  /// Starts the program at `path`, in a session of its own.
  ///
  /// - Throws: the errno of what failed, mostly that of execve(2).
  init(path: String, arguments: [String], environment: CStringArray) throws(Errno) {
    let arguments = CStringArray(arguments)
    var child = fm_child()
    let code = fm_spawn(path, arguments.pointers, environment.pointers, &child)
    guard code == 0 else { throw Errno(code: code) }
    processID = child.pid
    processDescriptor = child.pidfd
    input = child.input
    output = child.output
  }

  deinit {
    close(input)
    close(output)
    if processDescriptor >= 0 { close(processDescriptor) }
  }

  /// Blocks the calling thread until the child ended, wrote something, or `wake` was set; at most
  /// `timeout`, without which there is no limit.
  ///
  /// - Parameter watchesOutput: false once the output has ended, which would be reported for ever.
  func wait(wake: EventDescriptor? = nil, watchesOutput: Bool, timeout: Duration?) -> Readiness {
    // Negative descriptors are passed over.
    var entries = [
      pollfd(descriptor: processDescriptor, events: Int16(POLLIN)),
      pollfd(descriptor: watchesOutput ? output : -1, events: Int16(POLLIN)),
      pollfd(descriptor: wake?.descriptor ?? -1, events: Int16(POLLIN)),
    ]
    // A kernel without process descriptors: the output's end is the sign, and reap() waits.
    if processDescriptor < 0 && !watchesOutput { return Readiness(hasEnded: true) }
    guard poll(&entries, nfds_t(entries.count), timeout?.pollTimeout ?? -1) > 0 else {
      return Readiness()
    }
    return Readiness(
      hasOutput: entries[1].revents != 0, hasEnded: entries[0].revents != 0,
      isWoken: entries[2].revents != 0)
  }

  /// Hands over what waits to be read, without blocking.
  ///
  /// - Returns: false at the output's end.
  func readOutput(_ body: (UnsafeRawBufferPointer) -> Void) -> Bool {
    withUnsafeTemporaryAllocation(byteCount: 16 << 10, alignment: 1) { buffer in
      // Bounded, so that a child that never stops writing does not hold the thread.
      for _ in 0..<64 {
        let count = read(output, buffer.baseAddress, buffer.count)
        if count > 0 {
          body(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
        } else if count == 0 {
          return false
        } else if errno != EINTR {
          return errno == EAGAIN
        }
      }
      return true
    }
  }

  /// Signals the child and all that it started, as far as they stayed in its process group.
  func signalGroup(_ signal: Int32) {
    var child = child
    _ = fm_signal_group(&child, signal)
  }

  /// Waits for the child's end, ends what it left behind in its group, and frees its place in the
  /// process table.
  func reap() -> Exit {
    var child = child
    var value: Int32 = 0
    switch fm_reap(&child, &value) {
    case fm_exit_code: return .code(value)
    case fm_exit_signal: return .signal(value)
    default: return .unknown
    }
  }
}
