extension ChatCompletionsClient {
  /// The first model that the server lists at `/v1/models`, for callers who named none.
  ///
  /// Throws `WireError`: as for a request, or `.notFound` where the server lists none.
  public func firstModelID() async throws -> String {
    let url = try endpoint.rootURL("v1/models")
    let (head, body) = try await HTTPClient.shared.send(
      endpoint.request("GET", url: url, headers: [(name: "Accept", value: "application/json")]),
      maxBytes: 16 << 20)
    guard 200..<300 ~= head.status else {
      throw ServerFailure(
        url: try CurlURL(url).shown, secrets: Secrets(of: endpoint), head: head
      ).error(body: body)
    }
    let list = try? JSONValue(parsing: body)
    guard let id = list?["data"]?.arrayValue?.first?["id"]?.stringValue else {
      throw WireError(
        kind: .notFound,
        message: "\(try CurlURL(url).shown) lists no model; say which one to use, for the default"
          + " model in OPENFM_MODEL.",
        url: try CurlURL(url).shown, httpStatus: head.status)
    }
    return id
  }
}
