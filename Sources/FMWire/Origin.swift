import CCurl

/// Scheme, host and port of a URL: who gets to see a key that is meant for that URL.
struct Origin: Equatable {
  private let scheme: String
  private let host: String
  private let port: String

  init(_ url: String) throws(WireError) {
    let handle = try Handle()
    try handle.set(url)
    scheme = handle.part(CURLUPART_SCHEME)
    host = handle.part(CURLUPART_HOST).lowercased()
    port = handle.part(CURLUPART_PORT)
  }

  /// The URL that a Location header means (RFC 3986 section 5).
  static func resolve(_ location: String, relativeTo base: String) throws(WireError) -> String {
    let handle = try Handle()
    try handle.set(base)
    try handle.set(location)
    return handle.part(CURLUPART_URL)
  }

  /// Owns libcurl's URL object.
  private final class Handle {
    private let pointer: OpaquePointer

    init() throws(WireError) {
      guard let pointer = curl_url() else {
        throw WireError(kind: .invalidURL, message: "out of memory")
      }
      self.pointer = pointer
    }

    deinit { curl_url_cleanup(pointer) }

    /// A relative URL is taken relative to the one that was set before.
    func set(_ text: String) throws(WireError) {
      let code = curl_url_set(pointer, CURLUPART_URL, text, UInt32(CURLU_NON_SUPPORT_SCHEME))
      guard code == CURLUE_OK, !text.utf8.contains(0) else {
        throw WireError(
          kind: .invalidURL,
          message: "a URL cannot be used: " + String(cString: curl_url_strerror(code)))
      }
    }

    func part(_ part: CURLUPart) -> String {
      let flags = part == CURLUPART_PORT ? UInt32(CURLU_DEFAULT_PORT) : 0
      var value: UnsafeMutablePointer<CChar>?
      guard curl_url_get(pointer, part, &value, flags) == CURLUE_OK, let value else { return "" }
      defer { curl_free(value) }
      return String(cString: value)
    }
  }
}
