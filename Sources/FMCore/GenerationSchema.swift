import FMWire

/// The JSON Schema that an answer must be valid by.
///
/// Keywords understood: `type` (a name or a list), `enum`, `const`, `properties`, `required`,
/// `additionalProperties` (a boolean), `items`, `minItems`, `maxItems`, `minimum`, `maximum`,
/// `exclusiveMinimum`, `exclusiveMaximum`, `minLength`, `maxLength`, `anyOf`, and `$ref` to `#` or
/// into `$defs`. `title`, `description`, `default`, `examples`, `$schema` and `x-order` constrain
/// nothing. Any other keyword is refused rather than ignored: an answer said to be valid is valid.
/// Source: JSON Schema 2020-12, core and validation vocabularies.
public struct GenerationSchema: Sendable, Equatable {
  /// The schema's title, or "answer".
  public var name: String
  package let json: JSONValue

  /// - Throws: `SchemaError` for a text that is no JSON Schema of the keywords above.
  public init(json text: String) throws(SchemaError) {
    let value: JSONValue
    do {
      value = try JSONValue(parsing: text)
    } catch {
      throw SchemaError(
        isUnsupported: false,
        message: "The schema is no JSON: \(error.message) at byte \(error.offset).")
    }
    try SchemaChecker(root: value).check(value, at: "#", depth: 0)
    json = value
    name = value["title"]?.stringValue ?? "answer"
  }

  /// A schema of one type; nil allows any value.
  init(name: String, type: String?) {
    self.name = name
    json = .object(JSONObject(type.map { [("type", .string($0))] } ?? []))
  }

  /// Throws the first way in which a value is not valid.
  package func validate(_ value: JSONValue) throws(SchemaMismatch) {
    try SchemaValidator(root: json).validate(value, by: json, at: "$", depth: 0)
  }
}

/// What is wrong with a schema.
public struct SchemaError: Error, Sendable, Equatable {
  /// True for a good schema with a keyword that is not supported, false for a bad one.
  public var isUnsupported: Bool
  public var message: String
}

/// Where and why a value is not valid by a schema.
package struct SchemaMismatch: Error, Sendable, Equatable {
  /// A JSONPath such as `$.items[2].name`.
  package var path: String
  package var reason: String
}

private let maximumDepth = 128

/// Checks that a schema says only what the validator can check.
private struct SchemaChecker {
  let root: JSONValue

  private static let typeNames: Set<String> = [
    "null", "boolean", "integer", "number", "string", "array", "object",
  ]
  private static let annotations: Set<String> = [
    "title", "description", "default", "examples", "$schema", "x-order", "$comment",
  ]

  func check(_ schema: JSONValue, at path: String, depth: Int) throws(SchemaError) {
    guard depth < maximumDepth else { throw bad(path, "it is nested too deeply") }
    if case .bool = schema { return }
    guard let object = schema.objectValue else {
      throw bad(path, "a schema is an object or a boolean")
    }
    for (keyword, value) in object.members {
      try check(keyword: keyword, value, at: "\(path)/\(keyword)", depth: depth)
    }
    if let low = object["minimum"]?.doubleValue, let high = object["maximum"]?.doubleValue,
      low > high
    {
      throw bad(path, "minimum is above maximum")
    }
    for (low, high) in [("minItems", "maxItems"), ("minLength", "maxLength")] {
      if let low = object[low]?.intValue, let high = object[high]?.intValue, low > high {
        throw bad(path, "a lower bound (\(low)) is above its upper bound (\(high))")
      }
    }
  }

  private func check(
    keyword: String, _ value: JSONValue, at path: String, depth: Int
  ) throws(SchemaError) {
    switch keyword {
    case "type":
      let names = value.stringValue.map { [JSONValue.string($0)] } ?? value.arrayValue ?? []
      let isKnown = names.allSatisfy { $0.stringValue.map(Self.typeNames.contains) == true }
      guard !names.isEmpty, isKnown else { throw bad(path, "no JSON Schema type") }
    case "enum":
      guard let choices = value.arrayValue, !choices.isEmpty else {
        throw bad(path, "an enum is a list of at least one value")
      }
    case "const": break
    case "properties", "$defs":
      guard let members = value.objectValue else { throw bad(path, "it is no object") }
      for (name, schema) in members.members {
        try check(schema, at: "\(path)/\(name)", depth: depth + 1)
      }
    case "required":
      guard let names = value.arrayValue, names.allSatisfy({ $0.stringValue != nil }) else {
        throw bad(path, "it is a list of names")
      }
    case "additionalProperties":
      guard value.boolValue != nil else {
        throw unsupported(path, "only true and false are supported")
      }
    case "items":
      try check(value, at: path, depth: depth + 1)
    case "anyOf":
      guard let schemas = value.arrayValue, !schemas.isEmpty else {
        throw bad(path, "anyOf is a list of at least one schema")
      }
      for (index, schema) in schemas.enumerated() {
        try check(schema, at: "\(path)/\(index)", depth: depth + 1)
      }
    case "minItems", "maxItems", "minLength", "maxLength":
      guard let count = value.intValue, count >= 0 else {
        throw bad(path, "it is a whole number of at least 0")
      }
    case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
      guard value.doubleValue != nil else { throw bad(path, "it is a number") }
    case "$ref":
      guard let reference = value.stringValue else { throw bad(path, "it is a string") }
      guard resolve(reference, in: root) != nil else {
        throw bad(path, "\(quoted(reference)) names no schema in $defs")
      }
    case _ where Self.annotations.contains(keyword): break
    default:
      throw unsupported(path, "the keyword \(quoted(keyword)) is not supported yet")
    }
  }

  private func bad(_ path: String, _ reason: String) -> SchemaError {
    SchemaError(isUnsupported: false, message: "The schema is wrong at \(path): \(reason).")
  }

  private func unsupported(_ path: String, _ reason: String) -> SchemaError {
    SchemaError(isUnsupported: true, message: "The schema asks too much at \(path): \(reason).")
  }
}

/// The schema that `#` or `#/$defs/NAME` names.
private func resolve(_ reference: String, in root: JSONValue) -> JSONValue? {
  if reference == "#" { return root }
  let prefix = "#/$defs/"
  guard reference.hasPrefix(prefix) else { return nil }
  return root["$defs"]?[String(reference.dropFirst(prefix.count))]
}

private struct SchemaValidator {
  let root: JSONValue

  func validate(
    _ value: JSONValue, by schema: JSONValue, at path: String, depth: Int
  ) throws(SchemaMismatch) {
    func fail(_ reason: String) -> SchemaMismatch { SchemaMismatch(path: path, reason: reason) }
    // A schema that only refers to itself would otherwise never end.
    guard depth < maximumDepth else { throw fail("it is nested too deeply") }
    if case .bool(let allows) = schema {
      guard allows else { throw fail("no value is allowed there") }
      return
    }
    guard let rules = schema.objectValue else { return }

    if let reference = rules["$ref"]?.stringValue, let target = resolve(reference, in: root) {
      try validate(value, by: target, at: path, depth: depth + 1)
    }
    if let type = rules["type"] {
      let names = type.stringValue.map { [$0] } ?? type.arrayValue?.compactMap(\.stringValue) ?? []
      guard names.contains(where: { value.isOfType($0) }) else {
        throw fail("\(value.typeName) where \(names.joined(separator: " or ")) is asked for")
      }
    }
    if let choices = rules["enum"]?.arrayValue, !choices.contains(where: { $0.isSame(as: value) }) {
      throw fail("\(shortened(value.jsonText)) is none of the choices")
    }
    if let constant = rules["const"], !constant.isSame(as: value) {
      throw fail("\(shortened(value.jsonText)) is not \(shortened(constant.jsonText))")
    }
    if let schemas = rules["anyOf"]?.arrayValue {
      let fits = schemas.contains { candidate in
        do throws(SchemaMismatch) {
          try validate(value, by: candidate, at: path, depth: depth + 1)
          return true
        } catch {
          return false
        }
      }
      guard fits else { throw fail("it fits none of the alternatives") }
    }
    switch value {
    case .number(let number): try validate(number.doubleValue, by: rules, fail: fail)
    case .string(let text):
      // JSON Schema counts characters as Unicode code points.
      let count = text.unicodeScalars.count
      if let least = rules["minLength"]?.intValue, count < least {
        throw fail("\(count) characters where at least \(least) are asked for")
      }
      if let most = rules["maxLength"]?.intValue, count > most {
        throw fail("\(count) characters where at most \(most) are asked for")
      }
    case .array(let elements):
      if let least = rules["minItems"]?.intValue, elements.count < least {
        throw fail("\(elements.count) items where at least \(least) are asked for")
      }
      if let most = rules["maxItems"]?.intValue, elements.count > most {
        throw fail("\(elements.count) items where at most \(most) are asked for")
      }
      if let items = rules["items"] {
        for (index, element) in elements.enumerated() {
          try validate(element, by: items, at: "\(path)[\(index)]", depth: depth + 1)
        }
      }
    case .object(let object):
      try validate(object, by: rules, at: path, depth: depth, fail: fail)
    case .null, .bool: break
    }
  }

  private func validate(
    _ number: Double, by rules: JSONObject, fail: (String) -> SchemaMismatch
  ) throws(SchemaMismatch) {
    if let bound = rules["minimum"]?.doubleValue, number < bound {
      throw fail("\(number) is below \(bound)")
    }
    if let bound = rules["maximum"]?.doubleValue, number > bound {
      throw fail("\(number) is above \(bound)")
    }
    if let bound = rules["exclusiveMinimum"]?.doubleValue, number <= bound {
      throw fail("\(number) is not above \(bound)")
    }
    if let bound = rules["exclusiveMaximum"]?.doubleValue, number >= bound {
      throw fail("\(number) is not below \(bound)")
    }
  }

  private func validate(
    _ object: JSONObject, by rules: JSONObject, at path: String, depth: Int,
    fail: (String) -> SchemaMismatch
  ) throws(SchemaMismatch) {
    for case .string(let name) in rules["required"]?.arrayValue ?? [] where object[name] == nil {
      throw fail("the property \(quoted(name)) is missing")
    }
    let properties = rules["properties"]?.objectValue ?? JSONObject()
    let isClosed = rules["additionalProperties"]?.boolValue == false
    for (name, value) in object.members {
      if let schema = properties[name] {
        try validate(value, by: schema, at: "\(path).\(name)", depth: depth + 1)
      } else if isClosed {
        throw fail("the property \(quoted(name)) is not in the schema")
      }
    }
  }
}

/// At most 80 characters of a text, for messages.
package func shortened(_ text: String, to limit: Int = 80) -> String {
  text.count <= limit ? text : text.prefix(limit) + "…"
}

extension JSONValue {
  fileprivate var typeName: String {
    switch self {
    case .null: "null"
    case .bool: "boolean"
    case .number: "number"
    case .string: "string"
    case .array: "array"
    case .object: "object"
    }
  }

  fileprivate func isOfType(_ name: String) -> Bool {
    if case .number(let number) = self, name == "integer" {
      return number.doubleValue.rounded() == number.doubleValue
    }
    return typeName == name
  }

  /// Equality as JSON Schema has it: numbers by value, so that 1 is 1.0.
  fileprivate func isSame(as other: JSONValue) -> Bool {
    switch (self, other) {
    case (.number(let left), .number(let right)):
      return left.literal == right.literal || left.doubleValue == right.doubleValue
    case (.array(let left), .array(let right)):
      return left.count == right.count && zip(left, right).allSatisfy { $0.isSame(as: $1) }
    case (.object(let left), .object(let right)):
      return left.members.count == right.members.count
        && left.members.allSatisfy { member in
          right[member.name].map { member.value.isSame(as: $0) } ?? false
        }
    default:
      return self == other
    }
  }
}
