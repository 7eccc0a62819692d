import Synchronization

/// `"stream_options": {"include_usage": true}`, which most servers take and some refuse: a request
/// that is refused for it is sent again without, and from then on the endpoint is not asked for it.
enum UsageRequest {
  /// As the member stands in a body, after another. It cannot stand so inside of a string, where its
  /// quotes would be escaped.
  static let member = ",\"stream_options\":{\"include_usage\":true}"

  private static let refused = Mutex<Set<String>>([])

  /// The body as that endpoint takes it.
  static func adapted(_ body: RequestBody, for endpoint: Endpoint) -> RequestBody {
    let isRefused = refused.withLock { $0.contains(endpoint.baseURL) }
    return isRefused ? without(body) ?? body : body
  }

  /// The body to send in place of one that failed so; nil where the member is not why.
  static func body(inPlaceOf body: RequestBody, after error: WireError, at endpoint: Endpoint)
    -> RequestBody?
  {
    guard error.kind == .server, let status = error.httpStatus, 400..<500 ~= status,
      ByteText(error.message).contains("stream_options")
        || ByteText(error.body ?? "").contains("stream_options"),
      let body = without(body)
    else { return nil }
    refused.withLock { _ = $0.insert(endpoint.baseURL) }
    return body
  }

  /// nil where the body has no such member.
  private static func without(_ body: RequestBody) -> RequestBody? {
    body.removing(Array(member.utf8))
  }
}
