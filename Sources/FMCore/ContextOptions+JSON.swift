import FMWire

extension ContextOptions.ReasoningLevel {
  /// A level by its name; any other name is a word of the model's own.
  init(name: String) {
    self =
      switch name {
      case "light": .light
      case "moderate": .moderate
      case "deep": .deep
      default: .custom(name)
      }
  }

  var name: String {
    switch self {
    case .light: "light"
    case .moderate: "moderate"
    case .deep: "deep"
    case .custom(let name): name
    }
  }
}

extension ContextOptions {
  /// As a transcript tells them; what it says in other words leaves the choice open.
  init(transcriptJSON object: JSONObject) {
    self.init(
      includeSchemaInPrompt: object["includeSchemaInPrompt"]?.boolValue,
      reasoningLevel: object["reasoningLevel"]?.stringValue.map(ReasoningLevel.init(name:)))
  }

  var transcriptJSON: JSONObject {
    var object = JSONObject()
    object["includeSchemaInPrompt"] = includeSchemaInPrompt.map(JSONValue.bool)
    object["reasoningLevel"] = reasoningLevel.map { .string($0.name) }
    return object
  }
}
