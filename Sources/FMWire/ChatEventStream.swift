/// The events of one answer. Iterated once; dropping the iterator closes the connection at once,
/// unless the answer was complete: then the connection serves the next request.
public struct ChatEventStream: Sendable, AsyncSequence {
  public typealias Element = ChatEvent

  private let response: HTTPResponseStream
  private let failure: ServerFailure

  init(response: HTTPResponseStream, failure: ServerFailure) {
    self.response = response
    self.failure = failure
  }

  public func makeAsyncIterator() -> AsyncIterator {
    AsyncIterator(bytes: response.makeAsyncIterator(), decoder: ChatStreamDecoder(failure: failure))
  }

  public struct AsyncIterator: AsyncIteratorProtocol {
    private var bytes: HTTPResponseStream.AsyncIterator?
    private var decoder: ChatStreamDecoder
    private var events: [ChatEvent] = []
    private var position = 0
    /// Thrown once the events before it were given.
    private var error: (any Error)?

    init(bytes: HTTPResponseStream.AsyncIterator, decoder: ChatStreamDecoder) {
      self.bytes = bytes
      self.decoder = decoder
    }

    /// What the server said about the answer so far, beside its events: `id`, `model`,
    /// `system_fingerprint`, `timings`.
    public var details: JSONObject { decoder.details }

    /// The next event, nil at the end of a complete answer. Throws `WireError`, or
    /// `CancellationError` when the task was cancelled.
    public mutating func next() async throws -> ChatEvent? {
      while true {
        if position < events.count {
          defer { position += 1 }
          return events[position]
        }
        events.removeAll(keepingCapacity: true)
        position = 0
        if let error {
          self.error = nil
          throw error
        }
        guard bytes != nil else { return nil }
        try await fill()
      }
    }

    /// Reads one chunk and keeps what it says.
    private mutating func fill() async throws {
      do {
        let chunk = try await bytes?.next()
        if let chunk {
          try decoder.feed(chunk, into: &events)
          if decoder.isDone {
            bytes?.finish()
            bytes = nil
          }
        } else {
          bytes = nil
          try decoder.finish(into: &events)
        }
      } catch {
        // Closes the connection: an error ends the stream on this side.
        bytes = nil
        // A complete answer stays one, even where the connection then broke.
        if (error as? WireError)?.kind == .endedEarly && decoder.hasFinishReason { return }
        self.error = error
      }
    }
  }
}
