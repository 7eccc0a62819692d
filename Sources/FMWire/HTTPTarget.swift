/// Where a request goes, checked before anything is opened.
struct HTTPTarget: Sendable {
  let url: String
  /// What messages show: no user, password, query or fragment.
  let shownURL: String
  let host: String
  let isSecure: Bool
  let isLoopback: Bool
  /// nil = plain HTTP that no proxy can lead over TLS, or no authorities found for one that might.
  let certificates: CertificateSource?
  /// A proxy's URL, "" for none, nil for what the environment says.
  let proxy: String?
  /// The request's head beyond what curl writes itself.
  let headerLines: [String]

  /// Throws `.invalidURL` for a URL, method or header that cannot be sent and `.tls` when no
  /// certificate authorities are to be found.
  init(_ request: HTTPRequest) throws(WireError) {
    let parts = try CurlURL(request.url)
    url = parts.text
    shownURL = parts.shown
    host = parts.host
    isSecure = parts.scheme == "https"
    isLoopback = parts.isLoopback
    proxy = request.proxy ?? (isLoopback || request.unixSocketPath != nil ? "" : nil)
    if isSecure {
      certificates = try CertificateSource.find(request.certificateFile, for: parts.shown)
    } else if proxy == "" {
      certificates = nil
    } else {
      // For a proxy that is reached over TLS; without one, plain HTTP needs no authorities.
      certificates = try? CertificateSource.find(request.certificateFile, for: parts.shown)
    }

    guard !request.method.isEmpty, request.method.utf8.allSatisfy(Self.isTokenByte) else {
      throw WireError(
        kind: .invalidURL, message: "'\(request.method)' is no HTTP method", url: parts.shown)
    }
    if let path = request.unixSocketPath {
      // sockaddr_un has room for 108 bytes with the closing NUL.
      guard !path.isEmpty, !path.utf8.contains(0), path.utf8.count < 108 else {
        throw WireError(
          kind: .invalidURL,
          message: "a Unix socket's path has 1 to 107 bytes and no NUL: '\(path)'",
          url: parts.shown)
      }
    }
    var lines = ["User-Agent: \(HTTPClient.userAgent)", "Expect:"]
    for header in request.headers {
      guard !header.name.isEmpty, header.name.utf8.allSatisfy(Self.isTokenByte) else {
        throw WireError(
          kind: .invalidURL, message: "'\(header.name)' is no HTTP header name", url: parts.shown)
      }
      guard header.value.utf8.allSatisfy({ $0 == 9 || ($0 >= 32 && $0 != 127) }) else {
        throw WireError(
          kind: .invalidURL,
          message: "the value of the header '\(header.name)' holds a line break or another control "
            + "character", url: parts.shown)
      }
      let name = header.name.lowercased()
      lines.removeAll { $0.prefix { $0 != ":" && $0 != ";" }.lowercased() == name }
      // curl reads "Name:" as "leave that header out" and "Name;" as an empty value.
      lines.append(header.value.isEmpty ? "\(header.name);" : "\(header.name): \(header.value)")
    }
    headerLines = lines
  }

  /// RFC 9110 section 5.6.2.
  private static func isTokenByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"):
      true
    default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
    }
  }
}
