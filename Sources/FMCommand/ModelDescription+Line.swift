import FMCore

extension ModelDescription {
  /// The description in one line for a person.
  var line: String {
    let name = json["model"]?.stringValue ?? ""
    switch json["kind"]?.stringValue {
    case "chat-completions":
      let server = "the server \(json["base_url"]?.stringValue ?? "")"
      return name.isEmpty ? "the first model of \(server)" : "\(name) on \(server)"
    case "engine": return "\(name) in the embedded engine"
    default: return unavailableExplanation ?? "none"
    }
  }
}
