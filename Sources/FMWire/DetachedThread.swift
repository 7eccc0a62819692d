import CLinux
import Glibc

/// A thread of this library's own, for work that blocks.
enum DetachedThread {
  private final class Start {
    let name: String
    let body: @Sendable () -> Void
    init(name: String, body: @escaping @Sendable () -> Void) {
      self.name = name
      self.body = body
    }
  }

  /// Runs `body` on a new thread with all signals blocked: the host's handlers run on the host's
  /// threads. The thread ends with `body`; nobody joins it.
  ///
  /// - Returns: why there is no thread.
  static func start(name: String, body: @escaping @Sendable () -> Void) -> Errno? {
    var all = sigset_t()
    var before = sigset_t()
    sigfillset(&all)
    pthread_sigmask(SIG_SETMASK, &all, &before)
    defer { pthread_sigmask(SIG_SETMASK, &before, nil) }

    let start = Unmanaged.passRetained(Start(name: name, body: body))
    var thread = pthread_t()
    let code = pthread_create(
      &thread, nil,
      { pointer in
        let start = Unmanaged<Start>.fromOpaque(pointer!).takeRetainedValue()
        fm_linux_name_thread(start.name)
        start.body()
        return nil
      }, start.toOpaque())
    guard code == 0 else {
      start.release()
      return Errno(code: code)
    }
    pthread_detach(thread)
    return nil
  }
}
