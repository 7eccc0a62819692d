/// Why a request got no usable answer.
public struct WireError: Error, Sendable, Equatable {
  public enum Kind: String, Sendable, CaseIterable {
    /// The URL cannot be used (no http or https, no host...).
    case invalidURL
    /// No connection: name not found, refused, reset before an answer.
    case connect
    /// The TLS handshake or the certificate check failed.
    case tls
    /// A time limit passed; `message` says which (connect, first byte, idle, total).
    case timeout
    /// The server answered with an error: `httpStatus`, its own words in `message`.
    case server
    /// 401 or 403.
    case authentication
    /// 404 for the endpoint or the model.
    case notFound
    /// 429, or the server's own words for it.
    case rateLimited
    /// The prompt does not fit: `tokenCount` and `contextSize` where the server told them.
    case contextSizeExceeded
    /// 413, or the like.
    case requestTooLarge
    /// The server says it takes no pictures.
    case imagesUnsupported
    /// A content filter of the server refused the request.
    case contentFiltered
    /// The answer is no valid HTTP, SSE or JSON; `message` holds the offending text, shortened.
    case invalidResponse
    /// The stream ended without a finish reason and without [DONE].
    case endedEarly
    case cancelled
  }

  public var kind: Kind
  /// One line: what failed, on which URL, what to do. Never holds a key or a picture's bytes.
  public var message: String
  public var url: String?
  public var httpStatus: Int?
  /// The server's body, shortened to 4 KiB.
  public var body: String?
  public var tokenCount: Int?
  public var contextSize: Int?
  /// Seconds to wait, from Retry-After.
  public var retryAfter: Double?
  /// The same request may well succeed a little later.
  public var isTransient = false
  /// All attempts of the request, the failed last one included; empty where none was made.
  public var attempts: [RequestAttempt] = []
  /// The answer's rate limit headers.
  public var rateLimits: [Header] = []

  public struct Header: Sendable, Equatable {
    /// In lower case.
    public var name: String
    public var value: String
  }

  public init(
    kind: Kind, message: String, url: String? = nil, httpStatus: Int? = nil, body: String? = nil,
    tokenCount: Int? = nil, contextSize: Int? = nil, retryAfter: Double? = nil
  ) {
    self.kind = kind
    self.message = message
    self.url = url
    self.httpStatus = httpStatus
    self.body = body
    self.tokenCount = tokenCount
    self.contextSize = contextSize
    self.retryAfter = retryAfter
  }
}
