/// What one chunk, or a whole completion, says; read in one pass without a tree of values around.
struct ChatChunk {
  /// An error in one of the known shapes, whatever else it holds.
  private(set) var isError = false
  /// How many choices there are; nil where there is no list of them.
  private(set) var choiceCount: Int?
  private(set) var text: String?
  /// The content is nothing that an answer can be made of.
  private(set) var isUnreadable = false
  private(set) var reasoning: String?
  private(set) var refusal: String?
  /// Deltas of tool calls, or whole ones.
  private(set) var toolCalls: [JSONValue] = []
  private(set) var finishReason: String?
  private(set) var usage: ChatUsage?
  /// What is said of the answer beside it: `id`, `model`, `system_fingerprint`, and llama.cpp's
  /// `timings`.
  private(set) var timings: JSONValue?
  private(set) var names: [(name: String, value: JSONValue)] = []

  /// Which member of a choice holds what is said.
  enum Form {
    /// `delta`: of a stream.
    case delta
    /// `message`: a whole completion.
    case message
  }

  /// Throws where the text is no JSON. The names are read only where `wantsNames`: every chunk repeats them.
  init(
    _ bytes: UnsafeBufferPointer<UInt8>, _ form: Form, wantsNames: Bool
  ) throws(JSONError) {
    var reader = JSONReader(bytes, maxDepth: 512)
    var hasDetail = false
    var hasFirstChoice = false
    let isObject = try reader.readTextMembers { (reader, name) throws(JSONError) in
      if name == "choices" {
        var count = 0
        let isArray = try reader.readElementsIfArray { (reader) throws(JSONError) in
          count += 1
          var choice = Choice()
          guard try choice.read(&reader, form) else { return }
          // Only the first choice is asked for.
          if choice.index == 0 && !hasFirstChoice {
            hasFirstChoice = true
            take(choice)
          }
        }
        if isArray { choiceCount = count } else { try reader.skipValue() }
      } else if name == "usage" {
        if try !reader.readIfNull() { usage = ChatUsage(try reader.readValue()) }
      } else if name == "timings" {
        if try !reader.readIfNull() { timings = try reader.readValue() }
      } else if name == "error" {
        if try !reader.readIfNull() {
          try reader.skipValue()
          isError = true
        }
      } else if name == "object" {
        if let object = try reader.readIfName() {
          if object == "error" { isError = true }
        } else {
          try reader.skipValue()
        }
      } else if name == "detail" {
        hasDetail = true
        try reader.skipValue()
      } else if wantsNames, name == "id" || name == "model" || name == "system_fingerprint" {
        if try !reader.readIfNull() { names.append((name.text, try reader.readValue())) }
      } else {
        try reader.skipValue()
      }
    }
    if !isObject {
      // Gemini's compatible endpoint wraps its error in a list; anything else says nothing.
      isError = ServerFailure.isError(try reader.readText())
    }
    if hasDetail && choiceCount == nil { isError = true }
  }

  private mutating func take(_ choice: Choice) {
    text = choice.content.text
    isUnreadable = choice.content.isUnreadable
    // vLLM renamed `reasoning_content` to `reasoning`; a server may send both with one text.
    reasoning = choice.reasoningContent ?? choice.reasoning ?? choice.content.reasoning
    refusal = choice.refusal ?? choice.content.refusal
    toolCalls = choice.toolCalls
    finishReason = choice.finishReason
  }

  /// One element of `choices`.
  private struct Choice {
    var index = 0
    var content = ChatContent()
    var reasoningContent: String?
    var reasoning: String?
    var refusal: String?
    var toolCalls: [JSONValue] = []
    var finishReason: String?

    /// False for an element that is no object.
    mutating func read(_ reader: inout JSONReader, _ form: Form) throws(JSONError) -> Bool {
      let isObject = try reader.readMembersIfObject { (reader, name) throws(JSONError) in
        if name == "index" {
          index = try reader.readValue().intValue ?? 0
        } else if form == .delta ? name == "delta" : name == "message" {
          let isObject = try reader.readMembersIfObject { (reader, name) throws(JSONError) in
            try readSaid(&reader, name)
          }
          if !isObject { try reader.skipValue() }
        } else if name == "finish_reason" {
          finishReason = try Self.text(&reader)
        } else {
          try reader.skipValue()
        }
      }
      if !isObject { try reader.skipValue() }
      return isObject
    }

    private mutating func readSaid(
      _ reader: inout JSONReader, _ name: JSONName
    ) throws(JSONError) {
      if name == "content" {
        try content.read(&reader)
      } else if name == "reasoning_content" {
        reasoningContent = try Self.text(&reader)
      } else if name == "reasoning" {
        reasoning = try Self.text(&reader)
      } else if name == "refusal" {
        refusal = try Self.text(&reader)
      } else if name == "tool_calls" {
        if try reader.readIfNull() { return }
        let value = try reader.readValue()
        toolCalls = value.arrayValue ?? [value]
      } else if name == "function_call" {
        // The form that `tool_calls` replaced.
        if try reader.readIfNull() { return }
        toolCalls = [["index": 0, "function": try reader.readValue()]]
      } else {
        try reader.skipValue()
      }
    }

    /// A string that says something; nil for anything else.
    private static func text(_ reader: inout JSONReader) throws(JSONError) -> String? {
      if let text = try reader.readIfString() { return text.isEmpty ? nil : text }
      try reader.skipValue()
      return nil
    }
  }
}
