import Synchronization

/// An answer as it grows. The request starts when the stream is first iterated or collected, and is
/// cancelled when its reader leaves before the end.
///
/// Snapshots are cumulative: each holds the whole answer so far. A reader slower than the model
/// gets fewer snapshots, never a longer queue of them; a stream has one reader. It may yield none
/// where the answer is nothing but tool calls.
public struct ResponseStream<Content: Generable>: AsyncSequence, Sendable
where Content: Sendable, Content.PartiallyGenerated: Sendable {
  public typealias Element = Snapshot

  public struct Snapshot: Sendable {
    public var content: Content.PartiallyGenerated
    public var rawContent: GeneratedContent
    /// What this turn adds to the transcript, as far as it has come: the prompt, tool calls and their
    /// outputs, and what was said of the answer.
    public var transcriptEntries: ArraySlice<Transcript.Entry>
    /// As far as the model has counted.
    public var usage: Usage
  }

  private let run: StreamRun
  /// nil where the text does not make a snapshot yet.
  private let snapshot: @Sendable (String) throws -> Snapshot?
  private let response: @Sendable (CompletedResponse) throws -> Response<Content>

  init(
    start: @escaping @Sendable () -> StreamDriver,
    snapshot: @escaping @Sendable (String) throws -> Snapshot?,
    response: @escaping @Sendable (CompletedResponse) throws -> Response<Content>
  ) {
    run = StreamRun(start)
    self.snapshot = snapshot
    self.response = response
  }

  public struct AsyncIterator: AsyncIteratorProtocol {
    fileprivate let stream: ResponseStream
    private var reader: StreamReader?

    fileprivate init(_ stream: ResponseStream) { self.stream = stream }

    public mutating func next() async throws -> Snapshot? {
      let reader = self.reader ?? StreamReader(stream.run.driver)
      self.reader = reader
      while let text = try await reader.driver.next() {
        if let snapshot = try stream.snapshot(text) { return snapshot }
      }
      return nil
    }
  }

  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }

  /// The complete answer: waits for it, at once where the stream has ended. Throws what the stream
  /// threw.
  public func collect() async throws -> Response<Content> {
    try response(try await run.driver.completed)
  }
}

/// The one request of a stream, however often the stream is copied.
private final class StreamRun: Sendable {
  private let start: @Sendable () -> StreamDriver
  private let started = Mutex<StreamDriver?>(nil)

  init(_ start: @escaping @Sendable () -> StreamDriver) { self.start = start }

  var driver: StreamDriver {
    started.withLock { started in
      let driver = started ?? start()
      started = driver
      return driver
    }
  }
}

/// Leaving the loop over a stream ends its request, though the stream itself is still there.
private final class StreamReader: Sendable {
  let driver: StreamDriver

  init(_ driver: StreamDriver) { self.driver = driver }

  deinit { driver.cancel() }
}
