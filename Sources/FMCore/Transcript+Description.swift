import FMWire

// For people who print a transcript; programs read `jsonText`.

extension Transcript: CustomStringConvertible {
  public var description: String { map(\.description).joined(separator: "\n") }
}

extension Transcript.Entry: CustomStringConvertible {
  /// The role and what was said, in one line for each segment.
  public var description: String {
    switch self {
    case .instructions(let entry): line("instructions", entry.segments)
    case .prompt(let entry): line("prompt", entry.segments)
    case .toolCalls(let calls):
      calls.map { "tool call \($0.toolName): \($0.arguments.jsonString)" }.joined(separator: "\n")
    case .toolOutput(let entry): line("output of \(entry.toolName)", entry.segments)
    case .response(let entry): line("response", entry.segments)
    case .reasoning(let entry): line("reasoning", entry.segments)
    }
  }

  private func line(_ role: String, _ segments: [Transcript.Segment]) -> String {
    "\(role): " + segments.map(\.description).joined(separator: "\n")
  }
}

extension Transcript.Segment: CustomStringConvertible {
  public var description: String {
    switch self {
    case .text(let segment): segment.content
    case .structure(let segment): segment.content.jsonString
    case .attachment(let segment):
      if let label = segment.label { labelMarker(label) } else { "[image]" }
    }
  }
}
