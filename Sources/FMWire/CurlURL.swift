import CCurl

/// A URL taken apart by libcurl, so that what is checked and what is used are the same.
final class CurlURL {
  private let pointer: OpaquePointer

  /// Throws `.invalidURL`, with curl's reason; `name` is what the message calls the URL.
  init(_ text: String, as name: String = "URL") throws(WireError) {
    guard let pointer = curl_url() else {
      throw WireError(kind: .invalidURL, message: "out of memory")
    }
    self.pointer = pointer
    var reason: String?
    if text.utf8.contains(0) {
      reason = "it holds a NUL byte"
    } else if let blank = text.utf8.first(where: { $0 == 0x20 || 0x09...0x0D ~= $0 }) {
      // curl's own words are about whatever part of the URL the blank ended up in.
      reason = blank == 0x20 ? "it holds a space" : "it holds a tab or a line break"
    } else {
      let code = curl_url_set(
        pointer, CURLUPART_URL, text, UInt32(CURLU_NON_SUPPORT_SCHEME | CURLU_DEFAULT_SCHEME))
      if code != CURLUE_OK { reason = String(cString: curl_url_strerror(code)) }
    }
    let plain = ByteText(text)
    let hasScheme = plain.contains("://")
    let scheme = part(CURLUPART_SCHEME)?.lowercased()
    if reason == nil, !hasScheme || (scheme != "http" && scheme != "https") {
      reason = "it does not start with http:// or https://"
    } else if reason == nil,
      // curl would take the first part of the path for the host.
      part(CURLUPART_HOST)?.isEmpty ?? true || plain.contains(":///")
    {
      reason = "it names no host"
    }
    if let reason {
      // Not quoted in full: a URL that cannot be parsed may hold a key anywhere.
      let shown = reason.hasPrefix("it does not start") ? " '\(Self.withoutSecrets(text))'" : ""
      throw WireError(
        kind: .invalidURL,
        message: "the \(name)\(shown) cannot be used: \(reason); write it like "
          + "http://127.0.0.1:8080 or https://host/v1")
    }
  }

  deinit { curl_url_cleanup(pointer) }

  var scheme: String { part(CURLUPART_SCHEME)?.lowercased() ?? "" }
  /// Without the brackets of an IPv6 address.
  var host: String {
    let host = part(CURLUPART_HOST) ?? ""
    return host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : host
  }
  var path: String {
    get { part(CURLUPART_PATH) ?? "/" }
    set { curl_url_set(pointer, CURLUPART_PATH, newValue, 0) }
  }

  /// What it holds beyond scheme, host, port and path, in words; nil = nothing.
  var excess: String? {
    if part(CURLUPART_USER) != nil || part(CURLUPART_PASSWORD) != nil {
      return "a user or password"
    }
    if part(CURLUPART_QUERY) != nil { return "a query" }
    return part(CURLUPART_FRAGMENT) != nil ? "a fragment" : nil
  }

  /// The whole URL.
  var text: String { part(CURLUPART_URL) ?? "" }

  /// Scheme, host, port and path: what messages show. Names and passwords before the host and
  /// everything after the path may be secrets.
  var shown: String {
    let host = part(CURLUPART_HOST) ?? ""
    let port = part(CURLUPART_PORT).map { ":\($0)" } ?? ""
    return "\(scheme)://\(host)\(port)\(path)"
  }

  /// Whether the host is this machine by name or address.
  var isLoopback: Bool {
    let host = host.lowercased()
    return host == "localhost" || host.hasSuffix(".localhost") || host == "::1"
      || (host.hasPrefix("127.") && host.allSatisfy { $0.isNumber || $0 == "." })
  }

  private func part(_ part: CURLUPart) -> String? {
    var value: UnsafeMutablePointer<CChar>?
    guard curl_url_get(pointer, part, &value, 0) == CURLUE_OK, let value else { return nil }
    defer { curl_free(value) }
    return String(cString: value)
  }

  private static func withoutSecrets(_ text: String) -> String {
    let end = text.firstIndex { $0 == "?" || $0 == "#" } ?? text.endIndex
    let start = text[..<end].lastIndex(of: "@").map { text.index(after: $0) } ?? text.startIndex
    return String(text[start..<end].prefix(200))
  }
}
