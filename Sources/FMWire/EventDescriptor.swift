import CLinux
import Glibc

/// An eventfd that, once set, stays readable: a signal that poll(2) can wait for. Owns the
/// descriptor.
final class EventDescriptor: Sendable {
  let descriptor: Int32

  /// - Throws: the errno, e.g. EMFILE.
  init() throws(Errno) {
    descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    guard descriptor >= 0 else { throw Errno.current }
  }

  deinit { close(descriptor) }

  func set() {
    var one: UInt64 = 1
    // Fails only when it is set 2^64 - 2 times over: then it is set.
    _ = write(descriptor, &one, MemoryLayout.size(ofValue: one))
  }

  func clear() {
    var count: UInt64 = 0
    _ = read(descriptor, &count, MemoryLayout.size(ofValue: count))
  }

  /// Whether it was set within that time. Blocks the calling thread.
  func wait(seconds: Double) -> Bool {
    let deadline = ContinuousClock.now.advanced(by: .seconds(seconds))
    while true {
      var entry = pollfd(descriptor: descriptor, events: Int16(POLLIN))
      let left = deadline - .now
      if poll(&entry, 1, left.pollTimeout) > 0 { return true }
      if left <= .zero { return false }
    }
  }
}

extension pollfd {
  init(descriptor: Int32, events: Int16) { self.init(fd: descriptor, events: events, revents: 0) }
}

extension Duration {
  /// Milliseconds for poll(2), rounded up so that a loop does not spin through the last one.
  var pollTimeout: Int32 {
    let milliseconds = (seconds * 1000).rounded(.up)
    return milliseconds <= 0 ? 0 : Int32(min(milliseconds, 3_600_000))
  }

  var seconds: Double {
    Double(components.seconds) + Double(components.attoseconds) * 1e-18
  }
}
