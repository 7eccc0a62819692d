import Glibc
import Synchronization

/// The PEM file of certificate authorities that the host carries.
public enum HostCertificates {
  fileprivate static let path = Mutex<String?>(nil)

  /// Used where neither the environment nor the system has any. The last call holds.
  public static func set(_ file: String?) { path.withLock { $0 = file } }
}

/// The certificate authorities that a TLS connection trusts.
enum CertificateSource: Sendable, Equatable {
  /// A PEM file.
  case file(String)
  /// A folder of hashed PEM files, as `openssl rehash` makes it.
  case folder(String)

  /// Bundles where the distributions keep them.
  static let knownFiles = [
    "/etc/ssl/certs/ca-certificates.crt",  // Debian, Ubuntu, Arch, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  // Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",  // openSUSE
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // RHEL 7 and later
    "/etc/ssl/cert.pem",  // Alpine
  ]

  /// The given file, else SSL_CERT_FILE, CURL_CA_BUNDLE, SSL_CERT_DIR, else a known bundle, else the
  /// host's. What was named but is not there is an error, never passed over.
  static func find(
    _ given: String?, for url: String, known: [String] = knownFiles
  ) throws(WireError) -> CertificateSource {
    if let given { return .file(try checked(given, "the certificate file", for: url)) }
    for name in ["SSL_CERT_FILE", "CURL_CA_BUNDLE"] {
      if let path = environment(name) { return .file(try checked(path, name, for: url)) }
    }
    if let path = environment("SSL_CERT_DIR") {
      return .folder(try checked(path, "SSL_CERT_DIR", for: url))
    }
    if let path = known.first(where: { access($0, R_OK) == 0 }) { return .file(path) }
    if let path = HostCertificates.path.withLock({ $0 }), access(path, R_OK) == 0 {
      return .file(path)
    }
    throw WireError(
      kind: .tls,
      message: "no certificate authorities found to check \(url) with; install the package "
        + "ca-certificates, or (for Python) certifi, or set SSL_CERT_FILE", url: url)
  }

  private static func environment(_ name: String) -> String? {
    guard let value = getenv(name), value.pointee != 0 else { return nil }
    return String(cString: value)
  }

  private static func checked(
    _ path: String, _ source: String, for url: String
  ) throws(WireError) -> String {
    if !path.utf8.contains(0), access(path, R_OK) == 0 { return path }
    throw WireError(
      kind: .tls,
      message: "cannot check the certificate of \(url): \(source) names '\(path)', which cannot be "
        + "read (\(Errno.current))", url: url)
  }
}
