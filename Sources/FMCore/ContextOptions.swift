/// What goes into the model's context beside the words of the prompt. A nil member leaves the choice
/// to the library.
public struct ContextOptions: Sendable, Equatable {
  /// Whether the prompt of a guided answer tells the model its schema; nil = it does. A server's
  /// grammar makes the answer valid without it, but the model then writes without knowing what is
  /// wanted.
  public var includeSchemaInPrompt: Bool?

  public init(includeSchemaInPrompt: Bool? = nil) {
    self.includeSchemaInPrompt = includeSchemaInPrompt
  }
}
