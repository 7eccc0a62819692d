import FMWire

/// A value that a model generated, or that stands for one: JSON with its members in order.
public struct GeneratedContent: Sendable {
  /// nil unless the value came out of a generation.
  public var id: GenerationID?
  let json: JSONValue
  public let isComplete: Bool

  package init(_ json: JSONValue, id: GenerationID? = nil, isComplete: Bool = true) {
    self.json = json
    self.id = id
    self.isComplete = isComplete
  }

  public init(_ value: some ConvertibleToGeneratedContent) {
    self = value.generatedContent
  }

  public init(_ value: some ConvertibleToGeneratedContent, id: GenerationID) {
    self = value.generatedContent
    self.id = id
  }

  /// JSON text; one that is cut off gives what is certain of it, with `isComplete` false.
  ///
  /// - Throws: `ParsingError` for a text that is no JSON.
  public init(json text: String) throws {
    do {
      self.init(try JSONValue(parsing: text))
    } catch {
      // Only what ends too early can be unfinished.
      if error.offset == text.utf8.count,
        let unfinished = GeneratedContent(unfinishedJSON: text)
      {
        self = unfinished
        return
      }
      throw ParsingError(
        rawContent: text, underlyingError: error,
        debugDescription: "The text is no JSON: \(error.message) at byte \(error.offset).")
    }
  }

  /// An object with those properties, in that order; the last of a name counts.
  public init(
    properties: KeyValuePairs<String, any ConvertibleToGeneratedContent>, id: GenerationID? = nil
  ) {
    self.init(
      properties: properties.map { ($0.key, $0.value) }, id: id,
      uniquingKeysWith: { _, new in new })
  }

  public init<Properties: Sequence>(
    properties: Properties, id: GenerationID? = nil,
    uniquingKeysWith combine: (GeneratedContent, GeneratedContent) throws ->
      some ConvertibleToGeneratedContent
  ) rethrows where Properties.Element == (String, any ConvertibleToGeneratedContent) {
    var object = JSONObject()
    for (name, value) in properties {
      var content = value.generatedContent
      if let old = object[name] {
        content = try combine(GeneratedContent(old), content).generatedContent
      }
      object[name] = content.json
    }
    self.init(.object(object), id: id)
  }

  /// An array.
  public init<Elements: Sequence>(elements: Elements, id: GenerationID? = nil)
  where Elements.Element == any ConvertibleToGeneratedContent {
    self.init(.array(elements.map(\.generatedContent.json)), id: id)
  }

  public init(kind: Kind, id: GenerationID? = nil) {
    self.init(kind.json, id: id)
  }

  public var kind: Kind { Kind(json) }

  /// Compact JSON text, members in order.
  public var jsonString: String { json.jsonText }

  package var jsonValue: JSONValue { json }

  public func value<Value: ConvertibleFromGeneratedContent>(_ type: Value.Type = Value.self) throws
    -> Value
  {
    try Value(self)
  }

  /// - Throws: `ParsingError` when the property is missing or of another type.
  public func value<Value: ConvertibleFromGeneratedContent>(
    _ type: Value.Type = Value.self, forProperty name: String
  ) throws -> Value {
    guard let member = try property(name) else {
      throw mismatch("it has no property \(quoted(name))")
    }
    return try Value(GeneratedContent(member, isComplete: isComplete))
  }

  /// nil when the property is absent or null.
  public func value<Value: ConvertibleFromGeneratedContent>(
    _ type: Value?.Type = Value?.self, forProperty name: String
  ) throws -> Value? {
    guard let member = try property(name), !member.isNull else { return nil }
    return try Value(GeneratedContent(member, isComplete: isComplete))
  }

  private func property(_ name: String) throws -> JSONValue? {
    guard let object = json.objectValue else { throw mismatch("it is no object") }
    return object[name]
  }

  func mismatch(_ reason: String) -> ParsingError {
    ParsingError(
      rawContent: jsonString,
      debugDescription: "The content cannot be read as asked: \(reason).")
  }

  public enum Kind: Equatable, Sendable {
    case null
    case bool(Bool)
    case number(Double)
    case string(String)
    case array([GeneratedContent])
    case structure(properties: [String: GeneratedContent], orderedKeys: [String])

    init(_ json: JSONValue) {
      switch json {
      case .null: self = .null
      case .bool(let value): self = .bool(value)
      case .number(let value): self = .number(value.doubleValue)
      case .string(let value): self = .string(value)
      case .array(let elements): self = .array(elements.map { GeneratedContent($0) })
      case .object(let object):
        var properties: [String: GeneratedContent] = [:]
        var keys: [String] = []
        for member in object.members {
          if properties.updateValue(GeneratedContent(member.value), forKey: member.name) == nil {
            keys.append(member.name)
          }
        }
        self = .structure(properties: properties, orderedKeys: keys)
      }
    }

    var json: JSONValue {
      switch self {
      case .null: return .null
      case .bool(let value): return .bool(value)
      // JSON cannot write NaN and the infinities; null is what JavaScript writes for them.
      case .number(let value): return JSONNumber(value).map(JSONValue.number) ?? .null
      case .string(let value): return .string(value)
      case .array(let elements): return .array(elements.map(\.json))
      case .structure(let properties, let keys):
        return .object(
          JSONObject(keys.compactMap { key in properties[key].map { (key, $0.json) } }))
      }
    }
  }

  /// A content that does not parse, or not as the type asked for.
  public struct ParsingError: Error, Sendable {
    public var rawContent: String
    public var underlyingError: (any Error)?
    public var debugDescription: String

    public init(
      rawContent: String, underlyingError: (any Error)? = nil, debugDescription: String
    ) {
      self.rawContent = rawContent
      self.underlyingError = underlyingError
      self.debugDescription = debugDescription
    }
  }
}

extension GeneratedContent: Equatable {
  /// Equal when the values are; the ids are not compared.
  public static func == (left: GeneratedContent, right: GeneratedContent) -> Bool {
    left.json == right.json && left.isComplete == right.isComplete
  }
}

extension GeneratedContent: CustomDebugStringConvertible {
  public var debugDescription: String { jsonString }
}
