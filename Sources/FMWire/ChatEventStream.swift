/// The events of one answer. Iterated once; dropping the iterator closes the connection at once,
/// unless the answer was complete: then the connection serves the next request.
public struct ChatEventStream: Sendable, AsyncSequence {
  public typealias Element = ChatEvent

  private let answer: ChatSender.Answer
  private let sender: ChatSender

  init(answer: ChatSender.Answer, sender: ChatSender) {
    self.answer = answer
    self.sender = sender
  }

  /// The attempts so far and the rate limits of the newest.
  public var report: RequestReport { sender.report }

  public func makeAsyncIterator() -> AsyncIterator {
    AsyncIterator(answer: answer, sender: sender)
  }

  public struct AsyncIterator: AsyncIteratorProtocol {
    private var bytes: HTTPResponseStream.AsyncIterator?
    private var decoder: ChatStreamDecoder
    private var events: [ChatEvent] = []
    private var position = 0
    /// Thrown once the events before it were given.
    private var error: (any Error)?
    private let sender: ChatSender
    /// Something of the answer was given: it cannot be taken back and asked for again.
    private var hasGiven = false

    init(answer: ChatSender.Answer, sender: ChatSender) {
      bytes = answer.response.makeAsyncIterator()
      decoder = answer.makeDecoder()
      self.sender = sender
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
          hasGiven = true
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
        guard let error = error as? WireError else {
          self.error = error
          return
        }
        guard error.isTransient, !hasGiven, events.isEmpty else {
          self.error = sender.final(error)
          return
        }
        let answer = try await sender.reopen(after: error)
        bytes = answer.response.makeAsyncIterator()
        decoder = answer.makeDecoder()
      }
    }
  }
}
