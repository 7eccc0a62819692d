/// Where a chat-completions server is and how to talk to it.
public struct Endpoint: Sendable, Hashable {
  /// Base URL as given, e.g. `http://127.0.0.1:8080` or `https://host/v1`.
  public var baseURL: String
  public var unixSocketPath: String?
  /// A PEM file of the authorities to trust in place of the system's.
  public var certificateFile: String?
  public var apiKey: String?
  /// Sent with every request; they win over the client's own.
  public var headers: [String: String]
  public var timeouts: HTTPTimeouts
  public var retry: RetryPolicy
  /// A proxy's URL, "" for none, nil for what the environment says (which is not asked for this
  /// machine itself and for Unix sockets).
  public var proxy: String?
  /// Bytes of an answer's body, all events together; a longer one is an `invalidResponse` error. It
  /// bounds what an answer can make the memory grow by, whatever the server sends.
  public var maximumAnswerBytes = 256 << 20

  public init(
    baseURL: String, unixSocketPath: String? = nil, certificateFile: String? = nil,
    apiKey: String? = nil, headers: [String: String] = [:],
    timeouts: HTTPTimeouts = HTTPTimeouts(), retry: RetryPolicy = RetryPolicy(),
    proxy: String? = nil
  ) {
    self.baseURL = baseURL
    self.unixSocketPath = unixSocketPath
    self.certificateFile = certificateFile
    self.apiKey = apiKey
    self.headers = headers
    self.timeouts = timeouts
    self.retry = retry
    self.proxy = proxy
  }
}
