import Synchronization

/// Speaks the chat-completions protocol to one endpoint.
public struct ChatCompletionsClient: Sendable {
  public let endpoint: Endpoint
  public init(endpoint: Endpoint) { self.endpoint = endpoint }

  /// POSTs a request body (which asks for `"stream": true`) and gives its events as they arrive.
  /// An answer that is a plain JSON completion gives the same events. A stream that ends without a
  /// finish reason and without [DONE] throws `.endedEarly`.
  ///
  /// Throws `WireError`, or `CancellationError` when the task was cancelled; cancelling, or dropping
  /// the stream, closes the connection at once.
  ///
  /// A failure that may pass is tried again as the endpoint's policy says, as long as no event was
  /// given; `ChatEventStream.report` and the error tell of every attempt.
  package func stream(body: RequestBody) async throws -> ChatEventStream {
    let sender = try ChatSender(endpoint, body: body)
    return ChatEventStream(answer: try await sender.open(), sender: sender)
  }

  /// The same without a task switch a chunk: `take` gets the events on the I/O thread, batch after
  /// batch, and must not block. Returns what the server said beside them, when the answer is
  /// complete. After it has returned or thrown, `take` is not called any more. While `flow` is held,
  /// the answer is not read.
  package func stream(
    body: RequestBody, about subject: RequestSubject = RequestSubject(), flow: AnswerFlow? = nil,
    take: @escaping @Sendable ([ChatEvent]) -> Void
  ) async throws -> (details: JSONObject, report: RequestReport) {
    let observation = try RequestObservation.begin(
      RequestRecord(
        method: "POST", url: CurlURL(endpoint.completionsURL()).shown, model: subject.model,
        images: subject.images),
      request: body, secrets: Secrets(of: endpoint))
    let body = UsageRequest.adapted(body, for: endpoint)
    var sender = try ChatSender(endpoint, body: body)
    do {
      let details: JSONObject
      do {
        details = try await Self.run(sender, observation, flow, take)
      } catch let error as WireError {
        guard let other = UsageRequest.body(inPlaceOf: body, after: error, at: endpoint) else {
          throw error
        }
        sender = try ChatSender(endpoint, body: other)
        details = try await Self.run(sender, observation, flow, take)
      }
      observation?.end(nil, retries: sender.report.retries)
      return (details, sender.report)
    } catch {
      observation?.end(error, retries: sender.report.retries)
      throw error
    }
  }

  private static func run(
    _ sender: ChatSender, _ observation: RequestObservation?, _ flow: AnswerFlow?,
    _ take: @escaping @Sendable ([ChatEvent]) -> Void
  ) async throws -> JSONObject {
    var answer = try await sender.open()
    while true {
      observation?.note(head: answer.response.head)
      let push = ChatPush(answer) { events in
        observation?.note(events)
        take(events)
      }
      do {
        try await pour(answer.response, into: push, observation, flow)
        return push.details
      } catch let error as WireError {
        guard error.isTransient, !push.hasGiven else { throw sender.final(error) }
        answer = try await sender.reopen(after: error)
      }
    }
  }

  private static func pour(
    _ response: HTTPResponseStream, into push: ChatPush, _ observation: RequestObservation?,
    _ flow: AnswerFlow?
  ) async throws {
    defer { push.close() }
    do {
      try await response.pour(flow: flow) { bytes in
        observation?.note(body: bytes)
        return push.receive(bytes)
      }
    } catch let error as WireError where error.kind == .endedEarly && push.isComplete {
    }
    try push.finish()
  }

  /// What the server is and what it says of itself and the model: asked once an endpoint, model and
  /// process, and remembered; a server that does not tell gives an empty description, never an error.
  /// Takes at most `ServerProbe.seconds`.
  package func describe(model: String = "") async -> ServerDescription {
    var endpoint = endpoint
    endpoint.timeouts = HTTPTimeouts()
    endpoint.retry = .none
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
    _ name: String, body: RequestBody? = nil, timeouts: HTTPTimeouts? = nil
  ) async throws -> (head: HTTPResponseHead, body: [UInt8]) {
    var headers = [(name: "Accept", value: "application/json")]
    if body != nil { headers.append((name: "Content-Type", value: "application/json")) }
    var endpoint = endpoint
    if let timeouts { endpoint.timeouts = timeouts }
    let request = endpoint.request(
      body == nil ? "GET" : "POST", url: try endpoint.rootURL(name), headers: headers,
      body: body ?? RequestBody())
    let observation = try RequestObservation.begin(
      RequestRecord(method: request.method, url: CurlURL(request.url).shown),
      request: request.body, secrets: Secrets(of: endpoint))
    do {
      let answer = try await HTTPClient.shared.send(request, maxBytes: 16 << 20)
      observation?.note(head: answer.head)
      answer.body.withUnsafeBufferPointer { observation?.note(body: $0) }
      observation?.end(nil)
      return answer
    } catch {
      observation?.end(error)
      throw error
    }
  }
}
