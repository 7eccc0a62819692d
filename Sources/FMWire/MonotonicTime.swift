import Glibc

/// A moment on the clock that never jumps.
package struct MonotonicTime: Sendable, Comparable {
  private let nanoseconds: UInt64

  /// Later than every other moment.
  static let never = MonotonicTime(nanoseconds: .max)

  package static func now() -> MonotonicTime {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return MonotonicTime(nanoseconds: UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec))
  }

  /// `seconds` from this moment; more than a century counts as never.
  func advanced(by seconds: Double) -> MonotonicTime {
    guard self < .never, seconds < 4e9 else { return .never }
    return MonotonicTime(nanoseconds: nanoseconds + UInt64(max(seconds, 0) * 1e9))
  }

  /// Seconds that have passed since this moment.
  package var secondsUntilNow: Double {
    let now = Self.now().nanoseconds
    return now > nanoseconds ? Double(now - nanoseconds) / 1e9 : 0
  }

  /// Milliseconds from now, rounded up, as `epoll_wait` takes them; -1 for never.
  func millisecondsFromNow() -> Int32 {
    if self == .never { return -1 }
    let now = Self.now()
    if self <= now { return 0 }
    return Int32(clamping: (nanoseconds - now.nanoseconds + 999_999) / 1_000_000)
  }

  /// Seconds from now; not above 0 for a moment that is past, infinite for never.
  var secondsFromNow: Double {
    if self == .never { return .infinity }
    let now = Self.now()
    return self <= now ? 0 : Double(nanoseconds - now.nanoseconds) / 1e9
  }

  package static func < (left: MonotonicTime, right: MonotonicTime) -> Bool {
    left.nanoseconds < right.nanoseconds
  }
}
