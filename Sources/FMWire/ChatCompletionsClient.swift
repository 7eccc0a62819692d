import Synchronization

/// Speaks the chat-completions protocol to one endpoint.
public struct ChatCompletionsClient: Sendable {
  public let endpoint: Endpoint
  public init(endpoint: Endpoint) { self.endpoint = endpoint }

  /// Bytes of an error's body that are read.
  private static let maxErrorBody = 64 << 10

  /// POSTs a request body (which asks for `"stream": true`) and gives its events as they arrive.
  /// An answer that is a plain JSON completion gives the same events. A stream that ends without a
  /// finish reason and without [DONE] throws `.endedEarly`.
  ///
  /// Throws `WireError`, or `CancellationError` when the task was cancelled; cancelling, or dropping
  /// the stream, closes the connection at once.
  public func stream(body: [UInt8]) async throws -> ChatEventStream {
    let (response, failure) = try await open(body)
    return ChatEventStream(response: response, failure: failure)
  }

  /// The same without a task switch a chunk: `take` gets the events on the I/O thread, batch after
  /// batch, and must not block. Returns what the server said beside them, when the answer is
  /// complete. After it has returned or thrown, `take` is not called any more.
  package func stream(
    body: [UInt8], take: @escaping @Sendable ([ChatEvent]) -> Void
  ) async throws -> JSONObject {
    let (response, failure) = try await open(body)
    let push = ChatPush(failure: failure, take: take)
    defer { push.close() }
    do {
      try await response.pour { push.receive($0) }
    } catch let error as WireError where error.kind == .endedEarly && push.isComplete {
    }
    try push.finish()
    return push.details
  }

  /// A good answer's head.
  private func open(_ body: [UInt8]) async throws -> (HTTPResponseStream, ServerFailure) {
    let request = HTTPRequest(
      method: "POST", url: try endpoint.completionsURL(), unixSocketPath: endpoint.unixSocketPath,
      certificateFile: endpoint.certificateFile,
      headers: endpoint.requestHeaders([
        (name: "Content-Type", value: "application/json"),
        (name: "Accept", value: "text/event-stream"),
      ]),
      body: body, timeouts: endpoint.timeouts)
    let response = try await HTTPClient.shared.stream(request)
    let failure = ServerFailure(
      url: try CurlURL(request.url).shown, secrets: Secrets(of: endpoint), head: response.head)
    guard 200..<300 ~= response.head.status else {
      throw failure.error(body: try await Self.errorBody(of: response))
    }
    return (response, failure)
  }

  /// What the server is and what it says of itself and the model: asked once an endpoint, model and
  /// process, and remembered; a server that does not tell gives an empty description, never an error.
  /// Takes at most `ServerProbe.seconds`.
  package func describe(model: String = "") async -> ServerDescription {
    var endpoint = endpoint
    endpoint.timeouts = HTTPTimeouts()
    let key = DescriptionKey(endpoint: endpoint, model: model)
    let now = MonotonicTime.now()
    if let known = Self.descriptions.withLock({ $0[key] }), now < known.end {
      return known.description
    }
    var probe = ServerProbe(self, model: model)
    let (description, isFinal) = await probe.run()
    // A probe that was cancelled learned nothing.
    if Task.isCancelled { return description }
    if isFinal || description.dialect.server != .generic {
      // What is still missing, a model that is loaded later has.
      let end = isFinal ? MonotonicTime.never : MonotonicTime.now().advanced(by: 10)
      Self.descriptions.withLock { $0[key] = (description, end) }
    }
    return description
  }

  private struct DescriptionKey: Hashable {
    let endpoint: Endpoint
    let model: String
  }

  private static let descriptions = Mutex<
    [DescriptionKey: (description: ServerDescription, end: MonotonicTime)]
  >([:])

  /// A page beside the API, e.g. `props`: GET, or POST of a JSON body. Any status is an answer;
  /// throws as `stream`, and `.invalidResponse` for more than 16 MiB.
  package func page(
    _ name: String, body: [UInt8]? = nil, timeouts: HTTPTimeouts? = nil
  ) async throws -> (head: HTTPResponseHead, body: [UInt8]) {
    var headers = [(name: "Accept", value: "application/json")]
    if body != nil { headers.append((name: "Content-Type", value: "application/json")) }
    return try await HTTPClient.shared.send(
      HTTPRequest(
        method: body == nil ? "GET" : "POST", url: try endpoint.rootURL(name),
        unixSocketPath: endpoint.unixSocketPath, certificateFile: endpoint.certificateFile,
        headers: endpoint.requestHeaders(headers), body: body ?? [],
        timeouts: timeouts ?? endpoint.timeouts),
      maxBytes: 16 << 20)
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
