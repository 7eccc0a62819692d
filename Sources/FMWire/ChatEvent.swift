/// What one streamed chat completion says, piece by piece.
public enum ChatEvent: Sendable, Equatable {
  case text(String)
  case reasoning(String)
  case refusal(String)
  case toolCall(ChatToolCallDelta)
  /// The server's word; `ChatFinish` tells what it means. At most once.
  case finish(reason: String)
  /// The counts so far: each replaces the one before. Servers count at the end, with every chunk, or
  /// never.
  case usage(ChatUsage)
}
