public struct HTTPRequest: Sendable {
  public var method: String
  public var url: String
  /// Connect to this Unix socket; the URL then only gives the path and the Host header.
  public var unixSocketPath: String?
  /// A PEM file of the authorities to trust in place of the system's.
  public var certificateFile: String?
  public var headers: [(name: String, value: String)]
  package var body: RequestBody
  public var timeouts: HTTPTimeouts
  /// Seconds of the total time limit that earlier attempts have used up.
  public var elapsed = 0.0
  /// A proxy's URL, "" for none, nil for what the environment says. The environment's is never used
  /// for this machine itself and for Unix sockets, an explicit one is.
  public var proxy: String?

  package init(
    method: String, url: String, unixSocketPath: String? = nil, certificateFile: String? = nil,
    headers: [(name: String, value: String)] = [], body: RequestBody = RequestBody(),
    timeouts: HTTPTimeouts = HTTPTimeouts()
  ) {
    self.method = method
    self.url = url
    self.unixSocketPath = unixSocketPath
    self.certificateFile = certificateFile
    self.headers = headers
    self.body = body
    self.timeouts = timeouts
  }
}
