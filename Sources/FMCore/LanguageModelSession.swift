import FMWire
import Synchronization

/// A conversation with a model: instructions, then prompts and responses in turn.
///
/// One request at a time; a second one throws `Error.concurrentRequests` and leaves the first alone.
/// A request that fails or is cancelled leaves the transcript as it was.
public final class LanguageModelSession: Sendable {
  public enum Error: Swift.Error, Hashable, Sendable {
    case concurrentRequests
  }

  private struct State {
    var transcript: Transcript
    var isResponding = false
    var usage = Usage()
    var last: CompletedResponse?
  }

  private let runner: ModelRunner
  private let state: Mutex<State>

  public init(model: some LanguageModel = SystemLanguageModel.default, transcript: Transcript) {
    runner = ModelRunner(model)
    state = Mutex(State(transcript: transcript))
  }

  public convenience init(
    model: some LanguageModel = SystemLanguageModel.default, instructions: Instructions? = nil
  ) {
    let entries: [Transcript.Entry] =
      if let instructions, !instructions.components.isEmpty {
        [.instructions(Transcript.Instructions(segments: .init(instructions.components)))]
      } else {
        []
      }
    self.init(model: model, transcript: Transcript(entries: entries))
  }

  @_disfavoredOverload
  public convenience init(
    model: some LanguageModel = SystemLanguageModel.default, instructions: String? = nil
  ) {
    self.init(
      model: model,
      instructions: instructions.flatMap { $0.isEmpty ? nil : Instructions($0) })
  }

  public convenience init<Failure: Swift.Error>(
    model: some LanguageModel = SystemLanguageModel.default,
    @InstructionsBuilder instructions: () throws(Failure) -> Instructions
  ) throws(Failure) {
    self.init(model: model, instructions: try instructions())
  }

  public var transcript: Transcript { state.withLock(\.transcript) }
  public var isResponding: Bool { state.withLock(\.isResponding) }
  /// Tokens of all completed requests.
  public var usage: Usage { state.withLock(\.usage) }
  package var lastResponse: CompletedResponse? { state.withLock(\.last) }
}

// MARK: - Requests

extension LanguageModelSession {
  @discardableResult
  public nonisolated(nonsending) func respond(
    to prompt: Prompt, options: GenerationOptions = GenerationOptions()
  ) async throws -> Response<String> {
    try await complete(Request(prompt: prompt, schema: nil, options: options)).textResponse()
  }

  @_disfavoredOverload
  @discardableResult
  public nonisolated(nonsending) func respond(
    to prompt: String, options: GenerationOptions = GenerationOptions()
  ) async throws -> Response<String> {
    try await respond(to: Prompt(prompt), options: options)
  }

  @discardableResult
  public nonisolated(nonsending) func respond(
    options: GenerationOptions = GenerationOptions(),
    @PromptBuilder prompt: () throws -> Prompt
  ) async throws -> Response<String> {
    try await respond(to: try prompt(), options: options)
  }

  /// An answer that is JSON valid by the schema, checked here whatever the server claims; a
  /// mismatch throws `GeneratedContent.ParsingError`.
  @discardableResult
  public nonisolated(nonsending) func respond(
    to prompt: Prompt, schema: GenerationSchema, options: GenerationOptions = GenerationOptions()
  ) async throws -> Response<GeneratedContent> {
    try await complete(Request(prompt: prompt, schema: schema, options: options)).contentResponse()
  }

  @_disfavoredOverload
  @discardableResult
  public nonisolated(nonsending) func respond(
    to prompt: String, schema: GenerationSchema, options: GenerationOptions = GenerationOptions()
  ) async throws -> Response<GeneratedContent> {
    try await respond(to: Prompt(prompt), schema: schema, options: options)
  }

  @discardableResult
  public nonisolated(nonsending) func respond(
    schema: GenerationSchema, options: GenerationOptions = GenerationOptions(),
    @PromptBuilder prompt: () throws -> Prompt
  ) async throws -> Response<GeneratedContent> {
    try await respond(to: try prompt(), schema: schema, options: options)
  }

  public func streamResponse(
    to prompt: Prompt, options: GenerationOptions = GenerationOptions()
  ) -> ResponseStream<String> {
    let request = Request(prompt: prompt, schema: nil, options: options)
    return ResponseStream(
      start: { [self] in
        StreamDriver { onSnapshot in
          do {
            let reservation = try self.reserve()
            let text = Mutex("")
            return await self.perform(request, reservation) { update in
              onSnapshot(text.withLock { $0.apply(update) })
            }.result
          } catch {
            return .failure(error)
          }
        }
      },
      snapshot: {
        .init(content: $0, rawContent: GeneratedContent(.string($0), isComplete: false))
      },
      response: { $0.textResponse() })
  }

  @_disfavoredOverload
  public func streamResponse(
    to prompt: String, options: GenerationOptions = GenerationOptions()
  ) -> ResponseStream<String> {
    streamResponse(to: Prompt(prompt), options: options)
  }

  public func streamResponse(
    options: GenerationOptions = GenerationOptions(), @PromptBuilder prompt: () throws -> Prompt
  ) rethrows -> ResponseStream<String> {
    streamResponse(to: try prompt(), options: options)
  }

  private nonisolated(nonsending) func complete(_ request: Request) async throws
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
}

extension String {
  /// The text with the change made.
  package mutating func apply(_ update: TextUpdate) -> String {
    switch update {
    case .appended(let text): self += text
    case .replaced(let text): self = text
    }
    return self
  }
}

extension LanguageModelSession {
  package struct Request: Sendable {
    package var prompt: Prompt
    package var schema: GenerationSchema?
    package var options: GenerationOptions

    package init(prompt: Prompt, schema: GenerationSchema?, options: GenerationOptions) {
      self.prompt = prompt
      self.schema = schema
      self.options = options
    }
  }

  /// The right to run a request, held by one caller at a time. `end`, or letting go of it, gives it
  /// back.
  package final class Reservation: Sendable {
    private let session: LanguageModelSession
    private let isHeld = Atomic(true)

    fileprivate init(_ session: LanguageModelSession) { self.session = session }

    package func end() {
      guard isHeld.exchange(false, ordering: .relaxed) else { return }
      session.state.withLock { $0.isResponding = false }
    }

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
  /// the transcript. `onUpdate` is called in order, on the
  /// thread that the answer comes on, which it must not hold up.
  package nonisolated(nonsending) func perform(
    _ request: Request, _ reservation: Reservation,
    onUpdate: (@Sendable (TextUpdate) -> Void)? = nil
  ) async -> Outcome {
    // Written by the thread that the events come on.
    let gathered = Mutex((assembler: Assembler(), firstTextSeconds: Double?.none))
    let started = MonotonicTime.now()
    let result: Result<CompletedResponse, any Swift.Error>
    do {
      try request.prompt.validate()
      let entry = Transcript.Entry.prompt(
        Transcript.Prompt(
          segments: .init(request.prompt.components), options: request.options,
          responseFormat: request.schema.map(Transcript.ResponseFormat.init)))
      var transcript = self.transcript
      transcript.entries.append(entry)
      try validate(transcript, schema: request.schema)
      try await runner.respond(
        to: LanguageModelExecutorGenerationRequest(
          transcript: transcript, schema: request.schema, generationOptions: request.options)
      ) { event in
        gathered.withLock { gathered in
          guard let update = gathered.assembler.take(event) else { return }
          gathered.firstTextSeconds = gathered.firstTextSeconds ?? started.secondsUntilNow
          onUpdate?(update)
        }
      }
      let (assembler, firstTextSeconds) = gathered.withLock { $0 }
      let completed = try assembler.completed(
        prompt: entry, schema: request.schema,
        timing: ResponseTiming(
          firstTextSeconds: firstTextSeconds, totalSeconds: started.secondsUntilNow))
      state.withLock { state in
        state.transcript.entries += completed.entries
        state.usage += completed.usage
        state.last = completed
      }
      result = .success(completed)
    } catch {
      result = .failure(error)
    }
    reservation.end()
    return Outcome(result: result, partialText: gathered.withLock(\.assembler.text))
  }

  private func validate(_ transcript: Transcript, schema: GenerationSchema?) throws {
    for case .instructions(let instructions) in transcript {
      for case .attachment(let segment) in instructions.segments {
        guard case .image(let image) = segment.content else { continue }
        if let label = segment.label { try validateLabel(label) }
        _ = try image.content.source.get()
      }
    }
    func require(_ capability: LanguageModelCapabilities.Capability, _ what: String) throws {
      guard runner.capabilities().contains(capability) else {
        throw LanguageModelError.unsupportedCapability(
          .init(
            capability: capability,
            debugDescription: "This model takes no \(what); nothing was sent."
              + " Use a model with the capability \(quoted(capability.name))."))
      }
    }
    if transcript.contains(where: \.segments.holdsImages) { try require(.vision, "pictures") }
    if schema != nil { try require(.guidedGeneration, "schemas for its answers") }
  }
}

/// Gathers an executor's events into a response.
private struct Assembler {
  typealias Channel = LanguageModelExecutorGenerationChannel

  var text = ""
  var usage = Usage()
  var metadata: [String: GeneratedContent] = [:]

  /// The change of the answer's text, if the event makes one.
  mutating func take(_ event: any Channel.Event) -> TextUpdate? {
    switch event {
    case let event as Channel.ResponseEvent: take(event.action)
    // Reasoning is kept out of the answer; its usage and metadata belong to the response too.
    case let event as Channel.ReasoningEvent:
      switch event.action {
      case .appendText, .replaceTextSegment: nil
      case .updateMetadata, .updateUsage: take(event.action)
      }
    default: nil
    }
  }

  private mutating func take(_ action: Channel.Action) -> TextUpdate? {
    switch action {
    case .appendText(let more, _, _):
      guard !more.isEmpty else { return nil }
      text += more
      return .appended(more)
    case .replaceTextSegment(let whole, _, _):
      text = whole
      return .replaced(whole)
    case .updateMetadata(let values):
      metadata = values.mapValues(\.generatedContent)
      return nil
    case .updateUsage(let input, let output):
      usage = Usage(input: input, output: output)
      return nil
    }
  }

  func completed(
    prompt: Transcript.Entry, schema: GenerationSchema?, timing: ResponseTiming
  ) throws -> CompletedResponse {
    var content: GeneratedContent?
    var segment = Transcript.Segment.text(Transcript.TextSegment(content: text))
    if let schema {
      let parsed = try GeneratedContent(json: text)
      do {
        try schema.validate(parsed.jsonValue)
      } catch {
        throw GeneratedContent.ParsingError(
          rawContent: text, underlyingError: error,
          debugDescription: "The answer is not valid by the schema at \(error.path):"
            + " \(error.reason). The answer was \(shortened(text, to: 200))")
      }
      let generated = GeneratedContent(parsed.jsonValue, id: GenerationID())
      content = generated
      segment = .structure(
        Transcript.StructuredSegment(schemaName: schema.name, content: generated))
    }
    var response = Transcript.Response(segments: [segment])
    response.metadata = metadata
    return CompletedResponse(
      text: text, content: content, usage: usage, metadata: metadata, timing: timing,
      entries: [prompt, .response(response)])
  }
}
