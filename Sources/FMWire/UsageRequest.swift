import Synchronization

/// `"stream_options": {"include_usage": true}`, which most servers take and some refuse: a request
/// that is refused for it is sent again without, and from then on the endpoint is not asked for it.
enum UsageRequest {
  /// As the member stands in a body, after another. It cannot stand so inside of a string, where its
  /// quotes would be escaped.
  static let member = ",\"stream_options\":{\"include_usage\":true}"

  private static let refused = Mutex<Set<String>>([])

  /// The body as that endpoint takes it.
  static func adapted(_ body: [UInt8], for endpoint: Endpoint) -> [UInt8] {
    let isRefused = refused.withLock { $0.contains(endpoint.baseURL) }
    return isRefused ? without(body) ?? body : body
  }

  /// The body to send in place of one that failed so; nil where the member is not why.
  static func body(inPlaceOf body: [UInt8], after error: WireError, at endpoint: Endpoint)
    -> [UInt8]?
  {
    guard error.kind == .server, let status = error.httpStatus, 400..<500 ~= status,
      ByteText(error.message).contains("stream_options")
        || ByteText(error.body ?? "").contains("stream_options"),
      let body = without(body)
    else { return nil }
    refused.withLock { _ = $0.insert(endpoint.baseURL) }
    return body
  }

  /// nil where the body has no such member. Looked for from the end: pictures come before it.
  private static func without(_ body: [UInt8]) -> [UInt8]? {
    let member = Array(member.utf8)
    var start = body.count - member.count
    while start >= 0 {
      if body[start] == member[0], body[start..<(start + member.count)].elementsEqual(member) {
        return Array(body[..<start]) + body[(start + member.count)...]
      }
      start -= 1
    }
    return nil
  }
}
