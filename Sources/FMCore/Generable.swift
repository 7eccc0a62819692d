import FMWire

/// A type that can be read out of a generated value.
public protocol ConvertibleFromGeneratedContent: SendableMetatype {
  init(_ content: GeneratedContent) throws
}

/// A type that can be written as a generated value, and so into prompts and instructions.
public protocol ConvertibleToGeneratedContent: InstructionsRepresentable, PromptRepresentable {
  var generatedContent: GeneratedContent { get }
}

/// A type that a model can generate.
public protocol Generable: ConvertibleFromGeneratedContent, ConvertibleToGeneratedContent {
  /// What a snapshot of an unfinished response holds.
  associatedtype PartiallyGenerated: ConvertibleFromGeneratedContent = Self
  static var generationSchema: GenerationSchema { get }
}

extension ConvertibleToGeneratedContent {
  /// The value as JSON text.
  public var promptRepresentation: Prompt {
    Prompt(components: [.text(generatedContent.jsonString)])
  }

  public var instructionsRepresentation: Instructions {
    Instructions(components: [.text(generatedContent.jsonString)])
  }
}

extension String: Generable {
  public init(_ content: GeneratedContent) throws {
    guard case .string(let value) = content.json else {
      throw content.mismatch("it is no string")
    }
    self = value
  }
  public var generatedContent: GeneratedContent { GeneratedContent(.string(self)) }
  public static var generationSchema: GenerationSchema {
    GenerationSchema(name: "String", type: "string")
  }
  public var promptRepresentation: Prompt { Prompt(components: [.text(self)]) }
  public var instructionsRepresentation: Instructions { Instructions(components: [.text(self)]) }
}

extension Bool: Generable {
  public init(_ content: GeneratedContent) throws {
    guard case .bool(let value) = content.json else { throw content.mismatch("it is no boolean") }
    self = value
  }
  public var generatedContent: GeneratedContent { GeneratedContent(.bool(self)) }
  public static var generationSchema: GenerationSchema {
    GenerationSchema(name: "Bool", type: "boolean")
  }
}

extension Int: Generable {
  public init(_ content: GeneratedContent) throws {
    guard let value = content.json.intValue else { throw content.mismatch("it is no whole number") }
    self = value
  }
  public var generatedContent: GeneratedContent { GeneratedContent(.number(JSONNumber(self))) }
  public static var generationSchema: GenerationSchema {
    GenerationSchema(name: "Int", type: "integer")
  }
}

extension Double: Generable {
  public init(_ content: GeneratedContent) throws {
    guard let value = content.json.doubleValue else { throw content.mismatch("it is no number") }
    self = value
  }
  public var generatedContent: GeneratedContent {
    GeneratedContent(kind: .number(self))
  }
  public static var generationSchema: GenerationSchema {
    GenerationSchema(name: "Double", type: "number")
  }
}

extension GeneratedContent: Generable {
  public init(_ content: GeneratedContent) throws { self = content }
  public var generatedContent: GeneratedContent { self }
  /// Any JSON value.
  public static var generationSchema: GenerationSchema { GenerationSchema(name: "Any", type: nil) }
}

extension Array: PromptRepresentable where Element: PromptRepresentable {
  public var promptRepresentation: Prompt { PromptBuilder.buildArray(self) }
}

extension Array: InstructionsRepresentable where Element: InstructionsRepresentable {
  public var instructionsRepresentation: Instructions { InstructionsBuilder.buildArray(self) }
}

extension Array: ConvertibleToGeneratedContent where Element: ConvertibleToGeneratedContent {
  public var generatedContent: GeneratedContent {
    GeneratedContent(.array(map(\.generatedContent.json)))
  }
}

extension Array: ConvertibleFromGeneratedContent where Element: ConvertibleFromGeneratedContent {
  public init(_ content: GeneratedContent) throws {
    guard case .array(let elements) = content.json else {
      throw content.mismatch("it is no array")
    }
    self = try elements.map { try Element(GeneratedContent($0, isComplete: content.isComplete)) }
  }
}
