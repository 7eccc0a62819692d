/// What one streamed chat completion says, piece by piece.
public enum ChatEvent: Sendable, Equatable {
  case text(String)
  case reasoning(String)
  case refusal(String)
  case finish(reason: String)
  case usage(ChatUsage)
}

/// A server's own token counts; nil where it gave none, never 0 in place of unknown.
public struct ChatUsage: Sendable, Equatable {
  public var promptTokens: Int?
  public var completionTokens: Int?
  public var cachedPromptTokens: Int?
  public var reasoningTokens: Int?
  public init(
    promptTokens: Int? = nil, completionTokens: Int? = nil, cachedPromptTokens: Int? = nil,
    reasoningTokens: Int? = nil
  ) {
    self.promptTokens = promptTokens
    self.completionTokens = completionTokens
    self.cachedPromptTokens = cachedPromptTokens
    self.reasoningTokens = reasoningTokens
  }
}
