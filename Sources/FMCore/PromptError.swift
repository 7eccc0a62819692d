/// What is wrong with a prompt as a whole; thrown before anything is sent.
public enum PromptError: Error, Sendable, Equatable {
  /// Text that is no UTF-8, or holds a NUL.
  case invalidText(message: String)
  /// Two pictures of one prompt carry the same label.
  case duplicateLabel(String)
  /// An empty label, or one with control characters.
  case invalidLabel(String)
  /// No text and no picture.
  case emptyPrompt
  /// An EXIF orientation outside 1 to 8.
  case invalidOrientation(Int)

  public var message: String {
    switch self {
    case .invalidText(let message): message
    case .duplicateLabel(let label):
      "Two pictures of this prompt carry the label \"\(label)\"; give each its own."
    case .invalidLabel(let label):
      label.isEmpty
        ? "A picture's label is empty; leave the label out or give it a text."
        : "The label \(quoted(label)) holds control characters; use plain text."
    case .emptyPrompt: "The prompt is empty; give it a text or a picture."
    case .invalidOrientation(let value):
      "\(value) is no EXIF orientation; use 1 to 8, or 0 for the file's own."
    }
  }
}

/// Text in quotes with control characters written as escapes, so that a message stays one line.
package func quoted(_ text: String) -> String {
  var result = "\""
  for scalar in text.unicodeScalars {
    if scalar.properties.generalCategory == .control {
      result += "\\u{" + String(scalar.value, radix: 16) + "}"
    } else {
      result.unicodeScalars.append(scalar)
    }
  }
  return result + "\""
}

extension Prompt {
  /// Throws what a request would throw for this prompt before it is sent.
  package func validate() throws {
    guard !components.isEmpty else { throw PromptError.emptyPrompt }
    try components.validate()
  }
}

extension [PromptComponent] {
  func validate() throws {
    var labels: Set<String> = []
    for case .image(let image) in self {
      if let label = image.labelText {
        try validateLabel(label)
        guard labels.insert(label).inserted else { throw PromptError.duplicateLabel(label) }
      }
      if case .failure(let error) = image.content.source { throw error }
    }
  }
}

package func validateLabel(_ label: String) throws(PromptError) {
  let isPlain = label.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
  guard !label.isEmpty, isPlain else { throw PromptError.invalidLabel(label) }
}

/// At most that many characters of a text, for messages.
package func shortened(_ text: String, to limit: Int = 80) -> String {
  text.count <= limit ? text : text.prefix(limit) + "…"
}
