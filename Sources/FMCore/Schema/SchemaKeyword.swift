/// The keywords of JSON Schema that are checked here, and those that say nothing of a value.
enum SchemaKeyword: String, CaseIterable {
  case type
  case `enum`
  case const
  case allOf, anyOf, oneOf, not
  case `if`, then, `else`
  case ref = "$ref"
  case defs = "$defs"
  case definitions
  case id = "$id"
  case minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf
  case minLength, maxLength, pattern
  case items, prefixItems, minItems, maxItems, uniqueItems, contains, minContains, maxContains
  case properties, required, additionalProperties, patternProperties, propertyNames, minProperties
  case maxProperties, dependentRequired
  case order = "x-order"
  // Annotations.
  case title, description, `default`, examples, format, deprecated, readOnly, writeOnly
  case contentEncoding, contentMediaType, contentSchema, discriminator
  case schema = "$schema"
  case comment = "$comment"

  private static let byName = Dictionary(
    uniqueKeysWithValues: allCases.map { ($0.rawValue, $0) })

  /// The keyword of that name, by one look-up: `init(rawValue:)` compares with one after the other.
  static func named(_ name: String) -> SchemaKeyword? { byName[name] }
}
