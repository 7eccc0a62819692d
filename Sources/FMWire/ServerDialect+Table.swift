extension ServerDialect {
  /// The row of a server.
  package static func of(_ server: ServerKind) -> ServerDialect {
    switch server {
    case .llamaCpp: llamaCpp
    case .ollama: ollama
    case .vLLM: vLLM
    case .lmStudio: lmStudio
    case .mlx: mlx
    case .openAI: openAI
    case .generic: generic
    }
  }

  /// The row that the base URL's host alone decides; nil = the server is to be asked.
  package static func known(baseURL: String) -> ServerDialect? {
    guard let url = try? CurlURL(baseURL) else { return nil }
    let host = url.host.lowercased()
    let isOpenAI = host == "api.openai.com" || host.hasSuffix(".openai.azure.com")
    return isOpenAI ? openAI : nil
  }

  /// What llama.cpp's grammar converter holds, alone and inside Ollama and LM Studio: a `pattern`
  /// must be anchored and fails inside arrays and nested objects, a nested `maxLength` from 2000 on
  /// is refused, and references inside array items are not resolved.
  private static let llamaCppGrammar = GrammarLimits(
    patterns: .anchoredAtTopLevel, maxRepetition: 1999, references: .inlined,
    requiresEveryProperty: false, refusedKeywords: [])

  static let llamaCpp = ServerDialect(
    server: .llamaCpp,
    responseFormat: .jsonSchema,
    grammar: llamaCppGrammar,
    // A template without tools drops them silently.
    tools: .byModel,
    toolChoices: [.auto, .none, .required],
    takesParallelToolCalls: true,
    tokenCounting: [.inputTokens, .templateAndTokenize],
    images: ImageRules(mediaTypes: ["image/jpeg", "image/png"]),
    sampling: SamplingRules(seed: true, topK: true),
    maximumTokensMember: "max_tokens",
    contextSource: .props,
    streamOptions: .taken,
    reasoningMembers: ["reasoning_content"],
    reasoningEffort: .templateArgument)

  static let ollama = ServerDialect(
    server: .ollama,
    responseFormat: .jsonSchema,
    grammar: llamaCppGrammar,
    tools: .byModel,
    toolChoices: [],
    takesParallelToolCalls: false,
    tokenCounting: [],
    images: ImageRules(mediaTypes: ["image/jpeg", "image/png", "image/webp"]),
    // Its OpenAI endpoint has no `top_k` and ignores it.
    sampling: SamplingRules(seed: true, topK: true),
    maximumTokensMember: "max_tokens",
    contextSource: .runningModels,
    streamOptions: .taken,
    reasoningMembers: ["reasoning"],
    reasoningEffort: .member)

  static let vLLM = ServerDialect(
    server: .vLLM,
    responseFormat: .jsonSchema,
    grammar: GrammarLimits(
      patterns: .anywhere, maxRepetition: nil, references: .kept, requiresEveryProperty: false,
      refusedKeywords: [
        "multipleOf", "uniqueItems", "contains", "minContains", "maxContains", "propertyNames",
      ]),
    // Only where it was started with a tool parser, which it does not tell.
    tools: .byModel,
    toolChoices: [.auto, .none, .required, .named],
    takesParallelToolCalls: true,
    tokenCounting: [.tokenizeMessages],
    images: ImageRules(mediaTypes: ["image/jpeg", "image/png", "image/webp", "image/gif"]),
    sampling: SamplingRules(seed: true, topK: true),
    maximumTokensMember: "max_tokens",
    contextSource: .modelList,
    streamOptions: .taken,
    reasoningMembers: ["reasoning", "reasoning_content"],
    reasoningEffort: .member)

  static let lmStudio = ServerDialect(
    server: .lmStudio,
    // `json_object` is refused.
    responseFormat: .jsonSchema,
    grammar: llamaCppGrammar,
    tools: .byModel,
    // An object is refused: only the words are taken.
    toolChoices: [.auto, .none, .required],
    takesParallelToolCalls: false,
    tokenCounting: [],
    images: ImageRules(mediaTypes: ["image/jpeg", "image/png"], maxPixels: 26_214_400),
    sampling: SamplingRules(seed: true, topK: true),
    maximumTokensMember: "max_tokens",
    contextSource: .nativeModelList,
    streamOptions: .taken,
    reasoningMembers: ["reasoning_content", "reasoning"],
    reasoningEffort: .none)

  static let mlx = ServerDialect(
    server: .mlx,
    // mlx_lm.server reads past it.
    responseFormat: .none,
    grammar: GrammarLimits(
      patterns: .anywhere, maxRepetition: nil, references: .kept, requiresEveryProperty: false,
      refusedKeywords: []),
    tools: .byModel,
    toolChoices: [],
    takesParallelToolCalls: false,
    tokenCounting: [],
    images: ImageRules(mediaTypes: ["image/jpeg", "image/png", "image/webp"]),
    sampling: SamplingRules(seed: true, topK: true),
    maximumTokensMember: "max_tokens",
    contextSource: .none,
    streamOptions: .taken,
    reasoningMembers: ["reasoning"],
    reasoningEffort: .none)

  static let openAI = ServerDialect(
    server: .openAI,
    responseFormat: .jsonSchema,
    grammar: GrammarLimits(
      patterns: .anywhere, maxRepetition: nil, references: .kept, requiresEveryProperty: true,
      refusedKeywords: [
        "allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "oneOf",
        "patternProperties", "uniqueItems", "contains", "minLength", "maxLength", "x-order",
      ]),
    tools: .always,
    toolChoices: [.auto, .none, .required, .named],
    takesParallelToolCalls: true,
    tokenCounting: [],
    images: ImageRules(mediaTypes: ["image/jpeg", "image/png", "image/webp", "image/gif"]),
    sampling: SamplingRules(seed: true, topK: false),
    // `max_tokens` is refused by its reasoning models.
    maximumTokensMember: "max_completion_tokens",
    contextSource: .none,
    streamOptions: .taken,
    reasoningMembers: [],
    reasoningEffort: .member)

  /// The least that chat-completions servers agree on.
  static let generic = ServerDialect(
    server: .generic,
    responseFormat: .jsonSchema,
    grammar: llamaCppGrammar,
    tools: .byModel,
    toolChoices: [.auto, .none, .required],
    takesParallelToolCalls: false,
    tokenCounting: [.inputTokens, .tokenizeMessages],
    images: ImageRules(mediaTypes: ["image/jpeg", "image/png"]),
    sampling: SamplingRules(seed: true, topK: true),
    maximumTokensMember: "max_tokens",
    contextSource: .modelList,
    streamOptions: .tried,
    reasoningMembers: ["reasoning_content", "reasoning"],
    reasoningEffort: .member)
}
