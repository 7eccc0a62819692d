import FMWire

/// A model with its executor, whatever their types.
struct ModelRunner: Sendable {
  typealias Channel = LanguageModelExecutorGenerationChannel

  let capabilities: @Sendable () -> LanguageModelCapabilities
  let confirmedCapabilities: @Sendable () async throws -> LanguageModelCapabilities
  let prewarm: @Sendable (Transcript) async -> Void
  private let run: @Sendable (LanguageModelExecutorGenerationRequest, Channel) async throws -> Void

  init<Model: LanguageModel>(_ model: Model) {
    capabilities = { model.capabilities }
    confirmedCapabilities = { try await model.confirmedCapabilities }
    // A session's initialiser does not throw; an executor that cannot be made fails the requests.
    let executor = Result { try Model.Executor(configuration: model.executorConfiguration) }
    prewarm = { transcript in
      try? await executor.get().prewarm(model: model, transcript: transcript)
    }
    run = { request, channel in
      try await executor.get().respond(to: request, model: model, streamingInto: channel)
    }
  }

  /// Runs the request in a task of its own and hands over its events in order, on the thread that
  /// sends them, one at a time; `take` must not block. The task is cancelled and waited for when
  /// `take` throws or the caller's task is cancelled, and waits itself while `flow` is held.
  nonisolated(nonsending) func respond(
    to request: LanguageModelExecutorGenerationRequest, flow: AnswerFlow? = nil,
    take: @escaping @Sendable (any Channel.Event) throws -> Void
  ) async throws {
    let relay = EventRelay(take)
    let channel = Channel(relay, flow: flow)
    let task = Task { [run] in try await run(request, channel) }
    relay.onFailure { task.cancel() }
    let result = await withTaskCancellationHandler {
      await task.result
    } onCancel: {
      task.cancel()
    }
    try relay.close()
    try result.get()
    try Task.checkCancellation()
  }
}
