import Synchronization

/// What a turn that still runs knows beside the text of its answer. Written where the answer comes,
/// read by whoever looks at a snapshot.
final class TurnProgress: Sendable {
  private struct State {
    var entries: [Transcript.Entry] = []
    var usage = Usage()
    /// Those of the round that runs.
    var counts = Usage()
  }

  private let state = Mutex(State())
  /// Of the response entry in all snapshots, until the turn is complete.
  private let responseID = makeUUID()

  func tell(_ entries: [Transcript.Entry]) {
    state.withLock { $0.entries = entries }
  }

  /// - Parameter round: the counts of the round that runs, after those of the rounds before it.
  func tellUsage(_ round: Usage, after before: Usage) {
    state.withLock { state in
      guard round != state.counts else { return }
      state.counts = round
      state.usage = before
      state.usage += round
    }
  }

  /// The entries with what was said so far as the response.
  func entries(answering segment: Transcript.Segment) -> ArraySlice<Transcript.Entry> {
    let said = Transcript.Response(id: responseID, segments: [segment])
    return (state.withLock(\.entries) + [.response(said)])[...]
  }

  var usage: Usage { state.withLock(\.usage) }
}
