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

  /// Reads the `usage` of a completion, in the spellings of OpenAI's two protocols and of DeepSeek.
  /// nil when it holds no count at all.
  init?(_ usage: JSONValue) {
    func count(_ names: [String], in object: JSONValue?) -> Int? {
      for name in names {
        if let count = object?[name]?.intValue, count >= 0 { return count }
      }
      return nil
    }
    let prompt = usage["prompt_tokens_details"] ?? usage["input_tokens_details"]
    let completion = usage["completion_tokens_details"] ?? usage["output_tokens_details"]
    self.init(
      promptTokens: count(["prompt_tokens", "input_tokens"], in: usage),
      completionTokens: count(["completion_tokens", "output_tokens"], in: usage),
      cachedPromptTokens: count(["cached_tokens"], in: prompt)
        ?? count(["prompt_cache_hit_tokens", "cached_tokens"], in: usage),
      reasoningTokens: count(["reasoning_tokens"], in: completion)
        ?? count(["reasoning_tokens"], in: usage))
    if self == ChatUsage() { return nil }
  }

  /// Takes over what a later chunk counts; a count that is missing there stays.
  mutating func update(with newer: ChatUsage) {
    promptTokens = newer.promptTokens ?? promptTokens
    completionTokens = newer.completionTokens ?? completionTokens
    cachedPromptTokens = newer.cachedPromptTokens ?? cachedPromptTokens
    reasoningTokens = newer.reasoningTokens ?? reasoningTokens
  }
}
