extension Endpoint {
  /// Throws `.invalidURL` unless the base URL is http or https with a host, and holds nothing but
  /// that, a port and a path: what else a URL can carry ends up in logs, and keys have a place of
  /// their own.
  package func validate() throws(WireError) {
    let url = try CurlURL(baseURL, as: "base URL")
    guard let excess = url.excess else { return }
    throw WireError(
      kind: .invalidURL,
      message: "the base URL of \(url.host) holds \(excess); use one like "
        + "http://127.0.0.1:8080/v1, with the key apart", url: url.shown)
  }

  /// Where completions are POSTed: a base URL that ends in `/chat/completions` as it is; one with a
  /// path component like `v1` with `/chat/completions` appended; any other with
  /// `/v1/chat/completions`. A query stays. Throws `.invalidURL`.
  public func completionsURL() throws(WireError) -> String {
    let url = try CurlURL(baseURL)
    let components = Self.components(of: url)
    if components.suffix(2) != ["chat", "completions"] {
      let isVersioned = components.contains(where: Self.isVersion)
      let tail = isVersioned ? ["chat", "completions"] : ["v1", "chat", "completions"]
      url.path = "/" + (components + tail).joined(separator: "/")
    }
    return url.text
  }

  /// A page beside the API: the base URL's path up to its version component, with `name` appended.
  /// Throws `.invalidURL`.
  func rootURL(_ name: String) throws(WireError) -> String {
    let url = try CurlURL(baseURL)
    var components = Self.components(of: url)
    if components.suffix(2) == ["chat", "completions"] { components.removeLast(2) }
    if let version = components.firstIndex(where: Self.isVersion) {
      components.removeSubrange(version...)
    }
    url.path = "/" + (components + [name]).joined(separator: "/")
    return url.text
  }

  private static func components(of url: CurlURL) -> [String] {
    var components = url.path.split(separator: "/", omittingEmptySubsequences: false)
      .map(String.init)
    components.removeFirst()
    while components.last == "" { components.removeLast() }
    return components
  }

  /// `v` and digits.
  private static func isVersion(_ component: String) -> Bool {
    component.utf8.count > 1 && component.hasPrefix("v")
      && component.utf8.dropFirst().allSatisfy { 48...57 ~= $0 }
  }

  /// The key that the environment holds, `OPENFM_API_KEY`; nil for none. White space around it, as
  /// in a key read from a file, does not count. Throws `.invalidURL` for one that no header can
  /// carry.
  package static func apiKey(in environment: [String: String]) throws(WireError) -> String? {
    guard let key = environment["OPENFM_API_KEY"]?.trimmingASCIIWhitespace(), !key.isEmpty else {
      return nil
    }
    guard !key.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) else {
      throw WireError(
        kind: .invalidURL,
        message: "OPENFM_API_KEY holds a line break or another control character; set it to the "
          + "key alone")
    }
    return key
  }

  /// A request to one of this endpoint's URLs, with its headers, limits and way there. Warns, once a
  /// host, where it would carry a key in the clear.
  func request(
    _ method: String, url: String, headers: [(name: String, value: String)],
    body: RequestBody = RequestBody()
  ) -> HTTPRequest {
    var request = HTTPRequest(
      method: method, url: url, unixSocketPath: unixSocketPath, certificateFile: certificateFile,
      headers: requestHeaders(headers), body: body, timeouts: timeouts)
    request.proxy = proxy
    ClearTextKeyWarning.check(request)
    return request
  }

  /// The requests' head: the client's own headers, then this endpoint's in their place.
  func requestHeaders(
    _ own: [(name: String, value: String)]
  ) -> [(name: String, value: String)] {
    var result = own
    // Keys are read from files that end in a line feed.
    if let key = apiKey?.trimmingASCIIWhitespace(), !key.isEmpty {
      result.append((name: "Authorization", value: "Bearer \(key)"))
    }
    for (name, value) in headers.sorted(by: { $0.key < $1.key }) {
      result.removeAll { $0.name.lowercased() == name.lowercased() }
      result.append((name: name, value: value))
    }
    return result
  }
}
