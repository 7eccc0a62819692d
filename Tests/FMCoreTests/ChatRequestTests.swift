import FMImaging
import FMWire
import Testing

@testable import FMCore

@Suite struct ChatRequestTests {
  /// The body for a request, parsed again.
  func body(
    _ entries: [Transcript.Entry], options: GenerationOptions = GenerationOptions(),
    schema: GenerationSchema? = nil, server: ServerKind = .generic,
    change: (inout ChatConfiguration) -> Void = { _ in }
  ) throws -> JSONValue {
    var configuration = ChatConfiguration(
      endpoint: Endpoint(baseURL: "http://127.0.0.1:1"), model: "m")
    change(&configuration)
    let request = LanguageModelExecutorGenerationRequest(
      transcript: Transcript(entries: entries), schema: schema, generationOptions: options)
    return try JSONValue(
      parsing: try ChatRequest(request, to: configuration, dialect: .of(server)).body.bytes)
  }

  func prompt(@PromptBuilder _ content: () -> Prompt) -> Transcript.Entry {
    .prompt(Transcript.Prompt(segments: .init(content().components)))
  }

  @Test func textsGoAsStringsAndTurnsInOrder() throws {
    let body = try body([
      .instructions(Transcript.Instructions(segments: [.text(.init(content: "Be short."))])),
      prompt {
        "one"
        "two"
      },
      .response(Transcript.Response(segments: [.text(.init(content: "three"))])),
      prompt { "four \u{1F600} \"quoted\"" },
    ])
    #expect(
      body["messages"] == [
        ["role": "system", "content": "Be short."], ["role": "user", "content": "one\ntwo"],
        ["role": "assistant", "content": "three"],
        ["role": "user", "content": "four \u{1F600} \"quoted\""],
      ])
    #expect(body["model"] == "m")
    #expect(body["stream"] == true)
    #expect(body["stream_options"] == ["include_usage": true])
    for absent in ["temperature", "top_p", "top_k", "seed", "max_tokens", "response_format"] {
      #expect(body[absent] == nil)
    }
  }

  @Test func picturesKeepTheirPlacesAndLabels() throws {
    let image = Attachment(try SourceImage(bytes: onePixelPNG))
    let content = try #require(
      try body([
        prompt {
          "Compare"
          image.label("A")
          image
          image.label("B")
          "Which?"
        }
      ])["messages"]?.arrayValue?.first?["content"]?.arrayValue)
    let kinds = content.map { part in
      part["text"]?.stringValue
        ?? String(part["image_url"]?["url"]?.stringValue?.prefix(22) ?? "?")
    }
    #expect(
      kinds == [
        "Compare\n[image: A]", "data:image/png;base64,", "data:image/png;base64,", "[image: B]",
        "data:image/png;base64,", "Which?",
      ])
  }

  @Test func samplingIsWrittenAsNumbers() throws {
    func sampling(_ mode: GenerationOptions.SamplingMode) throws -> JSONValue {
      try body(
        [prompt { "x" }],
        options: GenerationOptions(
          samplingMode: mode, temperature: 0.5, maximumResponseTokens: 9))
    }
    let greedy = try sampling(.greedy)
    #expect(greedy["temperature"] == 0)
    #expect(greedy["max_tokens"] == 9)
    let top = try sampling(.random(top: 4, seed: .max))
    #expect(top["top_k"] == 4)
    #expect(top["seed"] == .number(JSONNumber(UInt64.max)))
    #expect(top["temperature"]?.doubleValue == 0.5)
    let nucleus = try sampling(.random(probabilityThreshold: 0.25))
    #expect(nucleus["top_p"]?.doubleValue == 0.25)
    #expect(nucleus["seed"] == nil)
    #expect(try sampling(.random(seed: 5))["seed"] == 5)
  }

  @Test func schemasGoAsStrictJSONSchema() throws {
    let text = #"{"title":"My answer!","type":"object","properties":{"b":{},"a":{}}}"#
    let format = try body([prompt { "x" }], schema: try GenerationSchema(json: text))[
      "response_format"]
    #expect(format?["type"] == "json_schema")
    #expect(format?["json_schema"]?["name"] == "My_answer_")
    #expect(format?["json_schema"]?["strict"] == true)
    #expect(format?["json_schema"]?["schema"]?.jsonText == text)
  }

  /// What the dialect table says of a server is what its requests look like.
  @Test(arguments: ServerKind.allCases)
  func asksEachServerInItsOwnWords(server: ServerKind) throws {
    let dialect = ServerDialect.of(server)
    let body = try body(
      [prompt { "x" }],
      options: GenerationOptions(
        samplingMode: .random(top: 4, seed: 7), maximumResponseTokens: 9),
      schema: try GenerationSchema(json: #"{"title":"A","type":"object","properties":{}}"#),
      server: server)
    for member in ["max_tokens", "max_completion_tokens"] {
      #expect(body[member] == (member == dialect.maximumTokensMember ? 9 : nil))
    }
    #expect(body["top_k"] == (dialect.sampling.topK ? 4 : nil))
    #expect(body["seed"] == (dialect.sampling.seed ? 7 : nil))
    #expect(body["stream_options"] == ["include_usage": true])
    switch dialect.responseFormat {
    case .jsonSchema: #expect(body["response_format"]?["type"] == "json_schema")
    case .jsonObjectWithSchema: #expect(body["response_format"]?["type"] == "json_object")
    case .none: #expect(body["response_format"] == nil)
    }
  }

  @Test(arguments: [
    (ServerKind.openAI, #"{"reasoning_effort":"medium"}"#),
    (.vLLM, #"{"reasoning_effort":"medium"}"#), (.ollama, #"{"reasoning_effort":"medium"}"#),
    (.llamaCpp, #"{"chat_template_kwargs":{"reasoning_effort":"medium"}}"#), (.mlx, "{}"),
  ])
  func aLevelOfReasoningIsTold(server: ServerKind, members: String) throws {
    let request = LanguageModelExecutorGenerationRequest(
      transcript: Transcript(entries: [prompt { "x" }]),
      contextOptions: ContextOptions(reasoningLevel: .moderate))
    let configuration = ChatConfiguration(endpoint: Endpoint(baseURL: "http://x"), model: "m")
    let body = try ChatRequest(request, to: configuration, dialect: .of(server)).body.bytes
    let json = try JSONValue(parsing: String(decoding: body, as: UTF8.self))
    for name in ["reasoning_effort", "chat_template_kwargs"] {
      #expect(json[name] == (try JSONValue(parsing: members))[name])
    }
  }

  @Test func extraBodyMembersReplaceOurs() throws {
    let body = try body([prompt { "x" }]) { configuration in
      configuration.extraBody = JSONObject([("model", "other"), ("cache_prompt", true)])
    }
    #expect(body["model"] == "other")
    #expect(body["cache_prompt"] == true)
    #expect(body.objectValue?.members.filter { $0.name == "model" }.count == 1)
  }
}
