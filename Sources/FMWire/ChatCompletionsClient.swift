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
    return ChatEventStream(response: response, failure: failure)
  }

  /// What the server says of itself, asked once an endpoint and process and then remembered;
  /// a server that does not tell gives an empty answer, never an error. Takes at most five seconds.
  public func properties() async -> ServerProperties {
    var key = endpoint
    key.timeouts = HTTPTimeouts()
    if let known = Self.known.withLock({ $0[key] }) { return known }
    let limit = HTTPTimeouts(connect: 5, firstByte: 5, idle: 5, total: 5)
    guard
      let url = try? endpoint.rootURL("props"),
      let (head, body) = try? await HTTPClient.shared.send(
        HTTPRequest(
          method: "GET", url: url, unixSocketPath: endpoint.unixSocketPath,
          certificateFile: endpoint.certificateFile,
          headers: endpoint.requestHeaders([(name: "Accept", value: "application/json")]),
          timeouts: limit),
        maxBytes: 16 << 20)
    else { return ServerProperties() }
    switch head.status {
    case 200:
      guard let props = try? JSONValue(parsing: body) else { return ServerProperties() }
      let properties = ServerProperties(props)
      Self.known.withLock { $0[key] = properties }
      return properties
    case 404, 405, 501:
      // The server has no such page: asking again would cost a round trip a request.
      Self.known.withLock { $0[key] = ServerProperties() }
      return ServerProperties()
    default: return ServerProperties()
    }
  }

  private static let known = Mutex<[Endpoint: ServerProperties]>([:])

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
