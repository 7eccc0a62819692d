// Requests whose answers are values of a type.

extension LanguageModelSession {
  /// An answer of that type.
  @discardableResult
  public nonisolated(nonsending) func respond<Content: Generable>(
    to prompt: Prompt,
    generating type: Content.Type = Content.self,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions(),
    metadata: [String: any ConvertibleToGeneratedContent] = [:]
  ) async throws -> Response<Content> {
    try await complete(
      Request(
        prompt: prompt, schema: type.generationSchema, options: options,
        contextOptions: contextOptions,
        metadata: metadata)
    ).response()
  }

  @_disfavoredOverload
  @discardableResult
  public nonisolated(nonsending) func respond<Content: Generable>(
    to prompt: String,
    generating type: Content.Type = Content.self,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions(),
    metadata: [String: any ConvertibleToGeneratedContent] = [:]
  ) async throws -> Response<Content> {
    try await respond(
      to: Prompt(prompt), generating: type, options: options, contextOptions: contextOptions,
      metadata: metadata)
  }

  @discardableResult
  public nonisolated(nonsending) func respond<Content: Generable>(
    generating type: Content.Type = Content.self,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions(),
    metadata: [String: any ConvertibleToGeneratedContent] = [:],
    @PromptBuilder prompt: () throws -> Prompt
  ) async throws -> Response<Content> {
    try await respond(
      to: try prompt(), generating: type, options: options, contextOptions: contextOptions,
      metadata: metadata)
  }

  /// An answer of that type as it grows: `PartiallyGenerated` holds the properties that have come.
  public func streamResponse<Content: Generable & Sendable>(
    to prompt: Prompt,
    generating type: Content.Type = Content.self,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions(),
    metadata: [String: any ConvertibleToGeneratedContent] = [:]
  ) -> ResponseStream<Content> where Content.PartiallyGenerated: Sendable {
    guidedStream(
      Request(
        prompt: prompt, schema: type.generationSchema, options: options,
        contextOptions: contextOptions,
        metadata: metadata))
  }

  @_disfavoredOverload
  public func streamResponse<Content: Generable & Sendable>(
    to prompt: String,
    generating type: Content.Type = Content.self,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions(),
    metadata: [String: any ConvertibleToGeneratedContent] = [:]
  ) -> ResponseStream<Content> where Content.PartiallyGenerated: Sendable {
    streamResponse(
      to: Prompt(prompt), generating: type, options: options, contextOptions: contextOptions,
      metadata: metadata)
  }

  public func streamResponse<Content: Generable & Sendable>(
    generating type: Content.Type = Content.self,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions(),
    metadata: [String: any ConvertibleToGeneratedContent] = [:],
    @PromptBuilder prompt: () throws -> Prompt
  ) rethrows -> ResponseStream<Content> where Content.PartiallyGenerated: Sendable {
    streamResponse(
      to: try prompt(), generating: type, options: options, contextOptions: contextOptions,
      metadata: metadata)
  }

  // The older forms, which say of the context only whether the schema is told in the prompt.

  @discardableResult
  public nonisolated(nonsending) func respond<Content: Generable>(
    to prompt: Prompt,
    generating type: Content.Type = Content.self,
    includeSchemaInPrompt: Bool,
    options: GenerationOptions = GenerationOptions()
  ) async throws -> Response<Content> {
    try await respond(
      to: prompt, generating: type, options: options,
      contextOptions: ContextOptions(includeSchemaInPrompt: includeSchemaInPrompt))
  }

  @_disfavoredOverload
  @discardableResult
  public nonisolated(nonsending) func respond<Content: Generable>(
    to prompt: String,
    generating type: Content.Type = Content.self,
    includeSchemaInPrompt: Bool,
    options: GenerationOptions = GenerationOptions()
  ) async throws -> Response<Content> {
    try await respond(
      to: Prompt(prompt), generating: type, options: options,
      contextOptions: ContextOptions(includeSchemaInPrompt: includeSchemaInPrompt))
  }

  @discardableResult
  public nonisolated(nonsending) func respond<Content: Generable>(
    generating type: Content.Type = Content.self,
    includeSchemaInPrompt: Bool,
    options: GenerationOptions = GenerationOptions(),
    @PromptBuilder prompt: () throws -> Prompt
  ) async throws -> Response<Content> {
    try await respond(
      to: try prompt(), generating: type, options: options,
      contextOptions: ContextOptions(includeSchemaInPrompt: includeSchemaInPrompt))
  }

  public func streamResponse<Content: Generable & Sendable>(
    to prompt: Prompt,
    generating type: Content.Type = Content.self,
    includeSchemaInPrompt: Bool,
    options: GenerationOptions = GenerationOptions()
  ) -> ResponseStream<Content> where Content.PartiallyGenerated: Sendable {
    streamResponse(
      to: prompt, generating: type, options: options,
      contextOptions: ContextOptions(includeSchemaInPrompt: includeSchemaInPrompt))
  }

  @_disfavoredOverload
  public func streamResponse<Content: Generable & Sendable>(
    to prompt: String,
    generating type: Content.Type = Content.self,
    includeSchemaInPrompt: Bool,
    options: GenerationOptions = GenerationOptions()
  ) -> ResponseStream<Content> where Content.PartiallyGenerated: Sendable {
    streamResponse(
      to: Prompt(prompt), generating: type, options: options,
      contextOptions: ContextOptions(includeSchemaInPrompt: includeSchemaInPrompt))
  }

  public func streamResponse<Content: Generable & Sendable>(
    generating type: Content.Type = Content.self,
    includeSchemaInPrompt: Bool,
    options: GenerationOptions = GenerationOptions(),
    @PromptBuilder prompt: () throws -> Prompt
  ) rethrows -> ResponseStream<Content> where Content.PartiallyGenerated: Sendable {
    streamResponse(
      to: try prompt(), generating: type, options: options,
      contextOptions: ContextOptions(includeSchemaInPrompt: includeSchemaInPrompt))
  }

  func guidedStream<Content: Generable & Sendable>(
    _ request: Request
  ) -> ResponseStream<Content> where Content.PartiallyGenerated: Sendable {
    let progress = TurnProgress()
    let schemaName = request.schema?.name ?? ""
    return ResponseStream(
      start: { self.drive(request, telling: progress) },
      snapshot: { text in
        // What is certain need not yet be enough for the type: then the next snapshot may be.
        guard let raw = GeneratedContent(unfinishedJSON: text, id: request.contentID),
          let content = try? Content.PartiallyGenerated(raw)
        else { return nil }
        let segment = Transcript.StructuredSegment(id: "0", schemaName: schemaName, content: raw)
        return .init(
          content: content, rawContent: raw,
          transcriptEntries: progress.entries(answering: .structure(segment)),
          usage: progress.usage)
      },
      response: { try $0.response() })
  }
}

extension CompletedResponse {
  /// - Throws: `GeneratedContent.ParsingError` where the value is valid by the schema but not one of
  ///   the type.
  func response<Content: Generable>() throws -> Response<Content> {
    let raw = contentResponse()
    return raw.replacingContent(try Content(raw.rawContent))
  }
}
