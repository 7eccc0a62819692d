import Synchronization

/// What became of a request: its attempts, and what the server said about its limits. Grows while
/// the answer is read.
public final class RequestReport: Sendable {
  private struct State {
    var attempts: [RequestAttempt] = []
    var start = MonotonicTime.now()
    var rateLimits: [(name: String, value: String)] = []
  }

  private let state = Mutex(State())

  /// In order; the last one may be under way.
  public var attempts: [RequestAttempt] { state.withLock(\.attempts) }

  /// The rate limit headers of the newest answer, names in lower case, in the order sent.
  public var rateLimits: [(name: String, value: String)] { state.withLock(\.rateLimits) }

  /// Attempts after the first.
  var retries: Int { max(attempts.count - 1, 0) }

  func begin() {
    state.withLock { state in
      state.attempts.append(RequestAttempt())
      state.start = .now()
    }
  }

  func note(_ head: HTTPResponseHead) {
    let limits = head.rateLimits
    state.withLock { state in
      state.rateLimits = limits
      state.attempts[state.attempts.count - 1].httpStatus = head.status
      state.attempts[state.attempts.count - 1].duration = state.start.secondsUntilNow
    }
  }

  func note(_ failure: WireError) {
    state.withLock { state in
      let last = state.attempts.count - 1
      state.attempts[last].failure = failure.kind
      state.attempts[last].message = failure.message
      state.attempts[last].duration = state.start.secondsUntilNow
    }
  }

  func note(delay: Double) {
    state.withLock { $0.attempts[$0.attempts.count - 1].delay = delay }
  }

  /// The error with what is known of its request.
  func attached(to error: WireError) -> WireError {
    var error = error
    state.withLock { state in
      error.attempts = state.attempts
      error.rateLimits = state.rateLimits.map { WireError.Header(name: $0.name, value: $0.value) }
    }
    return error
  }
}

extension HTTPResponseHead {
  /// The headers by which servers tell how much a client may still ask for, and when again.
  var rateLimits: [(name: String, value: String)] {
    headers.filter { name, _ in
      name.hasPrefix("x-ratelimit-") || name.hasPrefix("ratelimit") || name == "retry-after"
        || name == "retry-after-ms" || name.hasPrefix("anthropic-ratelimit-")
    }
  }
}
