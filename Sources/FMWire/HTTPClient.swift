public struct HTTPTimeouts: Sendable, Hashable {
  /// Seconds; 0 = no limit.
  public var connect: Double
  /// From the request's last byte to the response's first.
  public var firstByte: Double
  /// Between two chunks of a body.
  public var idle: Double
  public var total: Double
  public init(
    connect: Double = 10, firstByte: Double = 300, idle: Double = 120, total: Double = 0
  ) {
    self.connect = connect
    self.firstByte = firstByte
    self.idle = idle
    self.total = total
  }
}

public struct HTTPRequest: Sendable {
  public var method: String
  public var url: String
  /// Connect to this Unix socket; the URL then only gives the path and the Host header.
  public var unixSocketPath: String?
  public var headers: [(name: String, value: String)]
  public var body: [UInt8]
  public var timeouts: HTTPTimeouts

  public init(
    method: String, url: String, unixSocketPath: String? = nil,
    headers: [(name: String, value: String)] = [], body: [UInt8] = [],
    timeouts: HTTPTimeouts = HTTPTimeouts()
  ) {
    self.method = method
    self.url = url
    self.unixSocketPath = unixSocketPath
    self.headers = headers
    self.body = body
    self.timeouts = timeouts
  }
}

public struct HTTPResponseHead: Sendable {
  public var status: Int
  /// Names in lower case.
  public var headers: [(name: String, value: String)]
  public func header(_ name: String) -> String? { headers.last { $0.name == name }?.value }
}

/// A response whose body arrives in chunks. Dropping the iterator or cancelling the task that
/// iterates closes the connection at once.
public struct HTTPResponseStream: Sendable, AsyncSequence {
  public typealias Element = [UInt8]
  public var head: HTTPResponseHead

  public struct AsyncIterator: AsyncIteratorProtocol {
    /// The next chunk, nil at the end of a complete body. Throws `WireError`, or
    /// `CancellationError` when the task was cancelled.
    public mutating func next() async throws -> [UInt8]? { fatalError() }
  }
  public func makeAsyncIterator() -> AsyncIterator { fatalError() }
}

/// HTTP over libcurl: one I/O thread a process, curl's multi interface driven by epoll.
public final class HTTPClient: Sendable {
  public static let shared = HTTPClient()

  /// Returns once the response's headers are there.
  public func stream(_ request: HTTPRequest) async throws -> HTTPResponseStream { fatalError() }

  /// The whole response; a body over `maxBytes` is an `invalidResponse` error.
  public func send(_ request: HTTPRequest, maxBytes: Int = 64 << 20) async throws
    -> (head: HTTPResponseHead, body: [UInt8])
  { fatalError() }
}
