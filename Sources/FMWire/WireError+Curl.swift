import CCurl
import Glibc

extension WireError {
  /// What a failed transfer means, in a sentence with the URL and, where it helps, what to do.
  init(_ code: CURLcode, of transfer: HTTPTransfer) {
    if let failure = transfer.failure {
      self = failure
      return
    }
    let target = transfer.exchange.target
    let request = transfer.exchange.request
    let url = target.shownURL
    let detail = Self.detail(code, transfer)
    let place = request.unixSocketPath.map { "the socket \($0)" } ?? url
    let kind: Kind
    let message: String
    switch code {
    case CURLE_OK:
      kind = .connect
      message = "\(url) closed the connection in the midst of its answer's head"
    case CURLE_URL_MALFORMAT:
      kind = .invalidURL
      message = "the URL \(url) cannot be used: \(detail)"
    case CURLE_COULDNT_RESOLVE_HOST:
      kind = .connect
      message = "cannot find the host \(target.host) of \(url); check the name and the network"
    case CURLE_COULDNT_RESOLVE_PROXY:
      kind = .connect
      message =
        "cannot find the host of the proxy for \(url): \(detail); check "
        + (target.proxy == nil ? "http_proxy and https_proxy" : "the proxy that was given")
    case CURLE_COULDNT_CONNECT:
      kind = .connect
      message =
        if let proxy = target.proxy, !proxy.isEmpty {
          "cannot connect to \(url) through the proxy \(Self.withoutUsers(proxy)): \(detail);"
            + " is the proxy running?"
        } else {
          "cannot connect to \(place): \(detail); is the server running?"
        }
    case CURLE_OUT_OF_MEMORY where !transfer.hasHead:
      // curl has no other word for a line beyond its limit, which is likelier.
      kind = .invalidResponse
      message = "\(url) sent a header that is too long (beyond 100 KB), or memory ran out"
    case CURLE_OPERATION_TIMEDOUT:
      kind = .timeout
      let limit = HTTPTransfer.seconds(request.timeouts.connect)
      message = "no connection to \(place) within \(limit) (connect time limit)"
    case CURLE_SSL_CONNECT_ERROR where detail.contains("wrong version number"):
      kind = .tls
      message = "\(url) does not speak TLS: \(detail); use http:// for it"
    case CURLE_PEER_FAILED_VERIFICATION:
      kind = .tls
      message =
        "the certificate of \(url) cannot be trusted: \(detail); to trust another "
        + "authority, set SSL_CERT_FILE to its PEM file"
    case CURLE_SSL_CONNECT_ERROR, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_CERTPROBLEM,
      CURLE_SSL_CIPHER, CURLE_USE_SSL_FAILED, CURLE_SSL_ENGINE_INITFAILED, CURLE_SSL_CRL_BADFILE,
      CURLE_SSL_ISSUER_ERROR, CURLE_SSL_PINNEDPUBKEYNOTMATCH, CURLE_SSL_INVALIDCERTSTATUS,
      CURLE_SSL_CLIENTCERT:
      kind = .tls
      message = "no TLS connection to \(url): \(detail)"
    case CURLE_UNSUPPORTED_PROTOCOL, CURLE_WEIRD_SERVER_REPLY, CURLE_BAD_CONTENT_ENCODING:
      kind = .invalidResponse
      message = "\(url) does not answer as an HTTP server does: \(detail)"
    case CURLE_GOT_NOTHING:
      kind = .connect
      message = "\(url) closed the connection without an answer"
    case _ where transfer.hasHead:
      kind = .endedEarly
      message = "\(url) broke its answer off: \(detail)"
    default:
      kind = .connect
      message = "no answer from \(url): \(detail)"
    }
    self.init(kind: kind, message: message, url: url)
    isTransient = Self.isTransient(code, kind, detail)
  }

  /// Whether the network may do better next time. Certificates, protocols and URLs will not.
  private static func isTransient(_ code: CURLcode, _ kind: Kind, _ detail: String) -> Bool {
    switch kind {
    case .connect, .endedEarly: true
    // curl's own limit is that for connecting.
    case .timeout: code == CURLE_OPERATION_TIMEDOUT
    // A handshake that the other side broke off.
    case .tls:
      code == CURLE_SSL_CONNECT_ERROR
        && ["reset by peer", "SSL_ERROR_SYSCALL", "unexpected eof"].contains {
          ByteText(detail).contains($0)
        }
    default: false
    }
  }

  /// The system's or else curl's words.
  private static func detail(_ code: CURLcode, _ transfer: HTTPTransfer) -> String {
    let system = Int32(clamping: transfer.easy.long(CURLINFO_OS_ERRNO))
    if code == CURLE_COULDNT_CONNECT, system != 0 { return Errno(code: system).description }
    let text = transfer.easy.errorText
    let words = text.isEmpty ? String(cString: curl_easy_strerror(code)) : text
    return withoutUsers(words.split(whereSeparator: \.isNewline).joined(separator: " "))
  }

  /// curl quotes a proxy's URL with the user and the password that it holds.
  static func withoutUsers(_ text: String) -> String {
    text.split(separator: " ", omittingEmptySubsequences: false).map { word in
      guard let at = word.lastIndex(of: "@"), let colon = word.firstIndex(of: ":"), colon < at
      else {
        return String(word)
      }
      return "..." + word[at...]
    }.joined(separator: " ")
  }
}
