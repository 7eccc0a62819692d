import Testing

@testable import FMWire

@Suite struct DialectTableTests {
  /// The table once more, as a reader of the servers' documentation would write it: a line a cell.
  static let cells: [(ServerKind, String, String)] = [
    (.llamaCpp, "responseFormat", "jsonSchema"),
    (.llamaCpp, "patterns", "anchoredAtTopLevel"),
    (.llamaCpp, "maxRepetition", "1999"),
    (.llamaCpp, "references", "inlined"),
    (.llamaCpp, "requiresEveryProperty", "false"),
    (.llamaCpp, "refusedKeywords", ""),
    (.llamaCpp, "tools", "byModel"),
    (.llamaCpp, "toolChoices", "auto none required"),
    (.llamaCpp, "parallelToolCalls", "true"),
    (.llamaCpp, "tokenCounting", "inputTokens templateAndTokenize"),
    (.llamaCpp, "mediaTypes", "image/jpeg image/png"),
    (.llamaCpp, "maxPixels", "nil"),
    (.llamaCpp, "seed", "true"),
    (.llamaCpp, "topK", "true"),
    (.llamaCpp, "maximumTokens", "max_tokens"),
    (.llamaCpp, "context", "props"),
    (.llamaCpp, "streamOptions", "taken"),
    (.llamaCpp, "reasoning", "reasoning_content"),
    (.llamaCpp, "reasoningEffort", "templateArgument"),

    (.ollama, "responseFormat", "jsonSchema"),
    (.ollama, "patterns", "anchoredAtTopLevel"),
    (.ollama, "maxRepetition", "1999"),
    (.ollama, "references", "inlined"),
    (.ollama, "requiresEveryProperty", "false"),
    (.ollama, "refusedKeywords", ""),
    (.ollama, "tools", "byModel"),
    (.ollama, "toolChoices", ""),
    (.ollama, "parallelToolCalls", "false"),
    (.ollama, "tokenCounting", ""),
    (.ollama, "mediaTypes", "image/jpeg image/png image/webp"),
    (.ollama, "maxPixels", "nil"),
    (.ollama, "seed", "true"),
    (.ollama, "topK", "true"),
    (.ollama, "maximumTokens", "max_tokens"),
    (.ollama, "context", "runningModels"),
    (.ollama, "streamOptions", "taken"),
    (.ollama, "reasoning", "reasoning"),
    (.ollama, "reasoningEffort", "member"),

    (.vLLM, "responseFormat", "jsonSchema"),
    (.vLLM, "patterns", "anywhere"),
    (.vLLM, "maxRepetition", "nil"),
    (.vLLM, "references", "kept"),
    (.vLLM, "requiresEveryProperty", "false"),
    (
      .vLLM, "refusedKeywords",
      "contains maxContains minContains multipleOf propertyNames uniqueItems"
    ),
    (.vLLM, "tools", "byModel"),
    (.vLLM, "toolChoices", "auto named none required"),
    (.vLLM, "parallelToolCalls", "true"),
    (.vLLM, "tokenCounting", "tokenizeMessages"),
    (.vLLM, "mediaTypes", "image/gif image/jpeg image/png image/webp"),
    (.vLLM, "maxPixels", "nil"),
    (.vLLM, "seed", "true"),
    (.vLLM, "topK", "true"),
    (.vLLM, "maximumTokens", "max_tokens"),
    (.vLLM, "context", "modelList"),
    (.vLLM, "streamOptions", "taken"),
    (.vLLM, "reasoning", "reasoning reasoning_content"),
    (.vLLM, "reasoningEffort", "member"),

    (.lmStudio, "responseFormat", "jsonSchema"),
    (.lmStudio, "patterns", "anchoredAtTopLevel"),
    (.lmStudio, "maxRepetition", "1999"),
    (.lmStudio, "references", "inlined"),
    (.lmStudio, "requiresEveryProperty", "false"),
    (.lmStudio, "refusedKeywords", ""),
    (.lmStudio, "tools", "byModel"),
    (.lmStudio, "toolChoices", "auto none required"),
    (.lmStudio, "parallelToolCalls", "false"),
    (.lmStudio, "tokenCounting", ""),
    (.lmStudio, "mediaTypes", "image/jpeg image/png"),
    (.lmStudio, "maxPixels", "26214400"),
    (.lmStudio, "seed", "true"),
    (.lmStudio, "topK", "true"),
    (.lmStudio, "maximumTokens", "max_tokens"),
    (.lmStudio, "context", "nativeModelList"),
    (.lmStudio, "streamOptions", "taken"),
    (.lmStudio, "reasoning", "reasoning_content reasoning"),
    (.lmStudio, "reasoningEffort", "none"),

    (.mlx, "responseFormat", "none"),
    (.mlx, "patterns", "anywhere"),
    (.mlx, "maxRepetition", "nil"),
    (.mlx, "references", "kept"),
    (.mlx, "requiresEveryProperty", "false"),
    (.mlx, "refusedKeywords", ""),
    (.mlx, "tools", "byModel"),
    (.mlx, "toolChoices", ""),
    (.mlx, "parallelToolCalls", "false"),
    (.mlx, "tokenCounting", ""),
    (.mlx, "mediaTypes", "image/jpeg image/png image/webp"),
    (.mlx, "maxPixels", "nil"),
    (.mlx, "seed", "true"),
    (.mlx, "topK", "true"),
    (.mlx, "maximumTokens", "max_tokens"),
    (.mlx, "context", "none"),
    (.mlx, "streamOptions", "taken"),
    (.mlx, "reasoning", "reasoning"),
    (.mlx, "reasoningEffort", "none"),

    (.openAI, "responseFormat", "jsonSchema"),
    (.openAI, "patterns", "anywhere"),
    (.openAI, "maxRepetition", "nil"),
    (.openAI, "references", "kept"),
    (.openAI, "requiresEveryProperty", "true"),
    (
      .openAI, "refusedKeywords",
      "allOf contains dependentRequired dependentSchemas else if maxLength minLength not oneOf "
        + "patternProperties then uniqueItems x-order"
    ),
    (.openAI, "tools", "always"),
    (.openAI, "toolChoices", "auto named none required"),
    (.openAI, "parallelToolCalls", "true"),
    (.openAI, "tokenCounting", ""),
    (.openAI, "mediaTypes", "image/gif image/jpeg image/png image/webp"),
    (.openAI, "maxPixels", "nil"),
    (.openAI, "seed", "true"),
    (.openAI, "topK", "false"),
    (.openAI, "maximumTokens", "max_completion_tokens"),
    (.openAI, "context", "none"),
    (.openAI, "streamOptions", "taken"),
    (.openAI, "reasoning", ""),
    (.openAI, "reasoningEffort", "member"),

    (.generic, "responseFormat", "jsonSchema"),
    (.generic, "patterns", "anchoredAtTopLevel"),
    (.generic, "maxRepetition", "1999"),
    (.generic, "references", "inlined"),
    (.generic, "requiresEveryProperty", "false"),
    (.generic, "refusedKeywords", ""),
    (.generic, "tools", "byModel"),
    (.generic, "toolChoices", "auto none required"),
    (.generic, "parallelToolCalls", "false"),
    (.generic, "tokenCounting", "inputTokens tokenizeMessages"),
    (.generic, "mediaTypes", "image/jpeg image/png"),
    (.generic, "maxPixels", "nil"),
    (.generic, "seed", "true"),
    (.generic, "topK", "true"),
    (.generic, "maximumTokens", "max_tokens"),
    (.generic, "context", "modelList"),
    (.generic, "streamOptions", "tried"),
    (.generic, "reasoning", "reasoning_content reasoning"),
    (.generic, "reasoningEffort", "member"),
  ]

  static let columns: [String: @Sendable (ServerDialect) -> String] = [
    "responseFormat": { "\($0.responseFormat)" },
    "patterns": { "\($0.grammar.patterns)" },
    "maxRepetition": { $0.grammar.maxRepetition.map { "\($0)" } ?? "nil" },
    "references": { "\($0.grammar.references)" },
    "requiresEveryProperty": { "\($0.grammar.requiresEveryProperty)" },
    "refusedKeywords": { $0.grammar.refusedKeywords.sorted().joined(separator: " ") },
    "tools": { "\($0.tools)" },
    "toolChoices": { $0.toolChoices.map(\.rawValue).sorted().joined(separator: " ") },
    "parallelToolCalls": { "\($0.takesParallelToolCalls)" },
    "tokenCounting": { $0.tokenCounting.map(\.rawValue).joined(separator: " ") },
    "mediaTypes": { $0.images.mediaTypes.sorted().joined(separator: " ") },
    "maxPixels": { $0.images.maxPixels.map { "\($0)" } ?? "nil" },
    "seed": { "\($0.sampling.seed)" },
    "topK": { "\($0.sampling.topK)" },
    "maximumTokens": { $0.maximumTokensMember },
    "context": { "\($0.contextSource)" },
    "streamOptions": { "\($0.streamOptions)" },
    "reasoning": { $0.reasoningMembers.joined(separator: " ") },
    "reasoningEffort": { "\($0.reasoningEffort)" },
  ]

  @Test(arguments: cells)
  func holds(_ server: ServerKind, _ column: String, _ value: String) throws {
    let row = ServerDialect.of(server)
    #expect(row.server == server)
    let read = try #require(Self.columns[column])
    #expect(read(row) == value)
  }

  @Test func hasALineForEveryCell() {
    #expect(Self.cells.count == ServerKind.allCases.count * Self.columns.count)
    #expect(Set(Self.cells.map { "\($0.0) \($0.1)" }).count == Self.cells.count)
  }

  @Test(arguments: [
    ("https://api.openai.com/v1", true), ("https://API.OpenAI.com", true),
    ("https://mine.openai.azure.com/openai/deployments/m/v1", true),
    ("http://127.0.0.1:8080/v1", false), ("https://api.openai.com.example.org/v1", false),
    ("https://openai.azure.com", false), ("no url", false),
  ])
  func knowsOpenAIByItsHost(_ url: String, _ isOpenAI: Bool) {
    #expect(ServerDialect.known(baseURL: url)?.server == (isOpenAI ? .openAI : nil))
  }
}

extension NetworkTests {
  @Suite struct ServerProbeTests {
    let server = ScriptedServer.shared

    static func description(
      _ server: ServerKind, _ version: String? = nil, images: Bool? = nil, tools: Bool? = nil,
      context: Int? = nil
    ) -> ServerDescription {
      ServerDescription(
        dialect: .of(server), version: version, acceptsImages: images, supportsTools: tools,
        contextSize: context)
    }

    @Test(arguments: [
      ("", description(.llamaCpp, "b1", images: true, context: 4096)),
      ("/p/blind", description(.llamaCpp, "b1", images: false, context: 2048)),
      ("/p/old/v1", description(.llamaCpp, "b1", context: 512)),
      ("/p/odd", description(.llamaCpp)),
      ("/p/silent", description(.generic)),
      ("/p/page", description(.generic)),
      ("/p/loading", description(.generic)),
      (
        "/p/llamacpp/v1",
        description(.llamaCpp, "b8681-abcdef", images: true, tools: true, context: 8192)
      ),
      ("/p/llamacpp-toolless", description(.llamaCpp, tools: false, context: 2048)),
      ("/p/llamacpp-locked", description(.llamaCpp, context: 1024)),
      ("/p/ollama/v1", description(.ollama, "0.35.1", images: true, tools: false, context: 16384)),
      ("/p/ollama-idle", description(.ollama, "0.35.1", images: false, tools: true)),
      ("/p/vllm/v1", description(.vLLM, "0.15.0", context: 32768)),
      ("/p/vllm-gateway", description(.vLLM, "0.15.0", context: 32768)),
      ("/p/lmstudio/v1", description(.lmStudio, images: true, tools: true, context: 4096)),
      ("/p/mlx/v1", description(.mlx)),
      ("/p/mlx-vlm/v1", description(.mlx)),
      ("/p/gateway/v1", description(.generic, context: 65536)),
    ])
    func findsOut(_ path: String, _ expected: ServerDescription) async {
      #expect(await server.client(path).describe(model: "m") == expected)
    }

    @Test func tellsModelsApart() async {
      let other = await server.client("/p/lmstudio/v1").describe(model: "other")
      #expect(other == Self.description(.lmStudio, images: false))
    }

    @Test func remembersAnswersAndNotFailures() async throws {
      let own = ScriptedServer()
      for _ in 0..<3 {
        _ = await own.client("/p/blind", apiKey: "key").describe()
        _ = await own.client("/p/silent").describe()
        _ = await own.client("/p/loading").describe()
      }
      let log = try await own.log()
      #expect(log.filter { $0["path"] == "/p/blind/props" }.count == 1)
      #expect(log.filter { $0["path"] == "/p/silent/props" }.count == 1)
      #expect(log.filter { $0["path"] == "/p/loading/props" }.count == 3)
      #expect(log.first?["headers"]?["authorization"] == "Bearer key")
      // One request is all that llama.cpp costs, and a handful is what any other server costs.
      #expect(log.filter { $0["path"]?.stringValue?.hasPrefix("/p/blind/") == true }.count == 1)
      #expect(log.filter { $0["path"]?.stringValue?.hasPrefix("/p/silent/") == true }.count <= 5)
    }

    @Test func isEmptyWithoutAServer() async {
      let client = ChatCompletionsClient(endpoint: Endpoint(baseURL: "http://127.0.0.1:1"))
      #expect(await client.describe() == Self.description(.generic))
      #expect(
        await ChatCompletionsClient(endpoint: Endpoint(baseURL: "?")).describe()
          == Self.description(.generic))
    }

    @Test func waitsForNobodyForLong() async {
      let start = ContinuousClock.now
      let silent = await server.client("/s/hang-before").describe()
      #expect(silent == Self.description(.generic))
      #expect(ContinuousClock.now - start < .seconds(10))
    }

    @Test func endsWithItsTask() async {
      let server = server
      let start = ContinuousClock.now
      let task = Task { await server.client("/s/hang-before?seconds=29").describe() }
      try? await Task.sleep(for: .milliseconds(200))
      task.cancel()
      _ = await task.value
      #expect(ContinuousClock.now - start < .seconds(4))
    }
  }
}
