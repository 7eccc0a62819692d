// Requests whose answers are text.

extension LanguageModelSession {
  /// An answer in text.
  @discardableResult
  public nonisolated(nonsending) func respond(
    to prompt: Prompt,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions(),
    metadata: [String: any ConvertibleToGeneratedContent] = [:]
  ) async throws -> Response<String> {
    try await complete(
      Request(
        prompt: prompt, schema: nil, options: options, contextOptions: contextOptions,
        metadata: metadata)
    ).textResponse()
  }

  @_disfavoredOverload
  @discardableResult
  public nonisolated(nonsending) func respond(
    to prompt: String,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions(),
    metadata: [String: any ConvertibleToGeneratedContent] = [:]
  ) async throws -> Response<String> {
    try await respond(
      to: Prompt(prompt), options: options, contextOptions: contextOptions, metadata: metadata)
  }

  @discardableResult
  public nonisolated(nonsending) func respond(
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions(),
    metadata: [String: any ConvertibleToGeneratedContent] = [:],
    @PromptBuilder prompt: () throws -> Prompt
  ) async throws -> Response<String> {
    try await respond(
      to: try prompt(), options: options, contextOptions: contextOptions, metadata: metadata)
  }

  /// The same, as it grows.
  public func streamResponse(
    to prompt: Prompt,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions(),
    metadata: [String: any ConvertibleToGeneratedContent] = [:]
  ) -> ResponseStream<String> {
    textStream(
      Request(
        prompt: prompt, schema: nil, options: options, contextOptions: contextOptions,
        metadata: metadata))
  }

  @_disfavoredOverload
  public func streamResponse(
    to prompt: String,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions(),
    metadata: [String: any ConvertibleToGeneratedContent] = [:]
  ) -> ResponseStream<String> {
    streamResponse(
      to: Prompt(prompt), options: options, contextOptions: contextOptions, metadata: metadata)
  }

  public func streamResponse(
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions(),
    metadata: [String: any ConvertibleToGeneratedContent] = [:],
    @PromptBuilder prompt: () throws -> Prompt
  ) rethrows -> ResponseStream<String> {
    streamResponse(
      to: try prompt(), options: options, contextOptions: contextOptions, metadata: metadata)
  }

  private func textStream(_ request: Request) -> ResponseStream<String> {
    let progress = TurnProgress()
    return ResponseStream(
      start: { self.drive(request, telling: progress) },
      snapshot: { text in
        .init(
          content: text, rawContent: GeneratedContent(.string(text), isComplete: false),
          transcriptEntries: progress.entries(
            answering: .text(Transcript.TextSegment(id: "0", content: text))),
          usage: progress.usage)
      },
      response: { $0.textResponse() })
  }
}
