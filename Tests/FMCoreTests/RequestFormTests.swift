import FMCore
import Testing

/// Every form of `respond` and `streamResponse` that the reference has, as its callers write them.
@Suite struct RequestFormTests {
  private let schema: GenerationSchema
  private let options = GenerationOptions(samplingMode: .greedy, maximumResponseTokens: 7)
  private let context = ContextOptions(includeSchemaInPrompt: false, reasoningLevel: .deep)
  private let metadata: [String: any ConvertibleToGeneratedContent] = ["trace": "a-1"]

  init() throws {
    schema = try GenerationSchema(json: #"{"type":"integer"}"#)
  }

  private func model() -> ScriptedModel {
    var model = ScriptedModel { _, channel in
      await channel.send(.response(action: .appendText("12", tokenCount: 1)))
    }
    model.capabilities = LanguageModelCapabilities([.guidedGeneration, .reasoning])
    return model
  }

  /// What the last request was sent with.
  private func sent(_ model: ScriptedModel) throws -> (
    LanguageModelExecutorGenerationRequest, Transcript.Prompt
  ) {
    let request = try #require(model.requests.last)
    guard case .prompt(let prompt) = try #require(request.transcript.last) else {
      throw GeneratedContent.ParsingError(rawContent: "", debugDescription: "no prompt")
    }
    return (request, prompt)
  }

  private func expectAll(_ model: ScriptedModel, _ count: Int) throws {
    #expect(model.requests.count == count)
    let (request, prompt) = try sent(model)
    #expect(request.generationOptions == options)
    #expect(request.contextOptions == context)
    #expect(request.metadata == ["trace": GeneratedContent("a-1")])
    #expect(prompt.options == options)
    #expect(prompt.contextOptions == context)
    #expect(prompt.metadata == request.metadata)
  }

  @Test func text() async throws {
    let model = model()
    let session = LanguageModelSession(model: model)
    #expect(try await session.respond(to: "x").content == "12")
    #expect(try await session.respond(to: Prompt("x")).content == "12")
    #expect(try await session.respond { "x" }.content == "12")
    #expect(try await session.respond(to: "x", options: options).content == "12")
    #expect(
      try await session.respond(
        to: "x", options: options, contextOptions: context, metadata: metadata
      ).content == "12")
    try expectAll(model, 5)
    #expect(
      try await session.respond(
        to: Prompt("x"), options: options, contextOptions: context, metadata: metadata
      ).content == "12")
    try expectAll(model, 6)
    #expect(
      try await session.respond(options: options, contextOptions: context, metadata: metadata) {
        "x"
      }.content == "12")
    try expectAll(model, 7)
  }

  @Test func schemas() async throws {
    let model = model()
    let session = LanguageModelSession(model: model)
    #expect(try await session.respond(to: "x", schema: schema).content == GeneratedContent(12))
    #expect(
      try await session.respond(
        to: "x", schema: schema, options: options, contextOptions: context, metadata: metadata
      ).content == GeneratedContent(12))
    try expectAll(model, 2)
    #expect(
      try await session.respond(
        to: Prompt("x"), schema: schema, options: options, contextOptions: context,
        metadata: metadata
      ).content == GeneratedContent(12))
    try expectAll(model, 3)
    #expect(
      try await session.respond(
        schema: schema, options: options, contextOptions: context, metadata: metadata
      ) { "x" }.content == GeneratedContent(12))
    try expectAll(model, 4)
    for includes in [true, false] {
      _ = try await session.respond(
        to: "x", schema: schema, includeSchemaInPrompt: includes, options: options)
      #expect(try sent(model).1.contextOptions.includeSchemaInPrompt == includes)
      _ = try await session.respond(
        to: Prompt("x"), schema: schema, includeSchemaInPrompt: includes)
      #expect(try sent(model).1.contextOptions.includeSchemaInPrompt == includes)
      _ = try await session.respond(schema: schema, includeSchemaInPrompt: includes) { "x" }
      #expect(try sent(model).1.contextOptions.includeSchemaInPrompt == includes)
    }
  }

  @Test func types() async throws {
    let model = model()
    let session = LanguageModelSession(model: model)
    #expect(try await session.respond(to: "x", generating: Int.self).content == 12)
    let inferred: Response<Int> = try await session.respond(to: "x")
    #expect(inferred.content == 12)
    #expect(
      try await session.respond(
        to: "x", generating: Int.self, options: options, contextOptions: context,
        metadata: metadata
      ).content == 12)
    try expectAll(model, 3)
    #expect(
      try await session.respond(
        to: Prompt("x"), generating: Int.self, options: options, contextOptions: context,
        metadata: metadata
      ).content == 12)
    try expectAll(model, 4)
    #expect(
      try await session.respond(
        generating: Int.self, options: options, contextOptions: context, metadata: metadata
      ) { "x" }.content == 12)
    try expectAll(model, 5)
    for includes in [true, false] {
      _ = try await session.respond(
        to: "x", generating: Int.self, includeSchemaInPrompt: includes, options: options)
      #expect(try sent(model).1.contextOptions.includeSchemaInPrompt == includes)
      _ = try await session.respond(
        to: Prompt("x"), generating: Int.self, includeSchemaInPrompt: includes)
      #expect(try sent(model).1.contextOptions.includeSchemaInPrompt == includes)
      _ = try await session.respond(generating: Int.self, includeSchemaInPrompt: includes) { "x" }
      #expect(try sent(model).1.contextOptions.includeSchemaInPrompt == includes)
    }
  }

  @Test func streams() async throws {
    let model = model()
    let session = LanguageModelSession(model: model)
    #expect(try await session.streamResponse(to: "x").collect().content == "12")
    #expect(try await session.streamResponse { "x" }.collect().content == "12")
    #expect(
      try await session.streamResponse(
        to: "x", options: options, contextOptions: context, metadata: metadata
      ).collect().content == "12")
    try expectAll(model, 3)
    _ = try await session.streamResponse(
      to: Prompt("x"), options: options, contextOptions: context, metadata: metadata
    ).collect()
    try expectAll(model, 4)
    _ = try await session.streamResponse(
      options: options, contextOptions: context, metadata: metadata
    ) { "x" }.collect()
    try expectAll(model, 5)
  }

  @Test func guidedStreams() async throws {
    let model = model()
    let session = LanguageModelSession(model: model)
    #expect(
      try await session.streamResponse(
        to: "x", schema: schema, options: options, contextOptions: context, metadata: metadata
      ).collect().content == GeneratedContent(12))
    try expectAll(model, 1)
    _ = try await session.streamResponse(
      to: Prompt("x"), schema: schema, options: options, contextOptions: context,
      metadata: metadata
    ).collect()
    try expectAll(model, 2)
    _ = try await session.streamResponse(
      schema: schema, options: options, contextOptions: context, metadata: metadata
    ) { "x" }.collect()
    try expectAll(model, 3)
    #expect(
      try await session.streamResponse(
        to: "x", generating: Int.self, options: options, contextOptions: context,
        metadata: metadata
      ).collect().content == 12)
    try expectAll(model, 4)
    _ = try await session.streamResponse(
      to: Prompt("x"), generating: Int.self, options: options, contextOptions: context,
      metadata: metadata
    ).collect()
    try expectAll(model, 5)
    _ = try await session.streamResponse(
      generating: Int.self, options: options, contextOptions: context, metadata: metadata
    ) { "x" }.collect()
    try expectAll(model, 6)
    for includes in [true, false] {
      let streams = [
        session.streamResponse(to: "x", schema: schema, includeSchemaInPrompt: includes),
        session.streamResponse(to: Prompt("x"), schema: schema, includeSchemaInPrompt: includes),
        session.streamResponse(schema: schema, includeSchemaInPrompt: includes) { "x" },
      ]
      for stream in streams {
        _ = try await stream.collect()
        #expect(try sent(model).1.contextOptions.includeSchemaInPrompt == includes)
      }
      let typed = [
        session.streamResponse(to: "x", generating: Int.self, includeSchemaInPrompt: includes),
        session.streamResponse(
          to: Prompt("x"), generating: Int.self, includeSchemaInPrompt: includes),
        session.streamResponse(generating: Int.self, includeSchemaInPrompt: includes) { "x" },
      ]
      for stream in typed {
        _ = try await stream.collect()
        #expect(try sent(model).1.contextOptions.includeSchemaInPrompt == includes)
      }
    }
  }

  @Test func aLevelOfReasoningNeedsTheCapability() async throws {
    var model = model()
    model.capabilities = LanguageModelCapabilities([.guidedGeneration])
    let session = LanguageModelSession(model: model)
    let error = await #expect(throws: LanguageModelError.self) {
      try await session.respond(to: "x", contextOptions: context)
    }
    guard case .unsupportedCapability(let capability) = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(capability.capability == .reasoning)
    #expect(model.requests.isEmpty)
  }
}
