import CLinux
import Glibc

/// SIGINT as a readable descriptor, for as long as this lives. Owns the descriptor, and gives the
/// calling thread's signal mask back in the end.
///
/// The signal is blocked in the calling thread and thereby in the threads it starts, so it has to be
/// made before any of those. Where SIGINT is ignored, as in a shell's background jobs, it stays so.
final class InterruptSource {
  /// -1 where SIGINT is ignored or no descriptor was to be had; poll(2) passes over it.
  let descriptor: Int32
  private var previous = sigset_t()

  init() {
    var action = sigaction()
    sigaction(SIGINT, nil, &action)
    let handler = unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self)
    guard handler != unsafeBitCast(SIG_IGN, to: Int.self) else {
      descriptor = -1
      return
    }
    var mask = sigset_t()
    sigemptyset(&mask)
    sigaddset(&mask, SIGINT)
    descriptor = signalfd(-1, &mask, Int32(SFD_CLOEXEC | SFD_NONBLOCK))
    if descriptor >= 0 { pthread_sigmask(SIG_BLOCK, &mask, &previous) }
  }

  /// Takes what has arrived, so that the next one is told apart.
  func take() {
    var info = signalfd_siginfo()
    _ = read(descriptor, &info, MemoryLayout<signalfd_siginfo>.size)
  }

  deinit {
    guard descriptor >= 0 else { return }
    close(descriptor)
    pthread_sigmask(SIG_SETMASK, &previous, nil)
  }
}
