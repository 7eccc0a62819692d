/// Sends one chat-completions request, and again where the endpoint's policy allows.
struct ChatSender: Sendable {
  /// Bytes of an error's body that are read.
  private static let maxErrorBody = 64 << 10

  let report = RequestReport()
  private let request: HTTPRequest
  private let retry: RetryPolicy
  private let maximumAnswerBytes: Int
  private let shownURL: String
  private let secrets: Secrets
  private let start = MonotonicTime.now()

  /// Throws `.invalidURL`.
  init(_ endpoint: Endpoint, body: RequestBody) throws(WireError) {
    request = endpoint.request(
      "POST", url: try endpoint.completionsURL(),
      headers: [
        (name: "Content-Type", value: "application/json"),
        (name: "Accept", value: "text/event-stream"),
      ], body: body)
    retry = endpoint.retry
    maximumAnswerBytes = endpoint.maximumAnswerBytes
    shownURL = try CurlURL(request.url).shown
    secrets = Secrets(of: endpoint)
  }

  struct Answer {
    var response: HTTPResponseStream
    var failure: ServerFailure
    /// Bytes of its body, beyond which it is an error.
    var maximumBytes: Int

    func makeDecoder() -> ChatStreamDecoder {
      ChatStreamDecoder(failure: failure, maximumBytes: maximumBytes)
    }
  }

  /// A good answer's head. Throws `WireError` with its attempts, or `CancellationError`.
  func open() async throws -> Answer {
    while true {
      do {
        return try await attempt()
      } catch let error as WireError {
        try await wait(after: error)
      }
    }
  }

  /// Another answer in place of one that failed before it had said anything.
  func reopen(after error: WireError) async throws -> Answer {
    try await wait(after: error)
    return try await open()
  }

  private func attempt() async throws -> Answer {
    var request = request
    request.elapsed = start.secondsUntilNow
    report.begin()
    let response = try await HTTPClient.shared.stream(request)
    report.note(response.head)
    let failure = ServerFailure(
      url: shownURL, secrets: secrets, head: response.head, requestBytes: request.body.count)
    guard 200..<300 ~= response.head.status else {
      throw failure.error(body: try await Self.errorBody(of: response))
    }
    return Answer(response: response, failure: failure, maximumBytes: maximumAnswerBytes)
  }

  /// Returns when it is time for the next attempt; throws the error where there is to be none.
  private func wait(after error: WireError) async throws {
    report.note(error)
    var random = SystemRandomNumberGenerator()
    let delay = retry.delay(
      after: error, retries: report.attempts.count - 1, elapsed: start.secondsUntilNow,
      total: request.timeouts.total, using: &random)
    guard let delay else { throw report.attached(to: error) }
    report.note(delay: delay)
    try await Task.sleep(for: .seconds(delay))
  }

  /// The error with what is known of its request, when it is no case for another attempt.
  func final(_ error: WireError) -> WireError {
    report.note(error)
    return report.attached(to: error)
  }

  /// As much of the body as comes; the status is the news, not a body that breaks off.
  private static func errorBody(of response: HTTPResponseStream) async throws -> [UInt8] {
    var body: [UInt8] = []
    do {
      for try await chunk in response {
        body.append(contentsOf: chunk)
        if body.count >= maxErrorBody { break }
      }
    } catch is WireError {
      // Cancellation, though, is passed on.
    }
    return body
  }
}
