import Testing

@testable import FMWire

@Suite struct RetryPolicyTests {
  var random = SystemRandomNumberGenerator()

  static func failure(retryAfter: Double? = nil, isTransient: Bool = true) -> WireError {
    var error = WireError(kind: .server, message: "", retryAfter: retryAfter)
    error.isTransient = isTransient
    return error
  }

  mutating func wait(
    _ policy: RetryPolicy, _ error: WireError = Self.failure(), retries: Int = 0,
    elapsed: Double = 0, total: Double = 0
  ) -> Double? {
    policy.delay(
      after: error, retries: retries, elapsed: elapsed, total: total, using: &random)
  }

  @Test mutating func waitsLongerEachTimeUpToALimit() throws {
    let policy = RetryPolicy(maximumRetries: 50, baseDelay: 0.5, maximumDelay: 8)
    for retries in 0..<40 {
      let longest = min(8, 0.5 * Double(1 << min(retries, 20)))
      var seen: Set<Double> = []
      for _ in 0..<20 {
        let delay = try #require(wait(policy, retries: retries))
        #expect((longest / 2)...longest ~= delay)
        seen.insert(delay)
      }
      // Clients that failed together do not come back together.
      #expect(seen.count > 10)
    }
  }

  @Test mutating func stopsAfterSoManyAndAtTheDeadline() {
    let policy = RetryPolicy(maximumRetries: 2, deadline: 10)
    #expect(wait(policy, retries: 1) != nil)
    #expect(wait(policy, retries: 2) == nil)
    #expect(wait(.none) == nil)
    #expect(wait(policy, Self.failure(isTransient: false)) == nil)
    #expect(wait(policy, elapsed: 9) != nil)
    #expect(wait(policy, elapsed: 10) == nil)
    #expect(wait(policy, elapsed: 2, total: 2.2) == nil)
  }

  @Test mutating func waitsAsLongAsAsked() throws {
    let policy = RetryPolicy(maximumRetryAfter: 30)
    for asked in [0, 0.5, 2, 30] {
      let delay = try #require(wait(policy, Self.failure(retryAfter: asked)))
      #expect(asked...(asked + 0.25) ~= delay)
    }
    #expect(wait(policy, Self.failure(retryAfter: 31)) == nil)
    #expect(wait(policy, Self.failure(retryAfter: 5), total: 4) == nil)
  }
}
