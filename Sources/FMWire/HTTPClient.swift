/// HTTP over libcurl: one I/O thread a process, curl's multi interface driven by epoll.
///
/// HTTP/1.1, and HTTP/2 over TLS where both sides can. Connections are reused. Redirects are not
/// followed; proxies come from the environment and are never used for loopback; certificates are
/// always checked.
public final class HTTPClient: Sendable {
  public static let shared = HTTPClient()
  static let userAgent = "openfm/\(openFMVersion)"

  private init() {}

  /// Returns once the response's headers are there, whatever its status.
  ///
  /// Throws `WireError`, or `CancellationError` when the task was cancelled; the connection is then
  /// closed at once.
  public func stream(_ request: HTTPRequest) async throws -> HTTPResponseStream {
    let target = try HTTPTarget(request)
    try Task.checkCancellation()
    try IOThread.shared.start()
    let exchange = HTTPExchange(request: request, target: target)
    return HTTPResponseStream(head: try await exchange.start(), exchange: exchange)
  }

  /// The whole response; a body over `maxBytes` is an `invalidResponse` error.
  public func send(_ request: HTTPRequest, maxBytes: Int = 64 << 20) async throws
    -> (head: HTTPResponseHead, body: [UInt8])
  {
    let response = try await stream(request)
    var body: [UInt8] = []
    for try await chunk in response {
      if body.isEmpty { body = chunk } else { body.append(contentsOf: chunk) }
      if body.count > maxBytes {
        let url = try CurlURL(request.url).shown
        throw WireError(
          kind: .invalidResponse, message: "\(url) sent a body longer than \(maxBytes) bytes",
          url: url, httpStatus: response.head.status)
      }
    }
    return (response.head, body)
  }

  /// Ends every running request of the process with a `.cancelled` error and closes its connection.
  public func cancelAll() {
    IOThread.shared.perform { HTTPDriver.shared.cancelAll() }
  }
}
