import FMWire
import Synchronization

/// One turn of a session: a prompt, as many rounds of tool calls as the model asks for, the answer.
///
/// Holds the entries as they come to be; the session commits them when the turn is complete.
struct Turn {
  let runner: ModelRunner
  let tools: [AnyTool]
  let policy: ToolPolicy
  let request: LanguageModelSession.Request
  /// Everything before the prompt, as the model is to see it.
  let history: [Transcript.Entry]
  let onUpdate: (@Sendable (TextUpdate) -> Void)?
  /// How who gets the updates holds them up.
  let flow: AnswerFlow?

  /// The prompt, and what came after it so far.
  private(set) var entries: [Transcript.Entry] = [] {
    didSet { request.progress?.tell(entries) }
  }
  private(set) var usage = Usage()
  private var round = RoundAssembler()
  /// The check that the answer goes through where a schema was given.
  private var guide: GuidedAnswer?
  private var firstTextSeconds: Double?
  /// Text went to `onUpdate` that is no part of what comes next.
  private var hasShownText = false
  private let started = MonotonicTime.now()

  init(
    _ request: LanguageModelSession.Request, after history: [Transcript.Entry],
    runner: ModelRunner, tools: [AnyTool], policy: ToolPolicy, flow: AnswerFlow? = nil,
    onUpdate: (@Sendable (TextUpdate) -> Void)?
  ) {
    self.request = request
    self.history = history
    self.runner = runner
    self.tools = tools
    self.policy = policy
    self.onUpdate = onUpdate
    self.flow = flow
  }

  /// What the answer that was broken off has said.
  var partialText: String { round.text }

  /// The entries with what has come of an answer that was broken off.
  var partialEntries: [Transcript.Entry] {
    round.text.isEmpty ? entries : entries + [.response(round.response())]
  }

  nonisolated(nonsending) mutating func run() async throws -> CompletedResponse {
    var prompt = Transcript.Prompt(
      segments: .init(request.prompt.components), options: request.options,
      contextOptions: request.contextOptions)
    prompt.metadata = request.metadata
    entries = [.prompt(prompt)]
    guide = try request.schema.map {
      try GuidedAnswer($0, in: transcript, contentID: request.contentID)
    }
    prompt.responseFormat = guide.map { Transcript.ResponseFormat(schema: $0.schema) }
    entries = [.prompt(prompt)]
    let usesTools = !tools.isEmpty && request.options.toolCallingMode?.kind != .disallowed
    try validate()
    guard usesTools else { return try await answer(offering: []) }
    if try await callsToolsNatively() {
      return try await runWithTools()
    }
    return try await runWithGuidedTools()
  }

  private var transcript: Transcript { Transcript(entries: history + entries) }

  // MARK: - Checks

  private func validate() throws {
    let transcript = transcript
    for entry in transcript {
      for case .attachment(let segment) in entry.segments {
        guard case .image(let image) = segment.content else { continue }
        if let label = segment.label { try validateLabel(label) }
        _ = try image.content.source.get()
      }
    }
    if transcript.contains(where: \.segments.holdsImages) { try require(.vision, "pictures") }
    if request.schema != nil { try require(.guidedGeneration, "schemas for its answers") }
    if request.contextOptions.reasoningLevel != nil {
      try require(.reasoning, "levels of reasoning")
    }
  }

  private func require(
    _ capability: LanguageModelCapabilities.Capability, _ what: String
  ) throws {
    guard runner.capabilities().contains(capability) else {
      throw LanguageModelError.unsupportedCapability(
        .init(
          capability: capability,
          debugDescription: "This model takes no \(what); nothing was sent."
            + " Use a model with the capability \(quoted(capability.name))."))
    }
  }

  /// Whether the model calls tools by itself. One that does not can still choose among them where it
  /// can be held to a schema.
  private nonisolated(nonsending) func callsToolsNatively() async throws -> Bool {
    var capabilities = runner.capabilities()
    if capabilities.contains(.toolCalling) {
      capabilities = try await runner.confirmedCapabilities()
    }
    if capabilities.contains(.toolCalling) { return true }
    try require(.guidedGeneration, "tools, neither by itself nor by a schema for its answers")
    return false
  }

  // MARK: - Rounds

  private nonisolated(nonsending) mutating func send(
    _ transcript: Transcript, schema: GenerationSchema?, options: GenerationOptions,
    offering definitions: [Transcript.ToolDefinition], showing isShown: Bool
  ) async throws {
    if hasShownText { onUpdate?(.replaced("")) }
    hasShownText = false
    // Written by the thread that the events come on.
    let gathered = Mutex((round: RoundAssembler(), firstTextSeconds: firstTextSeconds))
    defer {
      (round, firstTextSeconds) = gathered.withLock { $0 }
      usage += round.usage
      hasShownText = isShown && !round.text.isEmpty
    }
    let (onUpdate, started) = (onUpdate, started)
    let progress = request.progress
    let usageBefore = usage
    try await runner.respond(
      to: LanguageModelExecutorGenerationRequest(
        transcript: transcript, enabledTools: definitions, schema: schema,
        generationOptions: options, contextOptions: request.contextOptions,
        metadata: request.metadata), flow: flow
    ) { event in
      gathered.withLock { gathered in
        defer { progress?.tellUsage(gathered.round.usage, after: usageBefore) }
        guard let update = gathered.round.take(event), isShown else { return }
        gathered.firstTextSeconds = gathered.firstTextSeconds ?? started.secondsUntilNow
        onUpdate?(update)
      }
    }
  }

  /// The answer, valid by the schema where there is one.
  private nonisolated(nonsending) mutating func answer(
    offering definitions: [Transcript.ToolDefinition], in transcript: Transcript? = nil
  ) async throws -> CompletedResponse {
    var options = request.options
    if !definitions.isEmpty { options.toolCallingMode = .disallowed }
    var transcript = transcript ?? self.transcript
    for attempt in 0... {
      try await send(
        transcript, schema: guide?.schema, options: options, offering: definitions, showing: true)
      if round.text.isEmpty, let call = round.toolCalls.first {
        throw LanguageModelError.emptyResponse(
          .init(
            debugDescription: "The model called the tool \(quoted(call.name)) instead of answering,"
              + " though it was asked for an answer; another prompt or model may do better."))
      }
      do {
        return try completed()
      } catch let error as GeneratedContent.ParsingError {
        guard let guide, attempt < options.repairAttempts else { throw error }
        transcript.entries += [
          .response(round.response()), .prompt(guide.repairPrompt(after: error)),
        ]
      }
    }
    throw CancellationError()
  }

  private nonisolated(nonsending) mutating func runWithTools() async throws -> CompletedResponse {
    let definitions = tools.map(\.definition)
    var options = request.options
    for _ in 0..<max(policy.maximumRounds, 1) + 1 {
      // A grammar for the answer would keep the model from calling anything: it comes at the end.
      try await send(
        transcript, schema: nil, options: options, offering: definitions,
        showing: request.schema == nil)
      guard !round.toolCalls.isEmpty else {
        guard request.schema != nil else { return try completed() }
        if let early = try? completed() { return early }
        return try await answer(offering: definitions)
      }
      if roundsDone >= policy.maximumRounds { break }
      if let reasoning = round.reasoning { entries.append(.reasoning(reasoning)) }
      if !round.text.isEmpty { entries.append(.response(round.response())) }
      try await call(round.toolCalls)
      if options.toolCallingMode == .required { options.toolCallingMode = .allowed }
    }
    throw LanguageModelSession.ToolRoundLimitError(limit: policy.maximumRounds)
  }

  private var roundsDone: Int {
    entries.count { if case .toolCalls = $0 { true } else { false } }
  }

  /// The model chooses each call by guided generation, until it chooses none.
  private nonisolated(nonsending) mutating func runWithGuidedTools() async throws
    -> CompletedResponse
  {
    let guide = GuidedTools(tools)
    var mustCall = request.options.toolCallingMode == .required
    while true {
      try await send(
        guide.choosing(in: transcript), schema: try guide.schema(mustCall: mustCall),
        options: request.options, offering: [], showing: false)
      guard let call = try guide.call(chosenBy: round.text) else { break }
      if roundsDone >= policy.maximumRounds {
        throw LanguageModelSession.ToolRoundLimitError(limit: policy.maximumRounds)
      }
      mustCall = false
      try await self.call([call])
    }
    round = RoundAssembler()
    return try await answer(offering: [], in: guide.answering(in: transcript))
  }

  // MARK: - Calls

  /// Runs the calls, all at once, and appends them and their outputs.
  private nonisolated(nonsending) mutating func call(_ calls: [RoundAssembler.Call]) async throws {
    let pending = uniquelyNamed(calls).map { call in (call, Result { try arguments(of: call) }) }
    entries.append(
      .toolCalls(
        Transcript.ToolCalls(
          pending.map { call, arguments in
            var entry = Transcript.ToolCall(
              id: call.id, toolName: call.name,
              arguments: (try? arguments.get()) ?? GeneratedContent(.string(call.arguments)))
            entry.metadata = call.metadata
            return entry
          })))
    let tools = Dictionary(self.tools.map { ($0.name, $0) }) { first, _ in first }
    let names = self.tools.map(\.name)
    let policy = policy
    let outputs = try await withThrowingTaskGroup(of: (Int, [PromptComponent]).self) { group in
      for (index, (call, arguments)) in pending.enumerated() {
        group.addTask {
          let unknown = ToolRequestError.unknownTool(known: names)
          do {
            guard let tool = tools[call.name] else { throw unknown }
            return (index, try await tool.call(arguments.get()))
          } catch {
            // A call that ends because the request does is no failure of the tool.
            try Task.checkCancellation()
            if policy.errorHandling == .output {
              return (index, [.text("Tool error: \(toolErrorText(error))")])
            }
            throw LanguageModelSession.ToolCallError(
              tool: tools[call.name]?.tool ?? UnknownTool(name: call.name, error: unknown),
              underlyingError: error)
          }
        }
      }
      var outputs = [[PromptComponent]](repeating: [], count: pending.count)
      for try await (index, output) in group { outputs[index] = output }
      return outputs
    }
    for ((call, _), output) in zip(pending, outputs) {
      entries.append(
        .toolOutput(
          Transcript.ToolOutput(id: call.id, toolName: call.name, segments: .init(output))))
    }
  }

  /// The calls with ids that no earlier call of the conversation has: some servers count anew in each
  /// answer, or give none.
  private func uniquelyNamed(_ calls: [RoundAssembler.Call]) -> [RoundAssembler.Call] {
    var known: Set<String> = []
    for case .toolCalls(let earlier) in history + entries { known.formUnion(earlier.map(\.id)) }
    return calls.map { call in
      var call = call
      if call.id.isEmpty || !known.insert(call.id).inserted { call.id = "call_\(makeUUID())" }
      return call
    }
  }

  /// Servers send no arguments at all for a tool that takes none.
  private func arguments(of call: RoundAssembler.Call) throws -> GeneratedContent {
    guard call.arguments.contains(where: { !$0.isWhitespace }) else { return GeneratedContent([:]) }
    do {
      return GeneratedContent(try JSONValue(parsing: call.arguments), id: GenerationID())
    } catch {
      throw ToolRequestError.malformedArguments(
        call.arguments, reason: "\(error.message) at byte \(error.offset)")
    }
  }

  // MARK: - The end

  private mutating func completed() throws -> CompletedResponse {
    var content: GeneratedContent?
    var segment: Transcript.Segment?
    let text = round.text
    if let guide {
      let isCut = round.metadata["finishReason"]?.jsonValue.stringValue == "length"
      let generated = try guide.content(of: text, isCut: isCut)
      content = generated
      segment = .structure(
        Transcript.StructuredSegment(
          id: "0", schemaName: guide.schema.name, content: generated))
    }
    if let reasoning = round.reasoning { entries.append(.reasoning(reasoning)) }
    entries.append(.response(round.response(content: segment)))
    return CompletedResponse(
      text: text, content: content, usage: usage, metadata: round.metadata,
      timing: ResponseTiming(
        firstTextSeconds: firstTextSeconds, totalSeconds: started.secondsUntilNow),
      entries: entries[...])
  }
}
