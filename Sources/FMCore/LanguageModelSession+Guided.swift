// Requests whose answers are values: of a schema, or of a type.

extension LanguageModelSession {
  /// An answer that is JSON valid by the schema, checked here whatever the server claims; a
  /// mismatch throws `GeneratedContent.ParsingError` with the path and the raw text.
  @discardableResult
  public nonisolated(nonsending) func respond(
    to prompt: Prompt, schema: GenerationSchema,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions()
  ) async throws -> Response<GeneratedContent> {
    try await complete(
      Request(prompt: prompt, schema: schema, options: options, contextOptions: contextOptions)
    ).contentResponse()
  }

  @_disfavoredOverload
  @discardableResult
  public nonisolated(nonsending) func respond(
    to prompt: String, schema: GenerationSchema,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions()
  ) async throws -> Response<GeneratedContent> {
    try await respond(
      to: Prompt(prompt), schema: schema, options: options, contextOptions: contextOptions)
  }

  @discardableResult
  public nonisolated(nonsending) func respond(
    schema: GenerationSchema, options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions(),
    @PromptBuilder prompt: () throws -> Prompt
  ) async throws -> Response<GeneratedContent> {
    try await respond(
      to: try prompt(), schema: schema, options: options, contextOptions: contextOptions)
  }

  /// An answer of that type.
  @discardableResult
  public nonisolated(nonsending) func respond<Content: Generable>(
    to prompt: Prompt, generating type: Content.Type = Content.self,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions()
  ) async throws -> Response<Content> {
    try await complete(
      Request(
        prompt: prompt, schema: type.generationSchema, options: options,
        contextOptions: contextOptions)
    ).response()
  }

  @_disfavoredOverload
  @discardableResult
  public nonisolated(nonsending) func respond<Content: Generable>(
    to prompt: String, generating type: Content.Type = Content.self,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions()
  ) async throws -> Response<Content> {
    try await respond(
      to: Prompt(prompt), generating: type, options: options, contextOptions: contextOptions)
  }

  @discardableResult
  public nonisolated(nonsending) func respond<Content: Generable>(
    generating type: Content.Type = Content.self,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions(),
    @PromptBuilder prompt: () throws -> Prompt
  ) async throws -> Response<Content> {
    try await respond(
      to: try prompt(), generating: type, options: options, contextOptions: contextOptions)
  }

  /// The same, as it grows: each snapshot holds what is certain so far.
  public func streamResponse(
    to prompt: Prompt, schema: GenerationSchema,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions()
  ) -> ResponseStream<GeneratedContent> {
    guidedStream(
      Request(prompt: prompt, schema: schema, options: options, contextOptions: contextOptions))
  }

  @_disfavoredOverload
  public func streamResponse(
    to prompt: String, schema: GenerationSchema,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions()
  ) -> ResponseStream<GeneratedContent> {
    streamResponse(
      to: Prompt(prompt), schema: schema, options: options, contextOptions: contextOptions)
  }

  public func streamResponse(
    schema: GenerationSchema, options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions(),
    @PromptBuilder prompt: () throws -> Prompt
  ) rethrows -> ResponseStream<GeneratedContent> {
    streamResponse(
      to: try prompt(), schema: schema, options: options, contextOptions: contextOptions)
  }

  /// An answer of that type as it grows: `PartiallyGenerated` holds the properties that have come.
  public func streamResponse<Content: Generable & Sendable>(
    to prompt: Prompt, generating type: Content.Type = Content.self,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions()
  ) -> ResponseStream<Content> where Content.PartiallyGenerated: Sendable {
    guidedStream(
      Request(
        prompt: prompt, schema: type.generationSchema, options: options,
        contextOptions: contextOptions))
  }

  @_disfavoredOverload
  public func streamResponse<Content: Generable & Sendable>(
    to prompt: String, generating type: Content.Type = Content.self,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions()
  ) -> ResponseStream<Content> where Content.PartiallyGenerated: Sendable {
    streamResponse(
      to: Prompt(prompt), generating: type, options: options, contextOptions: contextOptions)
  }

  public func streamResponse<Content: Generable & Sendable>(
    generating type: Content.Type = Content.self,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions(),
    @PromptBuilder prompt: () throws -> Prompt
  ) rethrows -> ResponseStream<Content> where Content.PartiallyGenerated: Sendable {
    streamResponse(
      to: try prompt(), generating: type, options: options, contextOptions: contextOptions)
  }

  private func guidedStream<Content: Generable & Sendable>(
    _ request: Request
  ) -> ResponseStream<Content> where Content.PartiallyGenerated: Sendable {
    ResponseStream(
      start: { self.drive(request) },
      snapshot: { text in
        // What is certain need not yet be enough for the type: then the next snapshot may be.
        guard let raw = GeneratedContent(unfinishedJSON: text, id: request.contentID),
          let content = try? Content.PartiallyGenerated(raw)
        else { return nil }
        return .init(content: content, rawContent: raw)
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
