import Synchronization

/// Lets something happen at most ten times a second.
final class Throttle: Sendable {
  private let last = Mutex<ContinuousClock.Instant?>(nil)

  var isDue: Bool {
    last.withLock { last in
      let now = ContinuousClock.now
      if let last, now - last < .milliseconds(100) { return false }
      last = now
      return true
    }
  }
}
