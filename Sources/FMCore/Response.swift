/// A complete answer.
public struct Response<Content: Generable> {
  public let content: Content
  public let rawContent: GeneratedContent
  /// What this turn added to the transcript: the prompt and the response.
  public let transcriptEntries: ArraySlice<Transcript.Entry>
  public let usage: Usage
  /// What else is known: `finishReason` ("stop", "length"...), `images` (how pictures were sent),
  /// `server` (`id`, `model`, `timings`... as the server gave them), `warnings` (what looks wrong though
  /// the answer is complete). Depends on the model.
  public let metadata: [String: GeneratedContent]
  public let timing: ResponseTiming

  /// Why the answer ended, in the server's word; nil where it gave none.
  public var finishReason: String? { try? metadata["finishReason"]?.value() }
}

/// How long an answer took, in seconds from the start of the request on this side.
public struct ResponseTiming: Sendable, Equatable {
  /// Until its first piece of text; nil for an answer without any.
  public var firstTextSeconds: Double?
  public var totalSeconds: Double
}

extension Response: Sendable where Content: Sendable {}

extension Response {
  /// The same response with its content read as another type.
  func replacingContent<Other: Generable>(_ content: Other) -> Response<Other> {
    Response<Other>(
      content: content, rawContent: rawContent, transcriptEntries: transcriptEntries, usage: usage,
      metadata: metadata, timing: timing)
  }
}
