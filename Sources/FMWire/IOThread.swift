import CLinux
import Glibc
import Synchronization

/// The one thread of the process that waits for sockets.
///
/// It starts with the first use and lives as long as the process. All signals but those of a crash
/// are blocked on it: the host's handlers run on the host's own threads.
public final class IOThread: Sendable {
  public static let shared = IOThread()

  private struct State {
    var loop: EventLoop?
    var work: [@Sendable () -> Void] = []
    var thread = pthread_t()
  }

  private let state = Mutex(State())

  private init() {}

  /// Runs `work` on the I/O thread, after everything passed before. `work` must not block.
  ///
  /// - Precondition: the thread runs or can be started; see `start`.
  public func perform(_ work: @escaping @Sendable () -> Void) {
    do throws(WireError) {
      try start()
    } catch {
      fatalError(error.message)
    }
    let loop = state.withLock { state -> EventLoop? in
      state.work.append(work)
      // The first in the queue wakes the thread, which then takes all. The thread itself looks into
      // the queue before it waits.
      guard state.work.count == 1, pthread_equal(state.thread, pthread_self()) == 0 else {
        return nil
      }
      return state.loop
    }
    loop?.wake()
  }

  /// Runs `work` when the thread has done what it is at; at once where the caller is on another. For
  /// who wakes others: what comes in one read from the network then wakes them once, and they find it
  /// all.
  package func afterThisTurn(_ work: @escaping @Sendable () -> Void) {
    if isCurrent { perform(work) } else { work() }
  }

  /// Starts the thread unless it runs. Throws `.connect` when the system has no thread or no
  /// descriptor left; a later call tries again.
  public func start() throws(WireError) {
    let failure = state.withLock { state -> Errno? in
      if state.loop != nil { return nil }
      do throws(Errno) {
        let loop = try EventLoop()
        state.loop = loop
        state.thread = try spawn()
        return nil
      } catch {
        state.loop = nil
        return error
      }
    }
    if let failure {
      throw WireError(
        kind: .connect,
        message: "cannot start the I/O thread: \(failure); close files or raise the limits "
          + "(ulimit -n, ulimit -u)")
    }
  }

  /// Whether the caller runs on the I/O thread.
  public var isCurrent: Bool {
    state.withLock { $0.loop != nil && pthread_equal($0.thread, pthread_self()) != 0 }
  }

  /// The loop of the running thread, for work that runs on it.
  var loop: EventLoop {
    state.withLock { $0.loop! }
  }

  private func spawn() throws(Errno) -> pthread_t {
    var signals = sigset_t()
    sigfillset(&signals)
    for signal in [SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGPROF] {
      sigdelset(&signals, signal)
    }
    // The new thread inherits the mask, so no signal can slip in before it sets its own.
    var previous = sigset_t()
    pthread_sigmask(SIG_BLOCK, &signals, &previous)
    defer { pthread_sigmask(SIG_SETMASK, &previous, nil) }

    var attributes = pthread_attr_t()
    pthread_attr_init(&attributes)
    defer { pthread_attr_destroy(&attributes) }
    pthread_attr_setdetachstate(&attributes, Int32(PTHREAD_CREATE_DETACHED))
    var thread = pthread_t()
    let code = pthread_create(
      &thread, &attributes,
      { _ in
        fm_linux_name_thread("openfm-io")
        IOThread.shared.run()
      }, nil)
    if code != 0 { throw Errno(code: code) }
    return thread
  }

  private func run() -> Never {
    // Waits for `start` to leave its lock, too.
    let loop = self.loop
    while true {
      let work = state.withLock { state in
        defer { state.work.removeAll() }
        return state.work
      }
      if work.isEmpty {
        loop.turn()
      } else {
        for piece in work { piece() }
      }
    }
  }
}
