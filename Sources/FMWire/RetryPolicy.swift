/// When a request that failed is sent again.
///
/// Only what may pass by itself is tried again: no connection, 408, 425, 429 and 5xx answers that are
/// not known to be final; and only while nothing of the answer was handed on. The request's total
/// time limit covers all attempts and the waits between them.
///
/// Not counted is what libcurl does by itself: a kept connection that turns out to be closed before
/// any byte of an answer is replaced by a new one.
public struct RetryPolicy: Sendable, Hashable {
  /// Attempts after the first one; 0 = none, for callers who back off by themselves.
  public var maximumRetries: Int
  /// Seconds. The wait before retry n (from 0) is between a half and all of `baseDelay * 2^n`.
  public var baseDelay: Double
  /// Seconds that such a wait has at most.
  public var maximumDelay: Double
  /// Seconds that a server's Retry-After may ask for; one that asks for more gets no retry.
  public var maximumRetryAfter: Double
  /// Seconds from the start of the first attempt after which no other begins.
  public var deadline: Double

  public init(
    maximumRetries: Int = 2, baseDelay: Double = 0.5, maximumDelay: Double = 8,
    maximumRetryAfter: Double = 60, deadline: Double = 600
  ) {
    self.maximumRetries = maximumRetries
    self.baseDelay = baseDelay
    self.maximumDelay = maximumDelay
    self.maximumRetryAfter = maximumRetryAfter
    self.deadline = deadline
  }

  public static let none = RetryPolicy(maximumRetries: 0)

  /// Seconds to wait before the next attempt; nil = give up.
  ///
  /// - Parameters:
  ///   - retries: how many there were already.
  ///   - elapsed: seconds since the first attempt began.
  ///   - total: the request's total time limit in seconds; 0 = none.
  func delay(
    after error: WireError, retries: Int, elapsed: Double, total: Double,
    using random: inout some RandomNumberGenerator
  ) -> Double? {
    guard error.isTransient, retries < maximumRetries else { return nil }
    let longest = min(maximumDelay, baseDelay * Double(1 << min(retries, 30)))
    var delay = longest <= 0 ? 0 : Double.random(in: longest / 2...longest, using: &random)
    if let asked = error.retryAfter {
      guard asked <= maximumRetryAfter else { return nil }
      // A little later than asked, and not all clients in the same moment.
      delay = asked + Double.random(in: 0...0.25, using: &random) * min(asked, 1)
    }
    let next = elapsed + delay
    return next > deadline || (total > 0 && next >= total) ? nil : delay
  }
}
