import FMWire
import Synchronization

/// A conversation with a model: instructions, then prompts and responses in turn.
///
/// One request at a time; a second one throws `Error.concurrentRequests` and leaves the first alone.
/// A request that fails or is cancelled leaves the transcript as it was.
public final class LanguageModelSession: Sendable {
  public enum Error: Swift.Error, Hashable, Sendable {
    case concurrentRequests
    /// The transcript was set while a request ran: it stays as it was set, and the request's turn is
    /// not in it.
    case transcriptMutationWhileResponding
  }

  private struct State {
    var transcript: Transcript
    var isResponding = false
    var usage = Usage()
    var last: CompletedResponse?
    /// The transcript was set while the present request runs.
    var wasMutated = false
    var errorHandling: TranscriptErrorHandlingPolicy?
    var toolPolicy = ToolPolicy()
    var historyTransform: HistoryTransform?
    /// Sent in place of the transcript by the next request.
    var nextHistory: Transcript?
  }

  private let runner: ModelRunner
  private let tools: [AnyTool]
  /// What is wrong with the tools; thrown by the requests, as an initialiser does not throw.
  private let toolFailure: ToolDefinitionError?
  private let state: Mutex<State>

  /// Goes on with a conversation. Its tools are not in the transcript, only what the model was told
  /// of them: they are given again, and the transcript then tells of these.
  public init(
    model: some LanguageModel = SystemLanguageModel.default, tools: [any Tool] = [],
    transcript: Transcript
  ) {
    runner = ModelRunner(model)
    self.tools = tools.map { AnyTool($0) }
    do {
      try tools.validate()
      toolFailure = nil
    } catch {
      toolFailure = error
    }
    var transcript = transcript
    transcript.tell(of: self.tools.map(\.definition))
    state = Mutex(State(transcript: transcript))
  }

  public convenience init(
    model: some LanguageModel = SystemLanguageModel.default, tools: [any Tool] = [],
    instructions: Instructions? = nil
  ) {
    let entries: [Transcript.Entry] =
      if let instructions, !instructions.components.isEmpty {
        [.instructions(Transcript.Instructions(segments: .init(instructions.components)))]
      } else {
        []
      }
    self.init(model: model, tools: tools, transcript: Transcript(entries: entries))
  }

  @_disfavoredOverload
  public convenience init(
    model: some LanguageModel = SystemLanguageModel.default, tools: [any Tool] = [],
    instructions: String? = nil
  ) {
    self.init(
      model: model, tools: tools,
      instructions: instructions.flatMap { $0.isEmpty ? nil : Instructions($0) })
  }

  public convenience init<Failure: Swift.Error>(
    model: some LanguageModel = SystemLanguageModel.default, tools: [any Tool] = [],
    @InstructionsBuilder instructions: () throws(Failure) -> Instructions
  ) throws(Failure) {
    self.init(model: model, tools: tools, instructions: try instructions())
  }

  /// What was said so far. Set while a request runs, it stays as it was set, and the request throws
  /// `Error.transcriptMutationWhileResponding`.
  public var transcript: Transcript {
    get { state.withLock(\.transcript) }
    set {
      state.withLock { state in
        state.transcript = newValue
        state.wasMutated = true
      }
    }
  }

  /// What a failed or cancelled request leaves in the transcript; nil = nothing.
  public var transcriptErrorHandlingPolicy: TranscriptErrorHandlingPolicy? {
    get { state.withLock(\.errorHandling) }
    set { state.withLock { $0.errorHandling = newValue } }
  }

  public var toolPolicy: ToolPolicy {
    get { state.withLock(\.toolPolicy) }
    set { state.withLock { $0.toolPolicy = newValue } }
  }

  /// Shapes what the model sees of the conversation; the transcript itself is left alone.
  public var historyTransform: HistoryTransform? {
    get { state.withLock(\.historyTransform) }
    set { state.withLock { $0.historyTransform = newValue } }
  }

  /// What the next request sends in place of the transcript; nil = the transcript.
  package var nextHistory: Transcript? {
    get { state.withLock(\.nextHistory) }
    set { state.withLock { $0.nextHistory = newValue } }
  }

  /// Gets the model ready for a request that comes soon, in the background: starts an engine, opens
  /// a connection, and lets the model read what is sent anyway. Returns at once and never fails.
  public func prewarm(promptPrefix: Prompt? = nil) {
    Task { await warmUp(promptPrefix: promptPrefix) }
  }

  package nonisolated(nonsending) func warmUp(promptPrefix: Prompt?) async {
    var transcript = transcript
    if let promptPrefix, (try? promptPrefix.validate()) != nil {
      transcript.entries.append(
        .prompt(Transcript.Prompt(segments: .init(promptPrefix.components))))
    }
    await runner.prewarm(transcript)
  }

  public var isResponding: Bool { state.withLock(\.isResponding) }
  /// Tokens of all completed requests.
  public var usage: Usage { state.withLock(\.usage) }
  package var lastResponse: CompletedResponse? { state.withLock(\.last) }
}

extension LanguageModelSession {
  /// Starts a request whose answer is read as it grows.
  func drive(_ request: Request, telling progress: TurnProgress) -> StreamDriver {
    var request = request
    request.progress = progress
    return StreamDriver(self, request)
  }

  nonisolated(nonsending) func complete(_ request: Request) async throws
    -> CompletedResponse
  {
    try await perform(request, try reserve()).result.get()
  }
}

// MARK: - The request itself

/// What came back from one request, with what it is known by.
package struct CompletedResponse: Sendable {
  package var text: String
  /// The parsed and validated answer where a schema was given.
  package var content: GeneratedContent?
  package var usage: Usage
  package var metadata: [String: GeneratedContent]
  package var timing: ResponseTiming
  var entries: ArraySlice<Transcript.Entry>

  func textResponse() -> Response<String> {
    Response(
      content: text, rawContent: GeneratedContent(.string(text), id: GenerationID()),
      transcriptEntries: entries, usage: usage, metadata: metadata, timing: timing)
  }

  func contentResponse() -> Response<GeneratedContent> {
    let content = content ?? GeneratedContent(.string(text))
    return Response(
      content: content, rawContent: content, transcriptEntries: entries, usage: usage,
      metadata: metadata, timing: timing)
  }
}

/// A change of the text answered so far.
package enum TextUpdate: Sendable {
  case appended(String)
  case replaced(String)

  package var text: String {
    switch self {
    case .appended(let text), .replaced(let text): text
    }
  }
}

extension String {
  package mutating func apply(_ update: TextUpdate) {
    switch update {
    case .appended(let text): self += text
    case .replaced(let text): self = text
    }
  }
}

extension LanguageModelSession {
  package struct Request: Sendable {
    package var prompt: Prompt
    package var schema: GenerationSchema?
    package var options: GenerationOptions
    package var contextOptions: ContextOptions
    var metadata: [String: GeneratedContent]
    /// Where a stream of snapshots looks up what is known beside the text; nil where nobody does.
    var progress: TurnProgress?
    /// Of the guided answer and all its snapshots.
    let contentID = GenerationID()

    package init(
      prompt: Prompt, schema: GenerationSchema?, options: GenerationOptions,
      contextOptions: ContextOptions = ContextOptions(),
      metadata: [String: any ConvertibleToGeneratedContent] = [:]
    ) {
      self.prompt = prompt
      self.schema = schema
      self.options = options
      self.contextOptions = contextOptions
      self.metadata = metadata.mapValues(\.generatedContent)
    }
  }

  /// The right to run a request, held by one caller at a time. `end`, `cancel`, or letting go of it,
  /// gives it back. A request that has lost it changes nothing in the session any more.
  package final class Reservation: Sendable {
    private let session: LanguageModelSession
    /// Changed under the session's lock only.
    private let isHeld = Atomic(true)

    fileprivate init(_ session: LanguageModelSession) { self.session = session }

    package func end() {
      session.state.withLock { end(&$0) }
    }

    /// Frees the session of a request that was cancelled, at once and not when its last part has
    /// ended; unless something of it is to be kept in the transcript: then its end has to be awaited.
    package func cancel() {
      session.state.withLock { state in
        if state.errorHandling != .preserveTranscript { end(&state) }
      }
    }

    private func end(_ state: inout State) {
      if isHeld.exchange(false, ordering: .relaxed) { state.isResponding = false }
    }

    /// Whether the request may change the session; asked under the session's lock.
    fileprivate var isValid: Bool { isHeld.load(ordering: .relaxed) }

    deinit { end() }
  }

  package struct Outcome: Sendable {
    package var result: Result<CompletedResponse, any Swift.Error>
    /// The text that had arrived when the request failed.
    package var partialText: String
  }

  package func reserve() throws -> Reservation {
    let isFree = state.withLock { state in
      defer { state.isResponding = true }
      return !state.isResponding
    }
    guard isFree else { throw Error.concurrentRequests }
    return Reservation(self)
  }

  /// Runs a request. The session is free again when this returns, and only a complete answer is in
  /// the transcript, unless `transcriptErrorHandlingPolicy` asks for more. `onUpdate` is called in
  /// order, on the thread that the answer comes on, which it must not hold up: one that cannot take
  /// more holds `flow`.
  package nonisolated(nonsending) func perform(
    _ request: Request, _ reservation: Reservation, flow: AnswerFlow? = nil,
    onUpdate: (@Sendable (TextUpdate) -> Void)? = nil
  ) async -> Outcome {
    let result: Result<CompletedResponse, any Swift.Error>
    var partialText = ""
    do {
      try request.prompt.validate()
      try toolFailure.map { throw $0 }
      let (history, policy) = try historyToSend(reservation)
      var turn = Turn(
        request, after: history, runner: runner, tools: tools, policy: policy, flow: flow,
        onUpdate: onUpdate)
      do {
        let completed = try await turn.run()
        try commit(completed, reservation)
        result = .success(completed)
      } catch {
        partialText = turn.partialText
        keepPartial(turn.partialEntries, reservation)
        throw error
      }
    } catch {
      result = .failure(error)
    }
    reservation.end()
    return Outcome(result: result, partialText: partialText)
  }

  private func historyToSend(
    _ reservation: Reservation
  ) throws -> ([Transcript.Entry], ToolPolicy) {
    let (entries, transform, once, policy) = try state.withLock { state in
      guard reservation.isValid else { throw CancellationError() }
      defer { state.nextHistory = nil }
      state.wasMutated = false
      return (
        state.transcript.entries, state.historyTransform, state.nextHistory, state.toolPolicy
      )
    }
    if let once { return (once.entries, policy) }
    return (try transform?.transform(entries) ?? entries, policy)
  }

  private func commit(_ completed: CompletedResponse, _ reservation: Reservation) throws {
    try state.withLock { state in
      guard reservation.isValid else { throw CancellationError() }
      guard !state.wasMutated else { throw Error.transcriptMutationWhileResponding }
      state.transcript.entries += completed.entries
      state.usage += completed.usage
      state.last = completed
    }
  }

  private func keepPartial(_ entries: [Transcript.Entry], _ reservation: Reservation) {
    state.withLock { state in
      guard state.errorHandling == .preserveTranscript, !state.wasMutated, reservation.isValid
      else { return }
      state.transcript.entries += entries
    }
  }
}
