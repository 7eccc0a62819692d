import FMWire

/// What one schema or subschema demands, ready to be checked: its keywords with references resolved,
/// patterns compiled and names looked up by hash. Other rules are named by index into a `RuleTable`.
struct SchemaRules: Sendable {
  struct Types: OptionSet, Sendable {
    let rawValue: UInt8
    static let null = Types(rawValue: 1)
    static let boolean = Types(rawValue: 2)
    /// Whole numbers only.
    static let integer = Types(rawValue: 4)
    static let number = Types(rawValue: 8)
    static let string = Types(rawValue: 16)
    static let array = Types(rawValue: 32)
    static let object = Types(rawValue: 64)
  }

  struct Condition: Sendable {
    var condition: Int
    var then: Int?
    var otherwise: Int?
  }

  struct NumberRules: Sendable {
    var minimum: JSONNumber?
    var maximum: JSONNumber?
    var exclusiveMinimum: JSONNumber?
    var exclusiveMaximum: JSONNumber?
    var multipleOf: JSONNumber?
  }

  struct StringRules: Sendable {
    var least: Int?
    var most: Int?
    var pattern: Pattern?
  }

  struct ArrayRules: Sendable {
    var least: Int?
    var most: Int?
    var isUnique = false
    var prefix: [Int] = []
    var items: Int?
    var contains: Int?
    var leastContained = 1
    var mostContained: Int?
  }

  struct ObjectRules: Sendable {
    var properties: [String: Int] = [:]
    var required: [String] = []
    var patterns: [(pattern: Pattern, rules: Int)] = []
    var additional: Int?
    var names: Int?
    var least: Int?
    var most: Int?
    var dependencies: [(name: String, needs: [String])] = []
    /// The order that `x-order` gives the members.
    var order: [String: Int] = [:]
  }

  /// What `true` and `false` say as schemas.
  var allowsAnything = true
  var reference: Int?
  var types: Types?
  var choices: [JSONValue]?
  var constant: JSONValue?
  var allOf: [Int] = []
  var anyOf: [Int] = []
  var oneOf: [Int] = []
  var not: Int?
  var condition: Condition?
  var number: NumberRules?
  var string: StringRules?
  var array: ArrayRules?
  var object: ObjectRules?

  /// Whether all other rules that the same value is checked by have a property. Most have none.
  func allOfTheSameValue(_ holds: (Int) -> Bool) -> Bool {
    func has(_ other: Int?) -> Bool { other.map(holds) ?? true }
    return has(reference) && has(not) && has(condition?.condition) && has(condition?.then)
      && has(condition?.otherwise) && allOf.allSatisfy(holds) && anyOf.allSatisfy(holds)
      && oneOf.allSatisfy(holds)
  }
}

/// The rules of a whole schema; the first are the root's.
struct RuleTable: Sendable {
  var rules: [SchemaRules] = []
  /// Whether any object's members have an order.
  var hasOrder = false
}
