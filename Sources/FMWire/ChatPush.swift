import Synchronization

/// Decodes an answer on the I/O thread, where its bytes arrive, and hands the events on right there:
/// a chunk costs no task switch.
final class ChatPush: Sendable {
  private struct State {
    var decoder: ChatStreamDecoder
    /// Kept for its room.
    var events: [ChatEvent] = []
    var error: WireError?
    var isClosed = false
    var hasGiven = false
  }

  private let state: Mutex<State>
  private let take: @Sendable ([ChatEvent]) -> Void

  /// `take` gets what one piece of the body said, in order, never twice at once; it must not block.
  init(_ answer: ChatSender.Answer, take: @escaping @Sendable ([ChatEvent]) -> Void) {
    state = Mutex(State(decoder: answer.makeDecoder()))
    self.take = take
  }

  /// What the server said beside the events.
  var details: JSONObject { state.withLock(\.decoder.details) }

  /// Something of the answer was given: it cannot be taken back and asked for again.
  var hasGiven: Bool { state.withLock(\.hasGiven) }

  func receive(_ bytes: UnsafeBufferPointer<UInt8>) -> HTTPExchange.SinkResult {
    state.withLock { state in
      if state.isClosed { return .stop }
      do throws(WireError) {
        try state.decoder.feed(bytes, into: &state.events)
      } catch {
        state.error = error
      }
      give(&state)
      if state.error != nil { return .stop }
      return state.decoder.isDone ? .complete : .more
    }
  }

  /// The body is over: throws what is wrong with the answer.
  func finish() throws(WireError) {
    let error = state.withLock { state -> WireError? in
      state.isClosed = true
      if state.error == nil && !state.decoder.isDone {
        do throws(WireError) {
          try state.decoder.finish(into: &state.events)
        } catch {
          state.error = error
        }
        give(&state)
      }
      return state.error
    }
    if let error { throw error }
  }

  /// Nothing is given any more once this returns.
  func close() { state.withLock { $0.isClosed = true } }

  /// A complete answer stays one, even where the connection then broke.
  var isComplete: Bool { state.withLock { $0.decoder.isDone || $0.decoder.hasFinishReason } }

  private func give(_ state: inout State) {
    if state.events.isEmpty { return }
    state.hasGiven = true
    take(state.events)
    state.events.removeAll(keepingCapacity: true)
  }
}
