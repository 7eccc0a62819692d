// Requests whose answers are values of a schema.

extension LanguageModelSession {
  /// An answer that is JSON valid by the schema, checked here whatever the server claims; a
  /// mismatch throws `GeneratedContent.ParsingError` with the path and the raw text.
  @discardableResult
  public nonisolated(nonsending) func respond(
    to prompt: Prompt,
    schema: GenerationSchema,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions(),
    metadata: [String: any ConvertibleToGeneratedContent] = [:]
  ) async throws -> Response<GeneratedContent> {
    try await complete(
      Request(
        prompt: prompt, schema: schema, options: options, contextOptions: contextOptions,
        metadata: metadata)
    ).contentResponse()
  }

  @_disfavoredOverload
  @discardableResult
  public nonisolated(nonsending) func respond(
    to prompt: String,
    schema: GenerationSchema,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions(),
    metadata: [String: any ConvertibleToGeneratedContent] = [:]
  ) async throws -> Response<GeneratedContent> {
    try await respond(
      to: Prompt(prompt), schema: schema, options: options, contextOptions: contextOptions,
      metadata: metadata)
  }

  @discardableResult
  public nonisolated(nonsending) func respond(
    schema: GenerationSchema,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions(),
    metadata: [String: any ConvertibleToGeneratedContent] = [:],
    @PromptBuilder prompt: () throws -> Prompt
  ) async throws -> Response<GeneratedContent> {
    try await respond(
      to: try prompt(), schema: schema, options: options, contextOptions: contextOptions,
      metadata: metadata)
  }

  /// The same, as it grows: each snapshot holds what is certain so far.
  public func streamResponse(
    to prompt: Prompt,
    schema: GenerationSchema,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions(),
    metadata: [String: any ConvertibleToGeneratedContent] = [:]
  ) -> ResponseStream<GeneratedContent> {
    guidedStream(
      Request(
        prompt: prompt, schema: schema, options: options, contextOptions: contextOptions,
        metadata: metadata))
  }

  @_disfavoredOverload
  public func streamResponse(
    to prompt: String,
    schema: GenerationSchema,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions(),
    metadata: [String: any ConvertibleToGeneratedContent] = [:]
  ) -> ResponseStream<GeneratedContent> {
    streamResponse(
      to: Prompt(prompt), schema: schema, options: options, contextOptions: contextOptions,
      metadata: metadata)
  }

  public func streamResponse(
    schema: GenerationSchema,
    options: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions(),
    metadata: [String: any ConvertibleToGeneratedContent] = [:],
    @PromptBuilder prompt: () throws -> Prompt
  ) rethrows -> ResponseStream<GeneratedContent> {
    streamResponse(
      to: try prompt(), schema: schema, options: options, contextOptions: contextOptions,
      metadata: metadata)
  }

  // The older forms, which say of the context only whether the schema is told in the prompt.

  @discardableResult
  public nonisolated(nonsending) func respond(
    to prompt: Prompt,
    schema: GenerationSchema,
    includeSchemaInPrompt: Bool,
    options: GenerationOptions = GenerationOptions()
  ) async throws -> Response<GeneratedContent> {
    try await respond(
      to: prompt, schema: schema, options: options,
      contextOptions: ContextOptions(includeSchemaInPrompt: includeSchemaInPrompt))
  }

  @_disfavoredOverload
  @discardableResult
  public nonisolated(nonsending) func respond(
    to prompt: String,
    schema: GenerationSchema,
    includeSchemaInPrompt: Bool,
    options: GenerationOptions = GenerationOptions()
  ) async throws -> Response<GeneratedContent> {
    try await respond(
      to: Prompt(prompt), schema: schema, options: options,
      contextOptions: ContextOptions(includeSchemaInPrompt: includeSchemaInPrompt))
  }

  @discardableResult
  public nonisolated(nonsending) func respond(
    schema: GenerationSchema,
    includeSchemaInPrompt: Bool,
    options: GenerationOptions = GenerationOptions(),
    @PromptBuilder prompt: () throws -> Prompt
  ) async throws -> Response<GeneratedContent> {
    try await respond(
      to: try prompt(), schema: schema, options: options,
      contextOptions: ContextOptions(includeSchemaInPrompt: includeSchemaInPrompt))
  }

  public func streamResponse(
    to prompt: Prompt,
    schema: GenerationSchema,
    includeSchemaInPrompt: Bool,
    options: GenerationOptions = GenerationOptions()
  ) -> ResponseStream<GeneratedContent> {
    streamResponse(
      to: prompt, schema: schema, options: options,
      contextOptions: ContextOptions(includeSchemaInPrompt: includeSchemaInPrompt))
  }

  @_disfavoredOverload
  public func streamResponse(
    to prompt: String,
    schema: GenerationSchema,
    includeSchemaInPrompt: Bool,
    options: GenerationOptions = GenerationOptions()
  ) -> ResponseStream<GeneratedContent> {
    streamResponse(
      to: Prompt(prompt), schema: schema, options: options,
      contextOptions: ContextOptions(includeSchemaInPrompt: includeSchemaInPrompt))
  }

  public func streamResponse(
    schema: GenerationSchema,
    includeSchemaInPrompt: Bool,
    options: GenerationOptions = GenerationOptions(),
    @PromptBuilder prompt: () throws -> Prompt
  ) rethrows -> ResponseStream<GeneratedContent> {
    streamResponse(
      to: try prompt(), schema: schema, options: options,
      contextOptions: ContextOptions(includeSchemaInPrompt: includeSchemaInPrompt))
  }
}
