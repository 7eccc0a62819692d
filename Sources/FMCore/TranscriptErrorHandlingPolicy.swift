/// What a failed or cancelled request leaves in the transcript.
public struct TranscriptErrorHandlingPolicy: Sendable, Equatable {
  private let keeps: Bool

  /// Nothing: the transcript is as it was before the request.
  public static let revertTranscript = TranscriptErrorHandlingPolicy(keeps: false)
  /// The prompt, the tool calls that completed, and what had arrived of the answer.
  public static let preserveTranscript = TranscriptErrorHandlingPolicy(keeps: true)
}

extension Transcript {
  /// Makes the leading instructions tell of these tools, where there are any.
  mutating func tell(of tools: [ToolDefinition]) {
    guard !tools.isEmpty else { return }
    if case .instructions(var instructions) = entries.first {
      instructions.toolDefinitions = tools
      entries[0] = .instructions(instructions)
    } else {
      entries.insert(.instructions(Instructions(segments: [], toolDefinitions: tools)), at: 0)
    }
  }
}
