extension Endpoint {
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
