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

extension Generable {
  /// The value as a snapshot of it has it.
  public func asPartiallyGenerated() throws -> PartiallyGenerated {
    try PartiallyGenerated(generatedContent)
  }
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
    GenerationSchema(name: "String", .plain(["type": "string"]))
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
    GenerationSchema(name: "Bool", .plain(["type": "boolean"]))
  }
}

extension Int: Generable {
  public init(_ content: GeneratedContent) throws {
    guard let value = content.json.intValue else { throw content.mismatch("it is no whole number") }
    self = value
  }
  public var generatedContent: GeneratedContent { GeneratedContent(.number(JSONNumber(self))) }
  public static var generationSchema: GenerationSchema {
    GenerationSchema(name: "Int", .plain(["type": "integer"]))
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
    GenerationSchema(name: "Double", .plain(["type": "number"]))
  }
}

extension Float: Generable {
  public init(_ content: GeneratedContent) throws { self = Float(try Double(content)) }
  public var generatedContent: GeneratedContent { Double(self).generatedContent }
  public static var generationSchema: GenerationSchema {
    GenerationSchema(name: "Float", .plain(["type": "number"]))
  }
}

/// The type of which there is no value: its schema allows none.
extension Never: Generable {
  public init(_ content: GeneratedContent) throws {
    throw content.mismatch("no value is of the type Never")
  }
  public var generatedContent: GeneratedContent { switch self {} }
  public static var generationSchema: GenerationSchema {
    GenerationSchema(name: "Never", .plain(false))
  }
}

extension GeneratedContent: Generable {
  public init(_ content: GeneratedContent) throws { self = content }
  public var generatedContent: GeneratedContent { self }
  /// Any JSON value.
  public static var generationSchema: GenerationSchema {
    GenerationSchema(name: "Any", .plain([:]))
  }
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

extension Array: Generable where Element: Generable {
  public typealias PartiallyGenerated = [Element.PartiallyGenerated]
  public static var generationSchema: GenerationSchema {
    GenerationSchema(
      name: "Array<\(Element.generationSchema.name)>",
      .array(.type { Element.generationSchema }))
  }
}

extension Optional where Wrapped: Generable {
  public typealias PartiallyGenerated = Wrapped.PartiallyGenerated
}

extension Optional: PromptRepresentable where Wrapped: ConvertibleToGeneratedContent {
  public var promptRepresentation: Prompt {
    return map(\.promptRepresentation) ?? Prompt(components: [])
  }
}

extension Optional: InstructionsRepresentable where Wrapped: ConvertibleToGeneratedContent {
  public var instructionsRepresentation: Instructions {
    return map(\.instructionsRepresentation) ?? Instructions(components: [])
  }
}

extension Optional: ConvertibleToGeneratedContent where Wrapped: ConvertibleToGeneratedContent {
  /// nil is null.
  public var generatedContent: GeneratedContent {
    map(\.generatedContent) ?? GeneratedContent(.null)
  }
}
