/// A model with its executor, whatever their types.
struct ModelRunner: Sendable {
  typealias Channel = LanguageModelExecutorGenerationChannel

  let capabilities: @Sendable () -> LanguageModelCapabilities
  private let run: @Sendable (LanguageModelExecutorGenerationRequest, Channel) async throws -> Void

  init<Model: LanguageModel>(_ model: Model) {
    capabilities = { model.capabilities }
    // A session's initialiser does not throw; an executor that cannot be made fails the requests.
    let executor = Result { try Model.Executor(configuration: model.executorConfiguration) }
    run = { request, channel in
      try await executor.get().respond(to: request, model: model, streamingInto: channel)
    }
  }

  /// Runs the request in a child task and hands over its events in order. The child is cancelled
  /// and waited for when `take` throws or the caller's task is cancelled.
  func respond(
    to request: LanguageModelExecutorGenerationRequest,
    take: (any Channel.Event) throws -> Void
  ) async throws {
    let channel = Channel()
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask {
        do {
          try await run(request, channel)
          channel.finish()
        } catch {
          channel.finish(throwing: error)
        }
      }
      defer { channel.finish() }
      for try await event in channel { try take(event) }
    }
    try Task.checkCancellation()
  }
}
