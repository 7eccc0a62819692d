/// What a model is told once, before the first prompt of a session.
public struct Instructions: Sendable, Equatable {
  var components: [PromptComponent]

  init(components: [PromptComponent]) {
    self.components = components
  }

  public init(_ content: some InstructionsRepresentable) {
    self = content.instructionsRepresentation
  }

  public init(@InstructionsBuilder _ content: () throws -> Instructions) rethrows {
    self = try content()
  }
}

/// Anything that can stand in instructions.
public protocol InstructionsRepresentable {
  @InstructionsBuilder var instructionsRepresentation: Instructions { get }
}

extension Instructions: InstructionsRepresentable {
  // The explicit return keeps the builder away, as in Prompt.
  public var instructionsRepresentation: Instructions { return self }
}

/// Composes `Instructions` as `PromptBuilder` composes a `Prompt`.
@resultBuilder
public struct InstructionsBuilder {
  public static func buildBlock<each I: InstructionsRepresentable>(_ components: repeat each I)
    -> Instructions
  {
    var all: [PromptComponent] = []
    for component in repeat each components {
      all += component.instructionsRepresentation.components
    }
    return Instructions(components: all)
  }

  public static func buildArray(_ instructions: [some InstructionsRepresentable]) -> Instructions {
    Instructions(components: instructions.flatMap { $0.instructionsRepresentation.components })
  }

  public static func buildEither(first component: some InstructionsRepresentable) -> Instructions {
    component.instructionsRepresentation
  }

  public static func buildEither(second component: some InstructionsRepresentable) -> Instructions {
    component.instructionsRepresentation
  }

  public static func buildOptional(_ component: Instructions?) -> Instructions {
    component ?? Instructions(components: [])
  }

  public static func buildLimitedAvailability(_ component: some InstructionsRepresentable)
    -> Instructions
  {
    component.instructionsRepresentation
  }

  public static func buildExpression<I: InstructionsRepresentable>(_ expression: I) -> I {
    expression
  }

  public static func buildExpression(_ expression: Instructions) -> Instructions {
    expression
  }
}
