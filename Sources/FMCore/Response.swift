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

/// An answer as it grows. The request starts when the sequence is first iterated.
///
/// Snapshots are cumulative: each holds the whole answer so far. A reader slower than the model
/// gets fewer snapshots, never a longer queue of them.
public struct ResponseStream<Content: Generable>: AsyncSequence, Sendable
where Content: Sendable, Content.PartiallyGenerated: Sendable {
  public typealias Element = Snapshot

  public struct Snapshot: Sendable {
    public var content: Content.PartiallyGenerated
    public var rawContent: GeneratedContent
  }

  let start: @Sendable () -> StreamDriver
  /// nil where the text does not make a snapshot yet.
  let snapshot: @Sendable (String) throws -> Snapshot?
  let response: @Sendable (CompletedResponse) throws -> Response<Content>

  public struct AsyncIterator: AsyncIteratorProtocol {
    let stream: ResponseStream
    var driver: StreamDriver?

    public mutating func next() async throws -> Snapshot? {
      let driver = self.driver ?? stream.start()
      self.driver = driver
      while let text = try await driver.next() {
        if let snapshot = try stream.snapshot(text) { return snapshot }
      }
      return nil
    }
  }

  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(stream: self) }

  /// Runs a request of its own to the end and gives the complete answer.
  public func collect() async throws -> Response<Content> {
    let driver = start()
    while try await driver.next() != nil {}
    guard let completed = driver.completed else { throw CancellationError() }
    return try response(completed)
  }
}
