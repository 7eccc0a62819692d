import Glibc
import Synchronization

/// One line on standard error for each host that is sent a key over plain HTTP.
enum ClearTextKeyWarning {
  private static let warned = Mutex<Set<String>>([])

  static func check(_ request: HTTPRequest) {
    guard let host = host(toWarnOf: request) else { return }
    guard warned.withLock({ $0.insert(host).inserted }) else { return }
    let line =
      "OpenFM: the key for \(host) is sent over plain http, where others can read it; use https "
      + "or a tunnel.\n"
    _ = line.withCString { write(STDERR_FILENO, $0, strlen($0)) }
  }

  /// The host that would see a key unprotected on its way; nil where none would.
  static func host(toWarnOf request: HTTPRequest) -> String? {
    guard request.unixSocketPath == nil,
      request.headers.contains(where: { isKey($0.name) && !$0.value.isEmpty }),
      let url = try? CurlURL(request.url), url.scheme == "http", !url.isLoopback
    else { return nil }
    return url.host
  }

  private static func isKey(_ name: String) -> Bool {
    ["authorization", "x-api-key", "api-key"].contains(name.lowercased())
  }
}
