/// The content of a delta or message: a string, a list of parts, or nothing.
struct ChatContent {
  private(set) var text: String?
  private(set) var reasoning: String?
  private(set) var refusal: String?
  /// What stands in its place is none of these, such as a number: no answer can be made of it.
  private(set) var isUnreadable = false

  mutating func read(_ reader: inout JSONReader) throws(JSONError) {
    if let string = try reader.readIfString() {
      text = string.isEmpty ? nil : string
    } else if try !reader.readIfNull() {
      let value = try reader.readValue()
      for part in value.arrayValue ?? [value] { take(part) }
      isUnreadable = value.arrayValue == nil && value["type"] == nil && value["text"] == nil
    }
  }

  private mutating func take(_ part: JSONValue) {
    if let words = part.stringValue { return Self.append(words, to: &text) }
    switch part["type"]?.stringValue {
    case nil, "text", "output_text": Self.append(part["text"]?.stringValue, to: &text)
    case "refusal": Self.append(part["refusal"]?.stringValue, to: &refusal)
    case "thinking", "reasoning":
      // A string, or a list of text parts again.
      let thoughts = part["thinking"] ?? part["reasoning"] ?? part["text"]
      if let words = thoughts?.stringValue { Self.append(words, to: &reasoning) }
      for inner in thoughts?.arrayValue ?? [] {
        Self.append(inner["text"]?.stringValue, to: &reasoning)
      }
    default: break
    }
  }

  private static func append(_ words: String?, to text: inout String?) {
    guard let words, !words.isEmpty else { return }
    text = (text ?? "") + words
  }
}
