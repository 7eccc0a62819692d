import FMWire

/// Where and why a value is not valid by a schema.
package struct SchemaMismatch: Error, Sendable, Equatable {
  /// A JSONPath such as `$.items[2].name`.
  package var path: String
  package var reason: String
}

/// Checks a value by rules. Costs one walk over the value, more where alternatives are tried.
struct SchemaValidator {
  private enum Step {
    case name(String)
    case index(Int)
  }

  private let rules: [SchemaRules]
  /// Where the walk is; the path is written out only for a mismatch.
  private var steps: [Step] = []
  /// How many more rules may be tried: alternatives of alternatives can double that with each step.
  /// Most answers need far fewer; one that needs more gets `allTrials`.
  private var remainingTrials = firstTrials
  private var isExtended = false
  private var root = JSONValue.null
  private static let firstTrials = 200_000
  /// A few seconds' work.
  private static let mostTrials = 10_000_000
  /// Whether an object's members came in another order than its schema gives.
  private(set) var isOutOfOrder = false

  init(_ table: RuleTable) { rules = table.rules }

  mutating func validate(_ value: JSONValue) throws(SchemaMismatch) {
    begin(value)
    try validate(value, by: 0)
  }

  private mutating func begin(_ value: JSONValue) {
    root = value
    isExtended = false
    remainingTrials = Self.firstTrials
  }

  /// Each rule once for each value: who needs more checks the same again and again.
  private var allTrials: Int {
    let (all, isTooMany) = root.valueCount.multipliedReportingOverflow(by: rules.count)
    return isTooMany ? Self.mostTrials : min(all, Self.mostTrials)
  }

  /// Counts one rule that is tried; false when there were too many.
  private mutating func countTrial() -> Bool {
    remainingTrials -= 1
    if remainingTrials == 0, !isExtended {
      isExtended = true
      remainingTrials = max(0, allTrials - Self.firstTrials)
    }
    return remainingTrials > 0
  }

  private func mismatch(_ reason: String) -> SchemaMismatch {
    var path = "$"
    for step in steps {
      switch step {
      case .index(let index): path += "[\(index)]"
      case .name(let name):
        let isPlain = !name.isEmpty && name.unicodeScalars.allSatisfy(ScalarSet.isNamePart)
        path += isPlain ? "." + name : "[\(quoted(name))]"
      }
    }
    return SchemaMismatch(path: path, reason: reason)
  }

  private mutating func holds(_ value: JSONValue, by index: Int) -> Bool {
    let depth = steps.count
    do throws(SchemaMismatch) {
      try validate(value, by: index)
      return true
    } catch {
      steps.removeLast(steps.count - depth)
      return false
    }
  }

  private mutating func validate(
    _ value: JSONValue, by index: Int
  ) throws(SchemaMismatch) {
    guard countTrial() else { throw mismatch("the schema asks too much of a check") }
    let rules = self.rules[index]
    guard rules.allowsAnything else { throw mismatch("no value is allowed there") }
    if let reference = rules.reference { try validate(value, by: reference) }
    if let types = rules.types, !value.isOf(types) {
      throw mismatch("\(value.typeName) where \(types.names) is asked for")
    }
    if let choices = rules.choices, !choices.contains(where: { $0.isSame(as: value) }) {
      throw mismatch("\(shortened(value.jsonText)) is none of the choices")
    }
    if let constant = rules.constant, !constant.isSame(as: value) {
      throw mismatch("\(shortened(value.jsonText)) is not \(shortened(constant.jsonText))")
    }
    for other in rules.allOf { try validate(value, by: other) }
    if !rules.anyOf.isEmpty { try validate(value, byAny: rules.anyOf) }
    if !rules.oneOf.isEmpty { try validate(value, byOne: rules.oneOf) }
    if let other = rules.not, holds(value, by: other) {
      throw mismatch("\(shortened(value.jsonText)) is what \"not\" excludes")
    }
    if let condition = rules.condition {
      let next = holds(value, by: condition.condition) ? condition.then : condition.otherwise
      if let next { try validate(value, by: next) }
    }
    switch value {
    case .number(let number):
      guard number.isInRange else {
        throw mismatch("\(shortened(number.literal)) is beyond the largest number, about 1.8e308")
      }
      if let rules = rules.number { try validate(number, by: rules) }
    case .string(let text):
      if let rules = rules.string { try validate(text, by: rules) }
    case .array(let elements):
      if let rules = rules.array { try validate(elements, by: rules) }
    case .object(let object):
      if let rules = rules.object { try validate(object, by: rules) }
    case .null, .bool: break
    }
  }

  /// The mismatch of the alternative that went furthest into the value is told: it is the one that
  /// was meant.
  private mutating func validate(
    _ value: JSONValue, byAny alternatives: [Int]
  ) throws(SchemaMismatch) {
    var furthest: SchemaMismatch?
    let depth = steps.count
    for alternative in alternatives {
      do throws(SchemaMismatch) {
        try validate(value, by: alternative)
        return
      } catch {
        steps.removeLast(steps.count - depth)
        if error.path.utf8.count > furthest?.path.utf8.count ?? -1 { furthest = error }
      }
    }
    let here = mismatch("")
    guard let furthest, furthest.path != here.path else {
      throw mismatch("\(shortened(value.jsonText)) fits none of the alternatives")
    }
    throw furthest
  }

  private mutating func validate(
    _ value: JSONValue, byOne alternatives: [Int]
  ) throws(SchemaMismatch) {
    var fitting = 0
    for alternative in alternatives where holds(value, by: alternative) { fitting += 1 }
    if fitting > 1 { throw mismatch("it fits \(fitting) alternatives where one is asked for") }
    // Told as for "anyOf", which says more.
    if fitting == 0 { try validate(value, byAny: alternatives) }
  }

  private func validate(
    _ number: JSONNumber, by rules: SchemaRules.NumberRules
  ) throws(SchemaMismatch) {
    if let bound = rules.minimum, bound.isAbove(number) {
      throw mismatch("\(number.literal) is below \(bound.literal)")
    }
    if let bound = rules.maximum, number.isAbove(bound) {
      throw mismatch("\(number.literal) is above \(bound.literal)")
    }
    if let bound = rules.exclusiveMinimum, !number.isAbove(bound) {
      throw mismatch("\(number.literal) is not above \(bound.literal)")
    }
    if let bound = rules.exclusiveMaximum, !bound.isAbove(number) {
      throw mismatch("\(number.literal) is not below \(bound.literal)")
    }
    if let step = rules.multipleOf, !number.isMultiple(of: step) {
      throw mismatch("\(number.literal) is no multiple of \(step.literal)")
    }
  }

  private func validate(
    _ text: String, by rules: SchemaRules.StringRules
  ) throws(SchemaMismatch) {
    if rules.least != nil || rules.most != nil {
      // JSON Schema counts characters as Unicode code points.
      let count = text.unicodeScalars.count
      if let least = rules.least, count < least {
        throw mismatch("\(count) characters where at least \(least) are asked for")
      }
      if let most = rules.most, count > most {
        throw mismatch("\(count) characters where at most \(most) are asked for")
      }
    }
    if let pattern = rules.pattern, !pattern.matches(text) {
      throw mismatch("\(quoted(shortened(text))) does not match \(quoted(pattern.text))")
    }
  }

  private mutating func validate(
    _ elements: [JSONValue], by rules: SchemaRules.ArrayRules
  ) throws(SchemaMismatch) {
    if let least = rules.least, elements.count < least {
      throw mismatch("\(elements.count) items where at least \(least) are asked for")
    }
    if let most = rules.most, elements.count > most {
      throw mismatch("\(elements.count) items where at most \(most) are asked for")
    }
    if !rules.prefix.isEmpty || rules.items != nil {
      for (index, element) in elements.enumerated() {
        let next = index < rules.prefix.count ? rules.prefix[index] : rules.items
        guard let next else { break }
        steps.append(.index(index))
        try validate(element, by: next)
        steps.removeLast()
      }
    }
    if rules.isUnique {
      var seen: Set<String> = []
      for (index, element) in elements.enumerated() {
        guard seen.insert(element.canonicalText).inserted else {
          throw mismatch("item \(index) is there twice")
        }
      }
    }
    if let contained = rules.contains {
      var count = 0
      for element in elements where holds(element, by: contained) { count += 1 }
      if count < rules.leastContained || count > rules.mostContained ?? .max {
        throw mismatch("\(count) items are of the kind that is to be contained")
      }
    }
  }

  private mutating func validate(
    _ object: JSONObject, by rules: SchemaRules.ObjectRules
  ) throws(SchemaMismatch) {
    let members = object.members
    if let least = rules.least, members.count < least {
      throw mismatch("\(members.count) properties where at least \(least) are asked for")
    }
    if let most = rules.most, members.count > most {
      throw mismatch("\(members.count) properties where at most \(most) are asked for")
    }
    if !rules.required.isEmpty || !rules.dependencies.isEmpty {
      let has = object.membershipTest()
      for name in rules.required where !has(name) {
        throw mismatch("the property \(quoted(name)) is missing")
      }
      for (name, needs) in rules.dependencies where has(name) {
        for need in needs where !has(need) {
          throw mismatch("the property \(quoted(need)) is missing, which \(quoted(name)) needs")
        }
      }
    }
    var last = -1
    for (name, value) in members {
      if !rules.order.isEmpty, let place = rules.order[name] {
        if place < last { isOutOfOrder = true }
        last = place
      }
      if let names = rules.names {
        do throws(SchemaMismatch) {
          try validate(.string(name), by: names)
        } catch {
          throw SchemaMismatch(
            path: error.path, reason: "of the property's name: \(error.reason)")
        }
      }
      var isKnown = false
      steps.append(.name(name))
      if let property = rules.properties[name] {
        isKnown = true
        try validate(value, by: property)
      }
      for (pattern, property) in rules.patterns where pattern.matches(name) {
        isKnown = true
        try validate(value, by: property)
      }
      if !isKnown, let additional = rules.additional {
        if !self.rules[additional].allowsAnything {
          steps.removeLast()
          throw mismatch("the property \(quoted(name)) is not in the schema")
        }
        try validate(value, by: additional)
      }
      steps.removeLast()
    }
  }
}

// MARK: - Nulls for what is missing

extension SchemaValidator {
  /// The value without the nulls that stand for missing properties: a server that wants every
  /// property to be there is asked for null in their place.
  mutating func withoutNulls(_ value: JSONValue) -> JSONValue {
    begin(value)
    return withoutNulls(value, by: 0)
  }

  private mutating func withoutNulls(_ value: JSONValue, by index: Int) -> JSONValue {
    let rules = self.rules[index]
    var value = value
    if let reference = rules.reference { value = withoutNulls(value, by: reference) }
    for other in rules.allOf { value = withoutNulls(value, by: other) }
    for other in rules.anyOf + rules.oneOf {
      let candidate = withoutNulls(value, by: other)
      if holds(candidate, by: other) { return candidate }
    }
    switch value {
    case .array(let elements):
      guard let items = rules.array?.items else { return value }
      return .array(elements.map { withoutNulls($0, by: items) })
    case .object(let object):
      guard let all = rules.object else { return value }
      var kept = JSONObject()
      for (name, member) in object.members {
        guard let property = all.properties[name] ?? all.additional else {
          kept.members.append((name: name, value: member))
          continue
        }
        if member.isNull, !all.required.contains(name), !holds(.null, by: property) { continue }
        kept.members.append((name: name, value: withoutNulls(member, by: property)))
      }
      return .object(kept)
    default: return value
    }
  }
}

// MARK: - In the schema's order

extension SchemaValidator {
  /// The value, valid by the rules, with its members in the order that they give.
  mutating func ordered(_ value: JSONValue) -> JSONValue {
    begin(value)
    return ordered(value, by: 0)
  }

  private mutating func ordered(_ value: JSONValue, by index: Int) -> JSONValue {
    let rules = self.rules[index]
    var value = value
    if let reference = rules.reference { value = ordered(value, by: reference) }
    for other in rules.allOf { value = ordered(value, by: other) }
    if let other = (rules.anyOf + rules.oneOf).first(where: { holds(value, by: $0) }) {
      value = ordered(value, by: other)
    }
    switch value {
    case .array(var elements):
      guard let all = rules.array else { return value }
      for index in elements.indices {
        guard let next = index < all.prefix.count ? all.prefix[index] : all.items else { break }
        elements[index] = ordered(elements[index], by: next)
      }
      return .array(elements)
    case .object(var object):
      guard let all = rules.object else { return value }
      for index in object.members.indices {
        let name = object.members[index].name
        guard let next = all.properties[name] ?? all.additional else { continue }
        object.members[index].value = ordered(object.members[index].value, by: next)
      }
      if !all.order.isEmpty {
        // What the order does not name comes after, as it came.
        let places = object.members.enumerated().map { index, member in
          (all.order[member.name] ?? all.order.count + index, member)
        }
        object.members = places.sorted { $0.0 < $1.0 }.map(\.1)
      }
      return .object(object)
    default: return value
    }
  }
}

extension ScalarSet {
  fileprivate static func isNamePart(_ scalar: Unicode.Scalar) -> Bool {
    word.contains(scalar.value) || scalar.value > 0x7F
  }
}

extension SchemaRules.Types {
  fileprivate var names: String {
    let all: [(SchemaRules.Types, String)] = [
      (.null, "null"), (.boolean, "boolean"), (.number, "number"), (.string, "string"),
      (.array, "array"), (.object, "object"),
    ]
    var names = all.filter { contains($0.0) }.map(\.1)
    if contains(.integer) && !contains(.number) { names.insert("integer", at: 0) }
    return names.joined(separator: " or ")
  }
}

extension JSONObject {
  /// Answers whether a name is there; by hash where there are many members.
  fileprivate func membershipTest() -> (String) -> Bool {
    if members.count <= 8 { return { self[$0] != nil } }
    let names = Set(members.map(\.name))
    return { names.contains($0) }
  }
}

extension JSONValue {
  /// Itself and all values in it.
  fileprivate var valueCount: Int {
    switch self {
    case .array(let elements): elements.reduce(1) { $0 + $1.valueCount }
    case .object(let object): object.members.reduce(1) { $0 + $1.value.valueCount }
    default: 1
    }
  }

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

  fileprivate func isOf(_ types: SchemaRules.Types) -> Bool {
    switch self {
    case .null: types.contains(.null)
    case .bool: types.contains(.boolean)
    case .number(let number):
      types.contains(.number) || types.contains(.integer) && number.isWhole
    case .string: types.contains(.string)
    case .array: types.contains(.array)
    case .object: types.contains(.object)
    }
  }

  /// Equality as JSON Schema has it: numbers by value, so that 1 is 1.0.
  func isSame(as other: JSONValue) -> Bool {
    switch (self, other) {
    case (.number(let left), .number(let right)):
      left.literal == right.literal || !left.isAbove(right) && !right.isAbove(left)
    case (.array(let left), .array(let right)):
      left.count == right.count && zip(left, right).allSatisfy { $0.isSame(as: $1) }
    case (.object(let left), .object(let right)):
      left.members.count == right.members.count
        && left.members.allSatisfy { member in
          right[member.name].map { member.value.isSame(as: $0) } ?? false
        }
    default: self == other
    }
  }

  /// A text that two values share exactly when they are the same.
  fileprivate var canonicalText: String {
    switch self {
    case .number(let number): number.canonicalLiteral
    case .array(let elements):
      "[" + elements.map(\.canonicalText).joined(separator: ",") + "]"
    case .object(let object):
      "{"
        + object.members.map { JSONValue.string($0.name).jsonText + ":" + $0.value.canonicalText }
        .sorted().joined(separator: ",") + "}"
    default: jsonText
    }
  }
}
