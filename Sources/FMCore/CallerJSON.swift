import FMImaging
import FMWire

// What callers outside Swift give and get as JSON; OpenFM.h describes each form.

func parseObject(_ text: String, _ name: String, _ status: StatusCode) throws(Failure)
  -> JSONObject
{
  do {
    if let object = try JSONValue(parsing: text).objectValue { return object }
  } catch {
    throw Failure(
      status, "The JSON of the \(name) is none: \(error.message) at byte \(error.offset).")
  }
  throw Failure(status, "The JSON of the \(name) is no object.")
}

/// Reads the members of an object and says which one is wrong.
struct MemberReader {
  let object: JSONObject
  let name: String
  let status: StatusCode

  func wrong(_ member: String, _ expected: String) -> Failure {
    Failure(status, "\(quoted(member)) of the \(name) is no \(expected).")
  }

  func value<Value>(
    _ member: String, _ expected: String, _ read: (JSONValue) -> Value?
  ) throws(Failure) -> Value? {
    guard let json = object[member], !json.isNull else { return nil }
    guard let value = read(json) else { throw wrong(member, expected) }
    return value
  }

  /// Numbers may come as text: the reference's own Python package writes them so.
  func number(_ member: String, _ expected: String, in range: ClosedRange<Double>) throws(Failure)
    -> Double?
  {
    try value(member, expected) { json in
      let number = json.doubleValue ?? json.stringValue.flatMap(Double.init)
      return number.flatMap { range.contains($0) ? $0 : nil }
    }
  }

  func integer<Integer: FixedWidthInteger>(
    _ member: String, _ expected: String, atLeast least: Integer
  ) throws(Failure) -> Integer? {
    try value(member, expected) { json in
      let text: String? =
        if case .number(let number) = json { number.literal } else { json.stringValue }
      guard let text else { return nil }
      let integer = Integer(text) ?? Double(text).flatMap(Integer.init(exactly:))
      return integer.flatMap { $0 >= least ? $0 : nil }
    }
  }

  /// Refuses members that mean nothing here: a misspelt one must not be ignored.
  func requireOnly(_ known: Set<String>) throws(Failure) {
    for member in object.members where !known.contains(member.name) {
      throw Failure(
        status,
        "\(quoted(member.name)) is no member of the \(name);"
          + " there are \(known.sorted().joined(separator: ", ")).")
    }
  }
}

extension GenerationOptions {
  /// The options of FMLanguageModelSessionRespond; nil = none. Members that the reference does not
  /// know are ignored, as it ignores them; wrong values of known ones are refused.
  package init(json text: String?) throws(Failure) {
    self.init()
    guard let text else { return }
    let object = try parseObject(text, "options", .unknown)
    let options = MemberReader(object: object, name: "options", status: .unknown)
    temperature = try options.number("temperature", "number of at least 0", in: 0...1e6)
    maximumResponseTokens = try options.integer(
      "maximum_response_tokens", "whole number of at least 1", atLeast: 1)
    repairAttempts =
      try options.integer(
        "repair_attempts", "whole number from 0 to 3", atLeast: 0) ?? 0
    guard repairAttempts <= 3 else {
      throw options.wrong("repair_attempts", "whole number from 0 to 3")
    }
    toolCallingMode = try options.value("tool_choice", "tool choice: allowed, required, disallowed")
    {
      $0.stringValue.flatMap(GenerationOptions.ToolCallingMode.Kind.init)
    }.map(GenerationOptions.ToolCallingMode.init)
    guard let json = object["sampling"], !json.isNull else { return }
    guard let sampling = json.objectValue else { throw options.wrong("sampling", "object") }
    let members = MemberReader(object: sampling, name: "sampling options", status: .unknown)
    switch sampling["mode"]?.stringValue {
    case "greedy": samplingMode = .greedy
    case "random":
      let seed: UInt64? = try members.integer("seed", "whole number of at least 0", atLeast: 0)
      if let k: Int = try members.integer("top_k", "whole number of at least 1", atLeast: 1) {
        samplingMode = .random(top: k, seed: seed)
      } else if let threshold = try members.number("top_p", "number from 0 to 1", in: 0...1) {
        samplingMode = .random(probabilityThreshold: threshold, seed: seed)
      } else {
        samplingMode = .random(seed: seed)
      }
    default: throw members.wrong("mode", "sampling mode; use \"greedy\" or \"random\"")
    }
  }
}

extension ContextOptions {
  /// The options of FMLanguageModelSessionRespond that are about the context; nil = none.
  package init(json text: String?) throws(Failure) {
    self.init()
    guard let text else { return }
    let object = try parseObject(text, "options", .unknown)
    let options = MemberReader(object: object, name: "options", status: .unknown)
    includeSchemaInPrompt = try options.value(
      "include_schema_in_prompt", "boolean", \.boolValue)
    let level = try options.value(
      "reasoning_level", "level: light, moderate, deep, or a word of the model's own",
      \.stringValue)
    if let level {
      guard !level.isEmpty else { throw options.wrong("reasoning_level", "level; it is empty") }
      reasoningLevel = ReasoningLevel(name: level)
    }
  }
}

extension ChatConfiguration {
  /// The arguments of FMLanguageModelCreateChatCompletions.
  package init(
    baseURL: String, model: String, apiKey: String?, optionsJSON: String?
  ) throws(Failure) {
    // A line break at the end is trimmed: keys are often read from files. One inside would start a
    // header of its own.
    let key = apiKey?.trimmingASCIIWhitespace()
    let control = key?.unicodeScalars.contains { $0.value < 0x20 || $0.value == 0x7F } ?? false
    guard !control else {
      throw Failure(.invalidArgument, "The API key holds control characters.")
    }
    self.init(endpoint: Endpoint(baseURL: baseURL, apiKey: key), model: model)
    do {
      try endpoint.validate()
    } catch {
      throw Failure(error)
    }
    guard let optionsJSON else { return }
    let object = try parseObject(optionsJSON, "model options", .invalidArgument)
    let members = MemberReader(object: object, name: "model options", status: .invalidArgument)
    try members.requireOnly([
      "headers", "timeout", "max_retries", "proxy", "certificate_file", "context_size",
      "supports_images", "supports_guided_generation", "supports_tools", "server", "image",
      "extra_body", "max_answer_bytes",
    ])
    if let headers = try members.value("headers", "object", \.objectValue) {
      for (name, value) in headers.members {
        let isPlain = (name + (value.stringValue ?? "\n")).unicodeScalars.allSatisfy {
          $0.value >= 0x20 && $0.value != 0x7F
        }
        guard !name.isEmpty, !name.contains(":"), isPlain, let text = value.stringValue else {
          throw members.wrong("headers", "object of header names and one-line texts")
        }
        // A length that is not the body's would make its rest the next request of the connection.
        guard !["content-length", "transfer-encoding"].contains(name.lowercased()) else {
          throw members.wrong("headers", "object that leaves \(name) to this library")
        }
        endpoint.headers[name] = text
      }
    }
    if let timeout = try members.value("timeout", "object", \.objectValue) {
      try endpoint.timeouts.read(timeout)
    }
    let mostRetries = 100
    let retries: Int? = try members.integer(
      "max_retries", "whole number from 0 to \(mostRetries)", atLeast: 0)
    if let retries {
      guard retries <= mostRetries else {
        throw members.wrong("max_retries", "whole number from 0 to \(mostRetries)")
      }
      endpoint.retry.maximumRetries = retries
    }
    endpoint.proxy = try members.value("proxy", "URL", \.stringValue)
    endpoint.maximumAnswerBytes =
      try members.integer("max_answer_bytes", "number of bytes of at least 1", atLeast: 1)
      ?? endpoint.maximumAnswerBytes
    endpoint.certificateFile = try members.value("certificate_file", "path", \.stringValue)
    contextSize = try members.integer("context_size", "whole number of at least 1", atLeast: 1)
    supportsImages = try members.value("supports_images", "boolean", \.boolValue)
    supportsGuidedGeneration =
      try members.value("supports_guided_generation", "boolean", \.boolValue) ?? true
    supportsTools = try members.value("supports_tools", "boolean", \.boolValue)
    let servers = ServerKind.allCases.map(\.rawValue).joined(separator: ", ")
    server = try members.value("server", "server known here; there are \(servers)") {
      $0.stringValue.flatMap(ServerKind.init)
    }
    if let policy = try members.value("image", "object", \.objectValue) {
      imageChanges = try ImagePolicyChanges(policy)
    }
    extraBody = try members.value("extra_body", "object", \.objectValue) ?? JSONObject()
    // Others may be replaced. Without these the prompt would not be sent, or the answer not be read.
    for name in ["messages", "stream"] where extraBody[name] != nil {
      throw members.wrong("extra_body", "object that leaves \"\(name)\" to this library")
    }
  }
}

extension HTTPTimeouts {
  fileprivate mutating func read(_ object: JSONObject) throws(Failure) {
    let members = MemberReader(object: object, name: "timeouts", status: .invalidArgument)
    try members.requireOnly(["connect", "first_byte", "idle", "total"])
    func seconds(_ name: String, _ value: Double) throws(Failure) -> Double {
      try members.number(name, "number of seconds, 0 for no limit", in: 0...1e7) ?? value
    }
    connect = try seconds("connect", connect)
    firstByte = try seconds("first_byte", firstByte)
    idle = try seconds("idle", idle)
    total = try seconds("total", total)
  }
}

// MARK: - What callers get

private func optionalNumber(_ value: Int?) -> JSONValue {
  value.map { .number(JSONNumber($0)) } ?? .null
}

extension Usage {
  /// A count nobody gave is null, never 0.
  package var json: JSONValue {
    [
      "input": [
        "total": optionalNumber(input.reportedTotalTokenCount),
        "cached": optionalNumber(input.reportedCachedTokenCount),
      ],
      "output": [
        "total": optionalNumber(output.reportedTotalTokenCount),
        "reasoning": optionalNumber(output.reportedReasoningTokenCount),
      ],
    ]
  }
}

extension CompletedResponse {
  /// "last_response" of FMLanguageModelSessionCopyUsageJSON.
  package var json: JSONValue {
    [
      "usage": usage.json,
      "finish_reason": metadata["finishReason"]?.jsonValue ?? .null,
      "images": metadata["images"]?.jsonValue ?? [],
      "model": metadata["server"]?.jsonValue["model"] ?? .null,
      "server": metadata["server"]?.jsonValue ?? [:],
      "seconds": [
        "first_text": timing.firstTextSeconds.flatMap(JSONNumber.init).map(JSONValue.number)
          ?? .null,
        "total": JSONNumber(timing.totalSeconds).map(JSONValue.number) ?? .null,
      ],
      "attempts": metadata["attempts"]?.jsonValue ?? [],
      "rate_limits": metadata["rateLimits"]?.jsonValue ?? [:],
      "warnings": metadata["warnings"]?.jsonValue ?? [],
    ]
  }
}

extension LanguageModelSession {
  package var usageJSON: String {
    let value: JSONValue = ["session": usage.json, "last_response": lastResponse?.json ?? .null]
    return value.jsonText
  }
}

extension LanguageModelSession {
  /// The settings of FMLanguageModelSessionConfigure; those left out stay as they are.
  package func configure(json text: String) throws(Failure) {
    let object = try parseObject(text, "session settings", .invalidArgument)
    let members = MemberReader(object: object, name: "session settings", status: .invalidArgument)
    try members.requireOnly([
      "tool_errors", "max_tool_rounds", "keep_failed_turns", "history_turns",
      "drop_completed_tool_calls",
    ])
    var policy = toolPolicy
    if let handling = try members.value(
      "tool_errors", "way to treat a tool's errors; use \"throw\" or \"output\"",
      { $0.stringValue.flatMap(ToolPolicy.ErrorHandling.init) })
    {
      policy.errorHandling = handling
    }
    policy.maximumRounds =
      try members.integer("max_tool_rounds", "whole number of at least 1", atLeast: 1)
      ?? policy.maximumRounds
    toolPolicy = policy
    if let keeps = try members.value("keep_failed_turns", "boolean", \.boolValue) {
      transcriptErrorHandlingPolicy = keeps ? .preserveTranscript : .revertTranscript
    }
    guard object["history_turns"] != nil || object["drop_completed_tool_calls"] != nil else {
      return
    }
    let turns: Int? = try members.integer(
      "history_turns", "whole number of at least 0, or null", atLeast: 0)
    let drops = try members.value("drop_completed_tool_calls", "boolean", \.boolValue) ?? false
    let window = turns.map(HistoryTransform.rollingWindow)
    historyTransform =
      drops
      ? window?.followed(by: .droppingCompletedToolCalls) ?? .droppingCompletedToolCalls
      : window
  }
}

extension TokenCount {
  /// What FMLanguageModelCountTokensOnQueue gives.
  package var json: JSONValue {
    [
      "count": .number(JSONNumber(value)), "exact": .bool(isExact),
      "parts": .object(
        JSONObject(
          parts.sorted { $0.key < $1.key }.map { ($0.key, .number(JSONNumber($0.value))) })),
    ]
  }
}

extension LanguageModelCapabilities {
  /// The form of FMLanguageModelCopyCapabilitiesJSON.
  package var json: JSONValue {
    let isGuided = contains(.guidedGeneration)
    return [
      "vision": .bool(contains(.vision)), "guided_generation": .bool(isGuided),
      "tool_calling": contains(.toolCalling) ? "native" : isGuided ? "guided" : .null,
      "reasoning": .bool(contains(.reasoning)),
    ]
  }
}

extension ModelDescription {
  /// With what is known after asking.
  fileprivate func confirmed(
    _ capabilities: LanguageModelCapabilities, contextSize: Int?
  ) -> JSONValue {
    var object = json.objectValue ?? JSONObject()
    object["capabilities"] = capabilities.json
    object["context_size"] = contextSize.map { .number(JSONNumber($0)) } ?? object["context_size"]
    return .object(object)
  }
}

extension SystemLanguageModel {
  /// The form of FMLanguageModelLoadOnQueue.
  package func confirmedDescription() async throws -> JSONValue {
    // Asked first: what is to be described may be another engine than the one that was found.
    let capabilities = try await confirmedCapabilities
    return ModelDescription(self).confirmed(capabilities, contextSize: await contextTokenLimit)
  }
}

extension ChatCompletionsLanguageModel {
  /// The form of FMLanguageModelLoadOnQueue.
  ///
  /// - Throws: `WireError` where the server cannot be reached or refuses the key.
  package func confirmedDescription() async throws -> JSONValue {
    do {
      _ = try await ChatCompletionsClient(endpoint: configuration.endpoint).firstModelID()
    } catch let error as WireError {
      // A server need not list its models to answer.
      guard [.notFound, .server, .invalidResponse].contains(error.kind) else { throw error }
    }
    return ModelDescription(self).confirmed(
      try await confirmedCapabilities, contextSize: await contextTokenLimit)
  }
}

/// What a model is, for FMLanguageModelCopyDescriptionJSON.
package struct ModelDescription: Sendable {
  package var json: JSONValue
  package var unavailableExplanation: String?

  package init(_ model: SystemLanguageModel) {
    switch model.backend {
    case .server(let chat): json = Self.json(chat)
    case .engine(let engine):
      json = [
        "kind": "engine", "model": .string(engine.modelName),
        "model_path": .string(engine.modelPath),
        "mmproj_path": engine.projectorPath.map(JSONValue.string) ?? .null,
        "engine": .array(engine.command.map(JSONValue.string)),
        "context_size": .number(JSONNumber(engine.contextSize)),
        "image": model.imagePolicy.json,
      ]
    case .unavailable(let message):
      json = ["kind": "unavailable"]
      unavailableExplanation = message
    }
  }

  package init(_ model: ChatCompletionsLanguageModel) {
    json = Self.json(model.configuration)
  }

  private static func json(_ chat: ChatConfiguration) -> JSONValue {
    [
      "kind": "chat-completions", "model": .string(chat.model),
      "base_url": .string(chat.endpoint.baseURL),
      "context_size": optionalNumber(chat.contextSize),
      "image": chat.imagePolicy.json,
    ]
  }
}

/// What a host offers the embedded engine.
package enum EngineDefaults {
  /// The argument of FMEngineSetDefaults.
  package static func set(json text: String) throws(Failure) {
    let object = try parseObject(text, "engine defaults", .invalidArgument)
    let members = MemberReader(object: object, name: "engine defaults", status: .invalidArgument)
    try members.requireOnly(["command", "model_path"])
    let command = try members.value("command", "list of texts") { json -> [String]? in
      guard let elements = json.arrayValue, !elements.isEmpty else { return nil }
      let words = elements.compactMap(\.stringValue)
      return words.count == elements.count ? words : nil
    }
    let modelPath = try members.value("model_path", "path", \.stringValue)
    EngineDiscovery.setDefaults(command: command, modelPath: modelPath)
  }
}

extension ModelStore.PullOptions {
  /// The options of FMModelPull; nil = none.
  package init(json text: String?) throws(Failure) {
    self.init()
    guard let text else { return }
    let object = try parseObject(text, "model options", .invalidArgument)
    let members = MemberReader(object: object, name: "model options", status: .invalidArgument)
    try members.requireOnly(["sha256", "mmproj", "python"])
    sha256 = try members.value("sha256", "text", \.stringValue)
    projector = try members.value("mmproj", "text", \.stringValue)
    python = try members.value("python", "path", \.stringValue)
  }
}
