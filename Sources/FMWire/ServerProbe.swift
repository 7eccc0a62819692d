/// Asks a server what it is: one request where that is llama.cpp, a handful elsewhere, all within
/// `seconds`. What it does not answer stays unknown; nothing here is an error.
struct ServerProbe {
  static let seconds = 5.0

  private let client: ChatCompletionsClient
  private let model: String
  private let deadline = MonotonicTime.now().advanced(by: seconds)
  /// `Server` headers seen so far, in lower case.
  private var serverHeader = ""

  init(_ client: ChatCompletionsClient, model: String) {
    self.client = client
    self.model = model
  }

  /// The description, and whether it will stay true: not where the server did not answer, is still
  /// loading, or has not loaded the model.
  mutating func run() async -> (description: ServerDescription, isFinal: Bool) {
    if let known = ServerDialect.known(baseURL: client.endpoint.baseURL) {
      return (ServerDescription(dialect: known, supportsTools: true), true)
    }
    var generic = ServerDescription(dialect: .generic)
    guard let props = await get("props") else { return (generic, false) }
    if let json = props.json, Self.isProps(json) {
      let description = Self.describe(props: json)
      return (description, true)
    }
    let isLlamaCpp = serverHeader.contains("llama.cpp")
    if isLlamaCpp || props.status == 503 {
      if isLlamaCpp { generic.dialect = .llamaCpp }
      return (generic, props.status == 404)
    }

    let list = await get("v1/models")
    let models = list?.json?["data"]?.arrayValue ?? []
    var entry: JSONValue? = models.first { $0["id"]?.stringValue == model }
    if entry == nil, models.count == 1 { entry = models[0] }
    let owner = models.first?["owned_by"]?.stringValue
    if owner == "vllm" { return await describeVLLM(entry) }
    if owner == "llamacpp" {
      return (
        ServerDescription(
          dialect: .llamaCpp, contextSize: Self.count(entry?["meta"]?["n_ctx"])), true
      )
    }
    if owner == "organization_owner" || Self.isLMStudio(props) { return await describeLMStudio() }
    if let version = await get("api/version")?.json?["version"]?.stringValue {
      return await describeOllama(version: version)
    }
    if let version = await get("version")?.json?["version"]?.stringValue {
      return await describeVLLM(entry, version: version)
    }
    if await isMLX(models) { return (ServerDescription(dialect: .mlx), true) }
    for name in ["max_model_len", "context_length", "context_window"] {
      if generic.contextSize == nil { generic.contextSize = Self.count(entry?[name]) }
    }
    return (generic, list.map { $0.isLasting } ?? false)
  }

  // MARK: - llama.cpp

  private static func isProps(_ json: JSONValue) -> Bool {
    ["default_generation_settings", "chat_template", "total_slots", "modalities"].contains {
      json[$0] != nil
    }
  }

  static func describe(props: JSONValue) -> ServerDescription {
    ServerDescription(
      dialect: .llamaCpp, version: props["build_info"]?.stringValue,
      acceptsImages: props["modalities"]?["vision"]?.boolValue,
      supportsTools: supportsTools(props),
      contextSize: count(props["default_generation_settings"]?["n_ctx"]))
  }

  /// A template that does not know tools drops them without a word.
  private static func supportsTools(_ props: JSONValue) -> Bool? {
    if let told = props["chat_template_caps"]?["supports_tools"]?.boolValue { return told }
    if props["chat_template_tool_use"]?.stringValue != nil { return true }
    return props["chat_template"]?.stringValue.map { ByteText($0).contains("tools") }
  }

  // MARK: - vLLM

  private mutating func describeVLLM(
    _ entry: JSONValue?, version: String? = nil
  ) async -> (description: ServerDescription, isFinal: Bool) {
    var version = version
    if version == nil { version = await get("version")?.json?["version"]?.stringValue }
    return (
      ServerDescription(
        dialect: .vLLM, version: version, contextSize: Self.count(entry?["max_model_len"])), true
    )
  }

  // MARK: - LM Studio

  /// It answers 200 with this error wherever it has no page.
  private static func isLMStudio(_ answer: Answer) -> Bool {
    let error = answer.json?["error"]
    let words = error?.stringValue ?? error?["message"]?.stringValue ?? ""
    return ByteText(words).contains("Unexpected endpoint or method")
  }

  private mutating func describeLMStudio() async -> (
    description: ServerDescription, isFinal: Bool
  ) {
    var description = ServerDescription(dialect: .lmStudio)
    let models = await get("api/v0/models")?.json?["data"]?.arrayValue ?? []
    guard let entry = models.first(where: { $0["id"]?.stringValue == model }) else {
      return (description, false)
    }
    switch entry["type"]?.stringValue {
    case "vlm": description.acceptsImages = true
    case "llm": description.acceptsImages = false
    default: break
    }
    let capabilities = entry["capabilities"]?.arrayValue ?? []
    if capabilities.contains("tool_use") { description.supportsTools = true }
    description.contextSize = Self.count(entry["loaded_context_length"])
    return (description, description.contextSize != nil)
  }

  // MARK: - Ollama

  private mutating func describeOllama(version: String) async -> (
    description: ServerDescription, isFinal: Bool
  ) {
    var description = ServerDescription(dialect: .ollama, version: version)
    let body: JSONValue = ["model": .string(model)]
    if let capabilities = await post("api/show", body)?.json?["capabilities"]?.arrayValue {
      description.acceptsImages = capabilities.contains("vision")
      description.supportsTools = capabilities.contains("tools")
    }
    let running = await get("api/ps")?.json?["models"]?.arrayValue ?? []
    // "name" is "name:latest" there.
    let names = [model, model + ":latest"]
    let entry = running.first { entry in
      names.contains { $0 == entry["name"]?.stringValue || $0 == entry["model"]?.stringValue }
    }
    description.contextSize = Self.count(entry?["context_length"])
    return (description, description.contextSize != nil)
  }

  // MARK: - mlx

  /// mlx-vlm names its model in /health; mlx_lm is a bare Python server whose models are called
  /// after mlx.
  private mutating func isMLX(_ models: [JSONValue]) async -> Bool {
    let isNamedSo = models.contains {
      ByteText($0["id"]?.stringValue?.lowercased() ?? "").contains("mlx")
    }
    if isNamedSo && serverHeader.contains("basehttp/") { return true }
    let health = await get("health")?.json
    return health?["loaded_model"] != nil && health?["status"] != nil
  }

  // MARK: - Requests

  private struct Answer {
    var status: Int
    var json: JSONValue?
    /// Neither a fault that passes nor a key that may be mended.
    var isLasting: Bool { status < 500 && ![401, 403, 408, 429].contains(status) }
  }

  private mutating func get(_ page: String) async -> Answer? { await ask(page, nil) }
  private mutating func post(_ page: String, _ body: JSONValue) async -> Answer? {
    await ask(page, RequestBody(Array(body.jsonText.utf8)))
  }

  /// nil when no answer came in time. The JSON is there for status 200 only.
  private mutating func ask(_ page: String, _ body: RequestBody?) async -> Answer? {
    let left = deadline.secondsFromNow
    guard
      left > 0,
      let (head, bytes) = try? await client.page(
        page, body: body,
        timeouts: HTTPTimeouts(connect: left, firstByte: left, idle: left, total: left))
    else { return nil }
    if let header = head.header("server") { serverHeader += header.lowercased() + " " }
    return Answer(
      status: head.status, json: head.status == 200 ? try? JSONValue(parsing: bytes) : nil)
  }

  /// A positive whole number.
  private static func count(_ value: JSONValue?) -> Int? {
    value?.intValue.flatMap { $0 > 0 ? $0 : nil }
  }
}
