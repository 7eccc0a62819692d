/// How many tokens something costs.
public struct TokenCount: Sendable, Equatable {
  public var value: Int
  /// True where whatever runs the model counted, false for an estimate of ours.
  public var isExact: Bool
  /// What the value was made of: `request` and, where a part alone was counted, `without`, the same
  /// request lacking that part; of an estimate `text`, `images`, `tools`, `framing`.
  public var parts: [String: Int]
}

/// What tokens are counted of.
package enum TokenCountSubject: Sendable {
  /// What sending it as the only turn of a session without instructions costs.
  case prompt(Prompt)
  /// What it adds to a request.
  case instructions(Instructions)
  case tools([Transcript.ToolDefinition])
  case schema(GenerationSchema)
  case transcript(Transcript)
}

extension LanguageModel {
  /// What sending the prompt as the only turn of a session without instructions costs: the server's
  /// own count of the request's input where it gives one, else an estimate.
  public func tokenCount(for prompt: some PromptRepresentable) async throws -> TokenCount {
    try await tokenCount(of: .prompt(prompt.promptRepresentation))
  }

  /// What the instructions add to a request.
  public func tokenCount(for instructions: Instructions) async throws -> TokenCount {
    try await tokenCount(of: .instructions(instructions))
  }

  /// What the tools add to a request.
  public func tokenCount(for tools: [any Tool]) async throws -> TokenCount {
    try await tokenCount(of: .tools(tools.map { Transcript.ToolDefinition(tool: $0) }))
  }

  /// What asking for an answer by the schema adds to a request.
  public func tokenCount(for schema: GenerationSchema) async throws -> TokenCount {
    try await tokenCount(of: .schema(schema))
  }

  /// What sending the transcript costs; where its last entry is an answer, what it adds to the next
  /// request.
  public func tokenCount(for transcript: some Collection<Transcript.Entry> & Sendable) async throws
    -> TokenCount
  {
    try await tokenCount(of: .transcript(Transcript(entries: transcript)))
  }

  package func tokenCount(of subject: TokenCountSubject) async throws -> TokenCount {
    try await TokenCounter(model: self).count(subject)
  }
}

private struct TokenCounter<Model: LanguageModel> {
  let model: Model

  /// The part that is counted alone is counted beside this prompt, and the prompt without it is
  /// taken off again.
  private let companion = Transcript.Entry.prompt(
    Transcript.Prompt(segments: [.text(Transcript.TextSegment(content: "Hello"))]))

  func count(_ subject: TokenCountSubject) async throws -> TokenCount {
    switch subject {
    case .prompt(let prompt):
      try prompt.validate()
      return try await count([
        .prompt(Transcript.Prompt(segments: .init(prompt.components)))
      ])
    case .instructions(let instructions):
      guard !instructions.components.isEmpty else {
        return TokenCount(value: 0, isExact: true, parts: [:])
      }
      try instructions.components.validate()
      let entry = Transcript.Instructions(segments: .init(instructions.components))
      return try await difference([.instructions(entry), companion])
    case .tools(let tools):
      guard !tools.isEmpty else { return TokenCount(value: 0, isExact: true, parts: [:]) }
      return try await difference([companion], tools: tools)
    case .schema(let schema):
      var prompt = Transcript.Prompt(
        segments: [.text(Transcript.TextSegment(content: "Hello"))])
      prompt.responseFormat = Transcript.ResponseFormat(schema: schema)
      return try await difference([.prompt(prompt)], schema: schema)
    case .transcript(let transcript):
      var tools: [Transcript.ToolDefinition] = []
      if case .instructions(let instructions) = transcript.first {
        tools = instructions.toolDefinitions
      }
      guard !transcript.isEmpty else { return TokenCount(value: 0, isExact: true, parts: [:]) }
      switch transcript.last {
      case .prompt, .toolOutput: return try await count(transcript.entries, tools: tools)
      default: return try await difference(transcript.entries + [companion], tools: tools)
      }
    }
  }

  private func difference(
    _ entries: [Transcript.Entry], tools: [Transcript.ToolDefinition] = [],
    schema: GenerationSchema? = nil
  ) async throws -> TokenCount {
    let with = try await count(entries, tools: tools, schema: schema)
    let without = try await count([companion])
    return TokenCount(
      value: max(0, with.value - without.value), isExact: with.isExact && without.isExact,
      parts: ["request": with.value, "without": without.value])
  }

  private func count(
    _ entries: [Transcript.Entry], tools: [Transcript.ToolDefinition] = [],
    schema: GenerationSchema? = nil
  ) async throws -> TokenCount {
    var request = LanguageModelExecutorGenerationRequest(
      transcript: Transcript(entries: entries), enabledTools: tools, schema: schema)
    if request.transcript.contains(where: \.segments.holdsImages),
      !model.capabilities.contains(.vision)
    {
      throw LanguageModelError.unsupportedCapability(
        .init(
          capability: .vision,
          debugDescription: "This model takes no pictures, so that there is nothing to count."))
    }
    let needsPlainTools = tools.isEmpty ? false : try await !callsToolsNatively
    if needsPlainTools {
      // As a session sends them to such a model.
      request.transcript = GuidedTools(definitions: tools).answering(in: request.transcript)
      request.enabledToolDefinitions = []
    }
    if let exact = try await model.exactTokenCount(of: request) {
      return TokenCount(value: exact, isExact: true, parts: ["request": exact])
    }
    return try TokenEstimate(of: request, for: model).count
  }

  private var callsToolsNatively: Bool {
    get async throws {
      guard model.capabilities.contains(.toolCalling) else { return false }
      return try await model.confirmedCapabilities.contains(.toolCalling)
    }
  }
}
