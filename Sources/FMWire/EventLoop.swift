import CLinux
import Glibc

/// What the I/O thread waits for: descriptors, timers and a wake-up from other threads.
///
/// Every member but `wake` is used on the I/O thread alone, which is what makes the class safe to
/// share.
final class EventLoop: @unchecked Sendable {
  /// A moment at which something is to be done; `.never` = not set.
  final class Timer {
    var deadline = MonotonicTime.never
    fileprivate let action: () -> Void
    fileprivate init(action: @escaping () -> Void) { self.action = action }
  }

  private let poll: Int32
  private let wakeUp: Int32
  private var watches: [Int32: (UInt32) -> Void] = [:]
  private var timers: [Timer] = []

  /// Throws the reason, in words, when there are no descriptors left.
  init() throws(Errno) {
    poll = epoll_create1(Int32(EPOLL_CLOEXEC))
    guard poll >= 0 else { throw Errno.current }
    wakeUp = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    // From here on a failure runs deinit, which closes both.
    guard wakeUp >= 0, control(EPOLL_CTL_ADD, wakeUp, EPOLLIN.rawValue) else {
      throw Errno.current
    }
  }

  deinit {
    close(poll)
    close(wakeUp)
  }

  /// Ends the wait that is going on, or the next one. From any thread.
  func wake() {
    var one: UInt64 = 1
    // Fails only when the counter is at its limit: a wake-up is then due anyway.
    _ = write(wakeUp, &one, MemoryLayout<UInt64>.size)
  }

  /// Calls `action` on the I/O thread whenever one of the epoll `events` is there.
  func watch(_ descriptor: Int32, events: UInt32, action: @escaping (UInt32) -> Void) {
    let isKnown = watches.updateValue(action, forKey: descriptor) != nil
    _ = control(isKnown ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, descriptor, events)
  }

  /// Stops watching; to be called before the descriptor is closed.
  func unwatch(_ descriptor: Int32) {
    guard watches.removeValue(forKey: descriptor) != nil else { return }
    _ = control(EPOLL_CTL_DEL, descriptor, 0)
  }

  /// A timer that lives as long as the loop.
  func makeTimer(_ action: @escaping () -> Void) -> Timer {
    let timer = Timer(action: action)
    timers.append(timer)
    return timer
  }

  /// Waits once and does what is due.
  func turn() {
    let next = timers.lazy.map(\.deadline).min() ?? .never
    withUnsafeTemporaryAllocation(of: epoll_event.self, capacity: 64) { events in
      let count = epoll_wait(
        poll, events.baseAddress!, Int32(events.count), next.millisecondsFromNow())
      for index in 0..<max(0, Int(count)) {
        let event = events[index]
        if event.data.fd == wakeUp {
          var counter: UInt64 = 0
          _ = read(wakeUp, &counter, MemoryLayout<UInt64>.size)
        } else {
          // An earlier event of this batch may have ended the watch.
          watches[event.data.fd]?(event.events)
        }
      }
    }
    let now = MonotonicTime.now()
    for timer in timers where timer.deadline <= now {
      timer.deadline = .never
      timer.action()
    }
  }

  private func control(_ operation: Int32, _ descriptor: Int32, _ events: UInt32) -> Bool {
    var event = epoll_event()
    event.events = events
    event.data.fd = descriptor
    return epoll_ctl(poll, operation, descriptor, &event) == 0
  }
}
