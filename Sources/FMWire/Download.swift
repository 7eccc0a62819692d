import Glibc

/// Fetches one large file over HTTP: goes on where an earlier attempt broke off, follows redirects as
/// far as that is safe, and checks what came against what the server promised.
struct Download {
  /// What the server says of the file, gathered along the redirects.
  struct Promise {
    /// 64 hexadecimal digits: the hub's digest of a large file.
    var sha256: String?
    var size: Int64?
    /// The hub's commit.
    var revision: String?
  }

  struct Result {
    var sha256: String
    var size: Int64
    var revision: String?
    /// Whether the digest was known beforehand, from the caller or the server.
    var isVerified: Bool
  }

  var url: String
  /// Sent to the URL's own origin only.
  var authorization: String?
  /// The digest that the caller asks for.
  var sha256: String?
  /// Bytes that the file must begin with, so that a web page is not fetched to its end.
  var magic: [UInt8] = []
  /// Told how much there is of how much (nil: not known), on the task's thread, some times a second
  /// and after each attempt; false = stop.
  var onProgress: @Sendable (Int64, Int64?) -> Bool

  private let throttle = Throttle()

  init(
    url: String, authorization: String? = nil, sha256: String? = nil, magic: [UInt8] = [],
    onProgress: @escaping @Sendable (Int64, Int64?) -> Bool
  ) {
    self.url = url
    self.authorization = authorization
    self.sha256 = sha256
    self.magic = magic
    self.onProgress = onProgress
  }

  private static let maximumRedirects = 8
  /// Attempts that bring nothing new, before it is given up.
  private static let patience = 4

  /// Fetches into the file, which stays when this fails in a way that a later attempt can mend and
  /// some of it has come.
  func run(into part: PartFile) async throws -> Result {
    do {
      return try await fetch(into: part)
    } catch {
      if part.size == 0 { part.discard() }
      throw error
    }
  }

  private func fetch(into part: PartFile) async throws -> Result {
    var promise = Promise()
    var idle = 0
    while true {
      let before = part.size
      do {
        try await attempt(part, &promise)
        break
      } catch let error as WireError where Self.mayHelpToRetry(error) {
        idle = part.size > before ? 0 : idle + 1
        guard idle < Self.patience else { throw error }
        guard onProgress(part.size, promise.size) else { throw CancellationError() }
        let pause = error.retryAfter ?? 0.25 * Double(1 << idle)
        try await Task.sleep(for: .seconds(min(pause, 30)))
      }
    }
    let digest = try part.sha256()
    let wanted = sha256?.lowercased() ?? promise.sha256
    if let wanted, wanted != digest {
      part.discard()
      throw ModelError(
        kind: .badFile,
        message: "what \(url) sent has the SHA-256 \(digest), not \(wanted) as "
          + (sha256 == nil ? "its server says" : "asked for")
          + "; nothing was installed, try again or take it from elsewhere")
    }
    return Result(
      sha256: digest, size: part.size, revision: promise.revision, isVerified: wanted != nil)
  }

  private static func mayHelpToRetry(_ error: WireError) -> Bool {
    switch error.kind {
    case .connect, .timeout, .endedEarly, .rateLimited: true
    case .server: error.httpStatus.map { $0 >= 500 } ?? true
    default: false
    }
  }

  /// One request; returns when the file is complete.
  private func attempt(_ part: PartFile, _ promise: inout Promise) async throws {
    if part.version?.url != url { try part.restart(as: nil) }
    let offset = part.size
    let (response, shown) = try await open(part, from: offset, &promise)
    let head = response.head
    switch head.status {
    case 200:
      try part.restart(
        as: Self.strongTag(head).map { PartFile.Version(url: url, tag: $0) })
    case 206:
      // A server that resumes another file, or at another place, would mix two files.
      let range = Self.contentRange(head)
      let tag = Self.strongTag(head)
      guard let range, range.start == offset, offset > 0,
        tag == nil || tag == part.version?.tag
      else {
        try part.restart(as: nil)
        throw WireError(
          kind: .endedEarly, message: "\(shown) resumed at another place than asked", url: shown)
      }
      if let total = range.total { try expect(total, &promise, shown) }
    case 416:
      // Nothing is left to send, or the file has become shorter.
      if offset > 0, Self.contentRange(head)?.total == offset { return }
      try part.restart(as: nil)
      throw WireError(
        kind: .endedEarly, message: "\(shown) has no such part any more", url: shown)
    default: throw try await failure(response, shown)
    }
    if let length = head.header("content-length").flatMap({ Int64($0) }), length >= 0 {
      try expect(part.size + length, &promise, shown)
    }
    if let size = promise.size { try part.requireSpace(size - part.size) }
    try await receive(response, part, promise, shown)
  }

  private func receive(
    _ response: HTTPResponseStream, _ part: PartFile, _ promise: Promise, _ shown: String
  ) async throws {
    var first: [UInt8] = []
    let checks = part.size == 0 && !magic.isEmpty
    for try await chunk in response {
      if checks, first.count < magic.count {
        first += chunk.prefix(magic.count - first.count)
        guard magic.starts(with: first) else {
          part.discard()
          throw ModelError(
            kind: .badFile,
            message:
              "\(shown) is no GGUF file: it does not begin with \"GGUF\"; a web page about a "
              + "model is not the model, its download link is")
        }
      }
      if let size = promise.size, part.size + Int64(chunk.count) > size {
        part.discard()
        throw ModelError(
          kind: .badFile,
          message: "\(shown) sent more than the \(size) bytes that it promised; nothing was "
            + "installed, try again or take it from elsewhere")
      }
      try part.append(chunk)
      if throttle.isDue || part.size == promise.size {
        guard onProgress(part.size, promise.size) else { throw CancellationError() }
      }
      try Task.checkCancellation()
    }
    if let size = promise.size, part.size < size {
      throw WireError(
        kind: .endedEarly,
        message: "\(shown) broke off after \(part.size) of \(size) bytes; what there is is kept, "
          + "the same command goes on", url: shown)
    }
  }

  /// Two promises about one file must be the same.
  private func expect(_ size: Int64, _ promise: inout Promise, _ shown: String) throws {
    if let known = promise.size, known != size {
      throw ModelError(
        kind: .badFile,
        message: "\(shown) says that the file has \(size) bytes, and before that it has \(known); "
          + "nothing was installed, try again or take it from elsewhere")
    }
    promise.size = size
  }

  // MARK: - Redirects

  private func open(
    _ part: PartFile, from offset: Int64, _ promise: inout Promise
  ) async throws -> (HTTPResponseStream, shown: String) {
    var location = url
    let origin = try Origin(url)
    promise.size = nil
    for _ in 0...Self.maximumRedirects {
      let parts = try CurlURL(location)
      var headers: [(name: String, value: String)] = [("Accept-Encoding", "identity")]
      if let authorization, try Origin(location) == origin {
        headers.append(("Authorization", authorization))
      }
      if offset > 0, let tag = part.version?.tag {
        headers.append(("Range", "bytes=\(offset)-"))
        // Without it, a file that was replaced meanwhile would be mixed with the old one.
        headers.append(("If-Range", tag))
      }
      let response = try await HTTPClient.shared.stream(
        HTTPRequest(
          method: "GET", url: location, headers: headers,
          timeouts: HTTPTimeouts(connect: 20, firstByte: 60, idle: 60)))
      let head = response.head
      note(head, &promise)
      guard [301, 302, 303, 307, 308].contains(head.status) else { return (response, parts.shown) }
      guard let next = head.header("location") else {
        throw WireError(
          kind: .invalidResponse, message: "\(parts.shown) redirects to nowhere", url: parts.shown)
      }
      location = try Origin.resolve(next, relativeTo: location)
      let target = try CurlURL(location)
      guard target.scheme == "https" || parts.scheme == "http" else {
        throw WireError(
          kind: .invalidResponse,
          message: "\(parts.shown) redirects from https to \(target.shown), which is not followed",
          url: parts.shown)
      }
    }
    throw WireError(
      kind: .invalidResponse,
      message: "\(try CurlURL(url).shown) redirects more than \(Self.maximumRedirects) times")
  }

  private func note(_ head: HTTPResponseHead, _ promise: inout Promise) {
    if let tag = head.header("x-linked-etag") {
      let digest = tag.filter { $0 != "\"" }
      if FileDigest.isSHA256(digest) { promise.sha256 = digest.lowercased() }
    }
    if let size = head.header("x-linked-size").flatMap({ Int64($0) }) { promise.size = size }
    if let revision = head.header("x-repo-commit") { promise.revision = revision }
  }

  private static func strongTag(_ head: HTTPResponseHead) -> String? {
    head.header("etag").flatMap { $0.hasPrefix("\"") ? $0 : nil }
  }

  /// "bytes 100-199/200" or "bytes */200".
  private static func contentRange(
    _ head: HTTPResponseHead
  ) -> (start: Int64?, total: Int64?)? {
    guard let text = head.header("content-range"), text.hasPrefix("bytes ") else { return nil }
    let parts = text.dropFirst(6).split(separator: "/", maxSplits: 1)
    guard parts.count == 2 else { return nil }
    return (parts[0].split(separator: "-").first.flatMap { Int64($0) }, Int64(parts[1]))
  }

  private func failure(_ response: HTTPResponseStream, _ shown: String) async throws -> WireError {
    let status = response.head.status
    let (kind, advice): (WireError.Kind, String) =
      switch status {
      case 401, 403:
        (.authentication, "it wants an account that may read it; set HF_TOKEN to its token")
      case 404, 410: (.notFound, "there is no such file; look at its repository's list of files")
      case 429: (.rateLimited, "it wants no more requests for now; try again later")
      default: (.server, "try again later")
      }
    return WireError(
      kind: kind, message: "\(shown) answered with HTTP status \(status): \(advice)", url: shown,
      httpStatus: status,
      retryAfter: response.head.header("retry-after").flatMap { Double($0) })
  }
}
