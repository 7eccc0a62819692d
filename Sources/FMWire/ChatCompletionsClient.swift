/// Speaks the chat-completions protocol to one endpoint.
public struct ChatCompletionsClient: Sendable {
  public let endpoint: Endpoint
  public init(endpoint: Endpoint) { self.endpoint = endpoint }

  /// POSTs a request body (which asks for `"stream": true`) and gives its events as they arrive.
  /// An answer that is a plain JSON completion gives the same events. A stream that ends without a
  /// finish reason and without [DONE] throws `.endedEarly`.
  public func stream(body: [UInt8]) async throws -> ChatEventStream { fatalError() }

  /// What the server says of itself, asked once an endpoint and process and then remembered;
  /// a server that does not tell gives an empty answer, never an error.
  public func properties() async -> ServerProperties { fatalError() }
}

public struct ServerProperties: Sendable, Equatable {
  /// nil = unknown.
  public var acceptsImages: Bool?
  /// Tokens of one request's context; nil = unknown.
  public var contextSize: Int?
  public init(acceptsImages: Bool? = nil, contextSize: Int? = nil) {
    self.acceptsImages = acceptsImages
    self.contextSize = contextSize
  }
}

public struct ChatEventStream: Sendable, AsyncSequence {
  public typealias Element = ChatEvent
  public struct AsyncIterator: AsyncIteratorProtocol {
    public mutating func next() async throws -> ChatEvent? { fatalError() }
  }
  public func makeAsyncIterator() -> AsyncIterator { fatalError() }
}
