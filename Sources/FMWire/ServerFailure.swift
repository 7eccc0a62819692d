/// Makes typed errors of what a server says went wrong.
///
/// Servers agree on neither the status nor the shape of an error, so the text decides where it is
/// known and the status where it is not.
struct ServerFailure: Sendable {
  /// Without secrets, for messages.
  let url: String
  private let secrets: Secrets
  private let status: Int
  private let contentType: String
  private let retryAfter: Double?
  private let location: String?
  /// The server's own word on whether another attempt makes sense.
  private let shouldRetry: Bool?
  private let requestBytes: Int

  /// - Parameter requestBytes: of the body that was sent.
  init(url: String, secrets: Secrets, head: HTTPResponseHead, requestBytes: Int = 0) {
    self.url = url
    self.secrets = secrets
    status = head.status
    contentType = head.header("content-type")?.lowercased() ?? ""
    retryAfter = RetryAfter.seconds(in: head)
    location = head.header("location")
    shouldRetry =
      switch head.header("x-should-retry")?.lowercased() {
      case "true": true
      case "false": false
      default: nil
      }
    self.requestBytes = requestBytes
  }

  /// Whether a JSON value is an error in one of the known shapes, whatever the status.
  static func isError(_ value: JSONValue) -> Bool {
    if let error = value["error"], !error.isNull { return true }
    if value["object"]?.stringValue == "error" { return true }
    if let first = value.arrayValue?.first { return isError(first) }
    return value["choices"] == nil && value["detail"] != nil
  }

  /// The error of a whole response: of an error status, or of 200 with an error in its body.
  func error(body: [UInt8]) -> WireError {
    let words = ServerWords(body: body, isPage: contentType.hasPrefix("text/html"))
    return error(words, body: body, status: status)
  }

  /// The error of an event in a stream whose status was fine.
  func error(midstream data: [UInt8]) -> WireError {
    let words = ServerWords(body: data, isPage: false)
    return error(words, body: data, status: status)
  }

  /// The error of an event that is neither JSON nor a comment: a message, or broken JSON.
  func error(unparsed text: String, because reason: JSONError) -> WireError {
    let looksLikeJSON = text.hasPrefix("{") || text.hasPrefix("[") || text.hasPrefix("\"")
    let words = ServerWords(body: Array(text.utf8), isPage: false)
    if !looksLikeJSON, let kind = words.kindByText {
      return error(kind, words, body: Array(text.utf8), status: status)
    }
    return invalid(
      "an event that is no JSON (at byte \(reason.offset): \(reason.message))",
      body: Array(text.utf8))
  }

  /// An answer that makes no sense; `what` follows "URL sent".
  func invalid(_ what: String, body: [UInt8]) -> WireError {
    let text = shortened(String(decoding: body.prefix(8192), as: UTF8.self), to: 200)
    return WireError(
      kind: .invalidResponse, message: "\(url) sent \(what): \(text)", url: url,
      httpStatus: status, body: bodyText(body))
  }

  func tooLong(_ maximumBytes: Int) -> WireError {
    WireError(
      kind: .invalidResponse,
      message: "\(url) sent an answer longer than \(maximumBytes) bytes; ask for a shorter one, or "
        + "raise max_answer_bytes", url: url, httpStatus: status)
  }

  func endedEarly() -> WireError {
    WireError(
      kind: .endedEarly,
      message: "\(url) ended its answer without a finish reason: the server may have stopped or "
        + "run out of memory; its log tells", url: url, httpStatus: status)
  }

  // MARK: - Parts

  private func error(_ words: ServerWords, body: [UInt8], status: Int) -> WireError {
    // An error inside a good response carries its status, if any, in its body.
    let status = 200..<300 ~= status ? words.status ?? status : status
    // A page with an error status of a server is a gateway's word on it, and passes as that does.
    let isStray = words.isPage && status < 500
    var kind =
      words.kindByText ?? Self.kind(ofStatus: status) ?? (isStray ? .invalidResponse : .server)
    // Some gateways answer 404 to a body over their limit.
    if status == 404, requestBytes > Self.suspectBytes, !words.isAboutModel {
      kind = .requestTooLarge
    }
    return error(kind, words, body: body, status: status)
  }

  /// Bytes of a request that a gateway may find too large: the lowest limit in use is a megabyte.
  private static let suspectBytes = 1_000_000

  /// Whether the same request may succeed later.
  private func isTransient(_ kind: WireError.Kind, _ words: ServerWords, status: Int) -> Bool {
    guard [.server, .rateLimited, .timeout, .invalidResponse].contains(kind), status >= 400 else {
      return false
    }
    if let shouldRetry { return shouldRetry }
    if words.isFinal(status: status) { return false }
    switch status {
    case 408, 425, 429: return true
    // Not implemented, HTTP version not supported, loop detected, network login.
    case 501, 505, 508, 511: return false
    case 500...: return true
    default: return kind == .rateLimited
    }
  }

  private static func kind(ofStatus status: Int) -> WireError.Kind? {
    switch status {
    case 401, 403: .authentication
    case 404: .notFound
    case 408: .timeout
    case 413: .requestTooLarge
    case 429: .rateLimited
    default: nil
    }
  }

  private func error(
    _ kind: WireError.Kind, _ words: ServerWords, body: [UInt8], status: Int
  ) -> WireError {
    // `status` may be one that the body of a good response names; the sentence tells what was sent.
    let answered = self.status
    let said = words.text.isEmpty ? "nothing more" : shortened(words.text, to: 500)
    var message: String
    if 300..<400 ~= answered {
      let target = location.flatMap { try? CurlURL($0).shown } ?? location ?? "elsewhere"
      message =
        "\(url) answered \(answered): moved to \(shortened(target, to: 200)); redirects are "
        + "not followed, use that URL"
    } else if words.isPage {
      message = "\(url) answered \(answered) with a web page: \(said)"
    } else if 200..<300 ~= answered {
      message = "\(url) reported an error: \(said)"
    } else {
      message = "\(url) answered \(answered): \(said)"
    }
    if kind == .requestTooLarge, requestBytes > 0 {
      message += " (the request had \(requestBytes) bytes)"
    }
    if let advice = Self.advice(kind) { message += " (\(advice))" }
    var error = WireError(
      kind: kind, message: message, url: url, httpStatus: status, body: bodyText(body),
      tokenCount: kind == .contextSizeExceeded ? words.tokenCount : nil,
      contextSize: kind == .contextSizeExceeded ? words.contextSize : nil,
      retryAfter: retryAfter)
    error.isTransient = isTransient(kind, words, status: status)
    return error
  }

  private static func advice(_ kind: WireError.Kind) -> String? {
    switch kind {
    case .authentication: "check the API key"
    case .notFound: "check the base URL and the model's name"
    case .contextSizeExceeded: "shorten the prompt or use a larger context"
    case .requestTooLarge: "send fewer or smaller pictures, or raise the server's limit"
    case .imagesUnsupported: "use a model with vision; llama.cpp needs its --mmproj file"
    default: nil
    }
  }

  /// One line of at most `limit` characters, without secrets.
  private func shortened(_ text: String, to limit: Int) -> String {
    let line = secrets.removed(from: text).split { $0.isNewline || $0 == "\t" }
      .joined(separator: " ")
    return line.count <= limit ? line : String(line.prefix(limit)) + "..."
  }

  /// At most 4 KiB, without secrets.
  private func bodyText(_ body: [UInt8]) -> String? {
    if body.isEmpty { return nil }
    // Cut after the replacement, so that no secret is cut in half and stays.
    let text = secrets.removed(from: String(decoding: body.prefix(64 << 10), as: UTF8.self))
    let cut = text.utf8.prefix(4096)
    // The cut may fall inside a character.
    return String(decoding: cut, as: UTF8.self)
  }
}
