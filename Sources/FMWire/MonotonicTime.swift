import Glibc

/// A moment on the clock that never jumps.
struct MonotonicTime: Sendable, Comparable {
  private let nanoseconds: UInt64

  /// Later than every other moment.
  static let never = MonotonicTime(nanoseconds: .max)

  static func now() -> MonotonicTime {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return MonotonicTime(nanoseconds: UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec))
  }

  /// `seconds` from this moment; more than a century counts as never.
  func advanced(by seconds: Double) -> MonotonicTime {
    guard self < .never, seconds < 4e9 else { return .never }
    return MonotonicTime(nanoseconds: nanoseconds + UInt64(max(seconds, 0) * 1e9))
  }

  /// Milliseconds from now, rounded up, as `epoll_wait` takes them; -1 for never.
  func millisecondsFromNow() -> Int32 {
    if self == .never { return -1 }
    let now = Self.now()
    if self <= now { return 0 }
    return Int32(clamping: (nanoseconds - now.nanoseconds + 999_999) / 1_000_000)
  }

  static func < (left: MonotonicTime, right: MonotonicTime) -> Bool {
    left.nanoseconds < right.nanoseconds
  }
}
