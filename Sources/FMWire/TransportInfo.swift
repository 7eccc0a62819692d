import CCrypto
import CCurl

/// What the libraries of the wire are and can.
public enum TransportInfo {
  /// Versions by the libraries' usual names: "curl", "nghttp2" and "openssl", those that are there.
  public static let versions: [(name: String, version: String)] = {
    var versions = [("curl", text(data.version))]
    if let nghttp2 = data.nghttp2_version { versions.append(("nghttp2", String(cString: nghttp2))) }
    versions.append(("openssl", text(OpenSSL_version(Int32(OPENSSL_VERSION_STRING)))))
    return versions
  }()

  /// The TLS library as curl names it, e.g. "OpenSSL/3.0.17"; nil where curl was built without one.
  public static let tls: String? = data.ssl_version.map { String(cString: $0) }
  public static let hasHTTP2 = data.features & Int32(CURL_VERSION_HTTP2) != 0
  public static let hasUnixSockets = data.features & Int32(CURL_VERSION_UNIX_SOCKETS) != 0

  private static var data: curl_version_info_data { fm_version_info().pointee }

  private static func text(_ pointer: UnsafePointer<CChar>?) -> String {
    pointer.map { String(cString: $0) } ?? "unknown"
  }
}
