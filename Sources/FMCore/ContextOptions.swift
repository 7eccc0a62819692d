/// What goes into the model's context beside the words of the prompt. A nil member leaves the choice
/// to the library.
public struct ContextOptions: Sendable, Equatable {
  /// Whether the prompt of a guided answer tells the model its schema; nil = it does. A server's
  /// grammar makes the answer valid without it, but the model then writes without knowing what is
  /// wanted.
  public var includeSchemaInPrompt: Bool?
  /// How much the model is to think before it answers; nil = as much as it does by itself. A model
  /// without the capability `.reasoning` refuses the request.
  public var reasoningLevel: ReasoningLevel?

  public init(includeSchemaInPrompt: Bool? = nil, reasoningLevel: ReasoningLevel? = nil) {
    self.includeSchemaInPrompt = includeSchemaInPrompt
    self.reasoningLevel = reasoningLevel
  }

  public enum ReasoningLevel: Sendable, Equatable {
    case light
    case moderate
    case deep
    /// A word of the model's own.
    case custom(String)
  }
}
