/// What an error body says, whichever server wrote it.
struct ServerWords {
  /// The message, "" where there is none.
  private(set) var text = ""
  /// An HTTP status given in the body.
  private(set) var status: Int?
  /// The body is HTML.
  private(set) var isPage = false
  private var marks: [String] = []
  private var promptTokens: Int?
  private var contextTokens: Int?

  /// `isPage`: the content type says HTML.
  init(body: [UInt8], isPage: Bool) {
    if let value = try? JSONValue(parsing: body) {
      read(value)
      return
    }
    let raw = String(decoding: body, as: UTF8.self).trimmingASCIIWhitespace()
    self.isPage = isPage || raw.hasPrefix("<")
    text = self.isPage ? Self.pageText(raw) : raw
  }

  // MARK: - Shapes

  private mutating func read(_ value: JSONValue) {
    switch value {
    case .string(let words): text = words
    case .array(let elements):
      // Gemini's compatible endpoint wraps its error in a list.
      if let first = elements.first { read(first) }
    case .object(let object): read(object)
    default: text = value.jsonText
    }
  }

  private mutating func read(_ object: JSONObject) {
    noteNumbers(object)
    let message = object["message"].flatMap(Self.words)
    switch object["error"] {
    case .object(let inner):
      // OpenAI, llama.cpp: {"error": {"message", "type", "code"}}
      noteNumbers(inner)
      text = inner["message"].flatMap(Self.words) ?? JSONValue.object(inner).jsonText
    case .string(let words):
      // LM Studio, Ollama: {"error": "words"}; Nest: {"message": "words", "error": "Bad Request"}
      text = message ?? words
    default:
      // vLLM: {"object": "error", "message"}; FastAPI: {"detail"}
      text =
        message ?? object["detail"].flatMap(Self.words) ?? object["msg"].flatMap(Self.words)
        ?? object["errors"].flatMap(Self.words) ?? JSONValue.object(object).jsonText
    }
  }

  private mutating func noteNumbers(_ object: JSONObject) {
    for name in ["type", "code"] {
      if let mark = object[name]?.stringValue { marks.append(mark.lowercased()) }
    }
    for name in ["code", "statusCode", "status"] {
      if let code = object[name]?.intValue, 400..<600 ~= code { status = code }
    }
    promptTokens = object["n_prompt_tokens"]?.intValue ?? promptTokens
    contextTokens = object["n_ctx"]?.intValue ?? contextTokens
  }

  private static func words(_ value: JSONValue) -> String? {
    switch value {
    case .string(let words): words
    case .array(let elements):
      elements.compactMap(words).joined(separator: "; ")
    case .object(let object):
      (object["msg"] ?? object["message"]).flatMap(words)
    default: nil
    }
  }

  /// A page's title, else its text without tags.
  private static func pageText(_ page: String) -> String {
    let text = ByteText(page)
    let lowered = ByteText(page.lowercased())
    if lowered.bytes.count == text.bytes.count,
      let open = lowered.range(of: "<title>"),
      let close = lowered.range(of: "</title>", from: open.upperBound)
    {
      let title = text.bytes[open.upperBound..<close.lowerBound]
      let words = String(decoding: title, as: UTF8.self).trimmingASCIIWhitespace()
      if !words.isEmpty { return words }
    }
    var bare: [UInt8] = []
    var isTag = false
    for byte in text.bytes {
      if byte == UInt8(ascii: "<") {
        isTag = true
        bare.append(UInt8(ascii: " "))
      } else if byte == UInt8(ascii: ">") && isTag {
        isTag = false
      } else if !isTag {
        bare.append(byte)
      }
    }
    return String(decoding: bare, as: UTF8.self).split(whereSeparator: \.isWhitespace)
      .joined(separator: " ")
  }

  // MARK: - Meaning

  /// What the words themselves mean, where they are known.
  var kindByText: WireError.Kind? {
    let text = ByteText(text.lowercased())
    func says(_ phrases: [String]) -> Bool { phrases.contains(where: text.contains) }
    if marks.contains(where: Self.overflowMarks.contains) || says(Self.overflowPhrases) {
      return .contextSizeExceeded
    }
    if marks.contains(where: Self.filterMarks.contains) || says(Self.filterPhrases) {
      return .contentFiltered
    }
    if says(Self.noImagesPhrases) { return .imagesUnsupported }
    if marks.contains("invalid_api_key") || marks.contains("authentication_error") {
      return .authentication
    }
    if marks.contains("model_not_found") { return .notFound }
    if marks.contains("rate_limit_exceeded") || marks.contains("rate_limit_error") {
      return .rateLimited
    }
    if says(Self.tooLargePhrases) { return .requestTooLarge }
    return nil
  }

  /// The words say that the same request will fail again, whatever the status.
  func isFinal(status: Int) -> Bool {
    if marks.contains(where: Self.finalMarks.contains) { return true }
    // OpenAI marks some of its 429 so, too, which do pass.
    if status >= 500, marks.contains("invalid_request_error") { return true }
    let text = ByteText(text.lowercased())
    return Self.finalPhrases.contains(where: text.contains)
  }

  /// The words are about the model, not about the request's path or size.
  var isAboutModel: Bool {
    marks.contains("model_not_found") || ByteText(text.lowercased()).contains("model")
  }

  private static let finalMarks = [
    "insufficient_quota", "billing_hard_limit_reached", "billing_not_active",
  ]

  /// A grammar or a chat template that does not work will not work next time; nor will an account
  /// without credit. llama.cpp answers 500 to the first two.
  private static let finalPhrases = [
    "exceeded your current quota",
    "failed to parse grammar",
    "failed to initialize samplers",
    "unable to generate parser for this template",
    "jinja",
    "chat template",
    "json schema",
  ]

  private static let overflowMarks = ["exceed_context_size_error", "context_length_exceeded"]

  /// llama.cpp, vLLM (four), LM Studio, Ollama, Apple (two), OpenAI, Anthropic.
  private static let overflowPhrases = [
    "exceeds the available context size",
    "maximum context length is",
    "longer than the maximum model length",
    "is too long to fit into the model",
    "model's context length is only",
    "context size has been exceeded",
    "input length exceeds the context length",
    "exceeded the model's context size",
    "exceeds the maximum allowed context size",
    "exceeds the context window",
    "prompt is too long",
  ]

  private static let filterMarks = [
    "content_filter", "content_policy_violation", "responsibleaipolicyviolation",
    "guardrail_violation", "guardrailviolation",
  ]

  /// Azure, OpenAI, Apple.
  private static let filterPhrases = [
    "content management policy", "violates our usage policies",
    "detected content likely to be unsafe",
    "safety guardrails",
  ]

  /// llama.cpp, Ollama, vLLM, OpenRouter, OpenAI, DeepSeek and relatives.
  private static let noImagesPhrases = [
    "image input is not supported",
    "does not support image",
    "doesn't support image",
    "do not support image",
    "missing data required for image input",
    "is not a multimodal model",
    "support image input",
    "image_url is only supported",
    "unknown variant `image_url`",
  ]

  private static let tooLargePhrases = [
    "request entity too large", "payload too large", "request body too large",
    "content too large",
  ]

  /// The prompt's tokens, where the server tells.
  var tokenCount: Int? {
    promptTokens
      ?? firstNumber(after: [
        "you requested ", "requested a total of ", "resulted in ", "request has ",
        "you passed ", "prompt (length ", "prompt length of ", "(total length ", "request (",
        "content contains ", "prompt is too long: ",
      ])
  }

  /// The context's tokens, where the server tells.
  var contextSize: Int? {
    contextTokens
      ?? firstNumber(after: [
        "maximum context length is ", "maximum model length of ", "maximum model length ",
        "(context length ", "context length is only ", "available context size (",
        "maximum allowed context size of ", "context size of ", "tokens > ",
      ])
  }

  private func firstNumber(after phrases: [String]) -> Int? {
    let text = ByteText(text.lowercased())
    for phrase in phrases {
      if let number = text.number(after: phrase) { return number }
    }
    return nil
  }
}
