import FMCore
import FMWire

/// `fm available`: what the default model is. Starts nothing and connects to nothing.
struct AvailableCommand {
  let asksJSON: Bool
  let console: Console

  /// - Returns: whether there is a default model.
  func run() throws -> Bool {
    let description = ModelDescription(SystemLanguageModel.default)
    let isAvailable = description.unavailableExplanation == nil
    try console.write(
      (asksJSON ? json(description) : lines(description).joined(separator: "\n")) + "\n")
    return isAvailable
  }

  private func json(_ description: ModelDescription) -> String {
    let explanation = description.unavailableExplanation
    var object = JSONObject([("available", .bool(explanation == nil))])
    object.members += description.json.objectValue?.members ?? []
    if let explanation { object["explanation"] = .string(explanation) }
    object["build"] = BuildInfo.json
    return JSONValue.object(object).jsonText
  }

  private func lines(_ description: ModelDescription) -> [String] {
    if let explanation = description.unavailableExplanation {
      return ["unavailable: \(explanation)"]
    }
    var lines = ["available: \(description.line)"]
    let json = description.json
    if json["kind"]?.stringValue == "engine" {
      let command = json["engine"]?.arrayValue?.compactMap(\.stringValue) ?? []
      lines.append("engine:    \(command.joined(separator: " "))")
      lines.append("model:     \(json["model_path"]?.stringValue ?? "")")
      lines.append(
        "pictures:  "
          + (json["mmproj_path"]?.stringValue
            ?? "none; OPENFM_MMPROJ_PATH names the model's projector"))
    }
    if let size = json["context_size"]?.intValue { lines.append("context:   \(size) tokens") }
    return lines
  }
}
