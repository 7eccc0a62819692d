import Synchronization

/// Hands the events of an answer to the session on whichever thread they come, one at a time: an
/// event costs no task switch, which is most of what it would cost.
final class EventRelay: Sendable {
  typealias Event = any LanguageModelExecutorGenerationChannel.Event

  private struct State {
    /// The session's closure, until `close`.
    var take: (@Sendable (Event) throws -> Void)?
    var error: (any Error)?
    var onFailure: (@Sendable () -> Void)?
  }

  private let state: Mutex<State>

  init(_ take: @escaping @Sendable (Event) throws -> Void) {
    state = Mutex(State(take: take))
  }

  /// Called once, when the session refuses an event; at once when it has.
  func onFailure(_ action: @escaping @Sendable () -> Void) {
    let hasFailed = state.withLock { state in
      state.onFailure = action
      return state.error != nil
    }
    if hasFailed { action() }
  }

  /// Returns when the session has taken the event. After `close` and after a failure: nothing.
  func send(_ event: Event) {
    let action = state.withLock { state -> (@Sendable () -> Void)? in
      guard let take = state.take else { return nil }
      do {
        try take(event)
        return nil
      } catch {
        state.take = nil
        state.error = error
        return state.onFailure
      }
    }
    action?()
  }

  /// Nothing is handed over any more once this returns. Throws what the session refused an event with.
  func close() throws {
    let error = state.withLock { state in
      state.take = nil
      state.onFailure = nil
      return state.error
    }
    if let error { throw error }
  }
}
