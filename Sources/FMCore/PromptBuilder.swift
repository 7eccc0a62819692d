/// Composes a `Prompt` from texts, pictures, other prompts, and control flow.
@resultBuilder
public struct PromptBuilder {
  public static func buildBlock<each P: PromptRepresentable>(_ components: repeat each P) -> Prompt
  {
    var all: [PromptComponent] = []
    for component in repeat each components {
      all += component.promptRepresentation.components
    }
    return Prompt(components: all)
  }

  public static func buildArray(_ prompts: [some PromptRepresentable]) -> Prompt {
    Prompt(components: prompts.flatMap { $0.promptRepresentation.components })
  }

  public static func buildEither(first component: some PromptRepresentable) -> Prompt {
    component.promptRepresentation
  }

  public static func buildEither(second component: some PromptRepresentable) -> Prompt {
    component.promptRepresentation
  }

  public static func buildOptional(_ component: Prompt?) -> Prompt {
    component ?? Prompt(components: [])
  }

  public static func buildLimitedAvailability(_ component: some PromptRepresentable) -> Prompt {
    component.promptRepresentation
  }

  public static func buildExpression<P: PromptRepresentable>(_ expression: P) -> P {
    expression
  }

  public static func buildExpression(_ expression: Prompt) -> Prompt {
    expression
  }
}
