import FMCore
import Synchronization

/// A model as a third party would write one, from FMCore's public surface alone. It plays a script
/// and remembers what it was asked.
struct ScriptedModel: LanguageModel {
  final class Script: Sendable {
    typealias Channel = LanguageModelExecutorGenerationChannel
    typealias Play =
      @Sendable (LanguageModelExecutorGenerationRequest, Channel) async throws -> Void
    let play: Play
    let requests = Mutex<[LanguageModelExecutorGenerationRequest]>([])

    init(_ play: @escaping Play) { self.play = play }
  }

  let script: Script
  var capabilities = LanguageModelCapabilities([.vision, .guidedGeneration])

  init(_ play: @escaping Script.Play) {
    script = Script(play)
  }

  /// Answers with the words, one event each.
  init(saying words: [String]) {
    self.init { _, channel in
      for word in words {
        await channel.send(.response(action: .appendText(word, tokenCount: 1)))
      }
    }
  }

  var requests: [LanguageModelExecutorGenerationRequest] { script.requests.withLock { $0 } }

  var executorConfiguration: Executor.Configuration { Executor.Configuration() }

  struct Executor: LanguageModelExecutor {
    typealias Model = ScriptedModel
    struct Configuration: Hashable, Sendable {}
    init(configuration: Configuration) {}

    func respond(
      to request: LanguageModelExecutorGenerationRequest, model: ScriptedModel,
      streamingInto channel: LanguageModelExecutorGenerationChannel
    ) async throws {
      model.script.requests.withLock { $0.append(request) }
      try await model.script.play(request, channel)
    }
  }
}

/// A door that a test opens for a waiting script.
final class Gate: Sendable {
  private struct State {
    var isOpen = false
    var waiting: [CheckedContinuation<Void, Never>] = []
  }
  private let state = Mutex(State())

  func open() {
    let waiting = state.withLock { state in
      state.isOpen = true
      defer { state.waiting = [] }
      return state.waiting
    }
    for continuation in waiting { continuation.resume() }
  }

  func wait() async {
    await withCheckedContinuation { continuation in
      let isOpen = state.withLock { state in
        if !state.isOpen { state.waiting.append(continuation) }
        return state.isOpen
      }
      if isOpen { continuation.resume() }
    }
  }
}
