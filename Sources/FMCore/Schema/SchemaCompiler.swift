import FMWire

/// Turns a JSON Schema into rules, and refuses what could not be checked.
struct SchemaCompiler {
  typealias SchemaError = GenerationSchema.SchemaError

  private let root: JSONValue
  private let name: String
  private var table = RuleTable()
  /// The rules of what a reference has named, by its JSON pointer.
  private var referenced: [String: Int] = [:]
  private var unresolved: [(reference: String, index: Int)] = []
  private var depth = 0

  private static let maximumDepth = 128

  private init(root: JSONValue, name: String) {
    self.root = root
    self.name = name
  }

  static func compile(_ root: JSONValue, name: String) throws(SchemaError) -> RuleTable {
    var compiler = SchemaCompiler(root: root, name: name)
    compiler.referenced["#"] = 0
    _ = try compiler.compile(root, at: "#")
    // What is referred to may refer to more.
    while let (reference, index) = compiler.unresolved.popLast() {
      if let known = compiler.referenced[reference] {
        compiler.table.rules[index].reference = known
        continue
      }
      guard let target = root.target(of: reference) else {
        throw .undefinedReferences(
          schema: name, references: [reference],
          context: .init(
            debugDescription: "The schema refers to \(quoted(reference)), which is not in it;"
              + " define it in $defs."))
      }
      let compiled = try compiler.compile(target, at: reference)
      compiler.referenced[reference] = compiled
      compiler.table.rules[index].reference = compiled
    }
    try compiler.refuseCircles()
    return compiler.table
  }

  /// - Parameter path: put together where something is wrong, and for what references name.
  private mutating func compile(
    _ schema: JSONValue, at path: @autoclosure () -> String
  ) throws(SchemaError) -> Int {
    depth += 1
    defer { depth -= 1 }
    guard depth <= Self.maximumDepth else { throw bad(path(), "it is nested too deeply") }
    let index = table.rules.count
    table.rules.append(SchemaRules())
    if case .bool(let allows) = schema {
      table.rules[index].allowsAnything = allows
      return index
    }
    guard let object = schema.objectValue else {
      throw bad(path(), "a schema is an object or a boolean")
    }
    var rules = SchemaRules()
    var order: [String]?
    for (name, value) in object.members {
      guard let keyword = SchemaKeyword.named(name) else {
        if name.hasPrefix("x-") { continue }
        throw unsupported("\(path())/\(name)", "the keyword \(quoted(name)) cannot be checked here")
      }
      switch keyword {
      case .order: order = try texts(value, "\(path())/\(name)")
      case .ref:
        guard let reference = value.stringValue else {
          throw bad("\(path())/\(name)", "it is a string")
        }
        unresolved.append((reference, index))
      default: try read(keyword, value, of: object, into: &rules, in: path(), isRoot: index == 0)
      }
    }
    if let order {
      // An order says how members are written; one that names what is not there says nothing of it.
      var places = [String: Int](minimumCapacity: order.count)
      for (place, name) in order.enumerated() {
        guard places.updateValue(place, forKey: name) == nil else {
          throw bad("\(path())/x-order", "it names \(quoted(name)) twice")
        }
      }
      if rules.object == nil { rules.object = .init() }
      rules.object?.order = places
      table.hasOrder = true
    }
    try checkBounds(rules, at: path())
    table.rules[index] = rules
    return index
  }

  private mutating func read(
    _ keyword: SchemaKeyword, _ value: JSONValue, of schema: JSONObject,
    into rules: inout SchemaRules, in parent: @autoclosure () -> String, isRoot: Bool
  ) throws(SchemaError) {
    var path: String { "\(parent())/\(keyword.rawValue)" }
    switch keyword {
    case .type: rules.types = try types(value, path)
    case .enum:
      guard let choices = value.arrayValue else { throw bad(path, "an enum is a list of values") }
      guard !choices.isEmpty else {
        throw .emptyTypeChoices(
          schema: name,
          context: .init(
            debugDescription: "The schema is wrong at \(path): an enum without a value allows"
              + " nothing."))
      }
      rules.choices = choices
    case .const: rules.constant = value
    case .allOf: rules.allOf = try compileList(value, at: path)
    case .anyOf: rules.anyOf = try compileList(value, at: path)
    case .oneOf: rules.oneOf = try compileList(value, at: path)
    case .not: rules.not = try compile(value, at: path)
    case .if:
      let condition = try compile(value, at: path)
      let then = try schema["then"].map { then throws(SchemaError) in
        try compile(then, at: "\(parent())/then")
      }
      let otherwise = try schema["else"].map { otherwise throws(SchemaError) in
        try compile(otherwise, at: "\(parent())/else")
      }
      rules.condition = .init(condition: condition, then: then, otherwise: otherwise)
    case .then, .else:
      // Without an `if` they say nothing, by the standard; they are read with it.
      break
    case .defs, .definitions:
      guard let members = value.objectValue else { throw bad(path, "it is an object of schemas") }
      // Compiled whether used or not: a mistake is found when the schema is made.
      for (name, schema) in members.members {
        let reference = "\(isRoot ? "#/" + keyword.rawValue : path)/\(escapedPointer(name))"
        guard referenced[reference] == nil else { continue }
        referenced[reference] = try compile(schema, at: reference)
      }
    case .id:
      guard isRoot else { throw unsupported(path, "$id is supported at the root only") }
    case .minimum, .maximum, .exclusiveMinimum, .exclusiveMaximum, .multipleOf:
      try readNumber(keyword, value, into: &rules, at: path)
    case .minLength, .maxLength, .pattern:
      try readString(keyword, value, into: &rules, at: path)
    case .items, .prefixItems, .minItems, .maxItems, .uniqueItems, .contains, .minContains,
      .maxContains:
      try readArray(keyword, value, into: &rules, at: path)
    case .properties, .required, .additionalProperties, .patternProperties, .propertyNames,
      .minProperties, .maxProperties, .dependentRequired:
      try readObject(keyword, value, into: &rules, at: path)
    case .title, .description, .default, .examples, .format, .deprecated, .readOnly, .writeOnly,
      .contentEncoding, .contentMediaType, .contentSchema, .discriminator, .schema, .comment:
      break
    case .ref, .order: preconditionFailure("read where the schema is walked over")
    }
  }

  private mutating func compileList(
    _ value: JSONValue, at path: String
  ) throws(SchemaError) -> [Int] {
    guard let schemas = value.arrayValue else { throw bad(path, "it is a list of schemas") }
    guard !schemas.isEmpty else {
      throw .emptyTypeChoices(
        schema: name,
        context: .init(
          debugDescription: "The schema is wrong at \(path): the list holds no schema."))
    }
    var indices: [Int] = []
    for (index, schema) in schemas.enumerated() {
      indices.append(try compile(schema, at: "\(path)/\(index)"))
    }
    return indices
  }

  private func types(_ value: JSONValue, _ path: @autoclosure () -> String) throws(SchemaError)
    -> SchemaRules.Types
  {
    var types: SchemaRules.Types = []
    let names = value.stringValue.map { [JSONValue.string($0)] } ?? value.arrayValue ?? []
    for name in names {
      switch name.stringValue {
      case "null": types.insert(.null)
      case "boolean": types.insert(.boolean)
      case "integer": types.insert(.integer)
      case "number": types.formUnion([.number, .integer])
      case "string": types.insert(.string)
      case "array": types.insert(.array)
      case "object": types.insert(.object)
      default: throw bad(path(), "\(shortened(name.jsonText)) is no JSON Schema type")
      }
    }
    guard !types.isEmpty else { throw bad(path(), "it is the name of a type, or a list of them") }
    return types
  }

  // MARK: - The keywords of one type

  private func readNumber(
    _ keyword: SchemaKeyword, _ value: JSONValue, into rules: inout SchemaRules,
    at path: @autoclosure () -> String
  ) throws(SchemaError) {
    guard case .number(let number) = value, number.doubleValue.isFinite else {
      throw bad(path(), "it is a number")
    }
    var all = rules.number ?? .init()
    switch keyword {
    case .minimum: all.minimum = number
    case .maximum: all.maximum = number
    case .exclusiveMinimum: all.exclusiveMinimum = number
    case .exclusiveMaximum: all.exclusiveMaximum = number
    default:
      guard number.doubleValue > 0 else { throw bad(path(), "it is above 0") }
      all.multipleOf = number
    }
    rules.number = all
  }

  private func readString(
    _ keyword: SchemaKeyword, _ value: JSONValue, into rules: inout SchemaRules,
    at path: @autoclosure () -> String
  ) throws(SchemaError) {
    var all = rules.string ?? .init()
    switch keyword {
    case .minLength: all.least = try count(value, path())
    case .maxLength: all.most = try count(value, path())
    default:
      guard let text = value.stringValue else { throw bad(path(), "a pattern is a string") }
      do throws(PatternError) {
        all.pattern = try Pattern(text)
      } catch {
        throw unsupported(
          path(),
          "the pattern \(quoted(shortened(text))) cannot be used: \(error.reason)"
            + " (at character \(error.offset))")
      }
    }
    rules.string = all
  }

  private mutating func readArray(
    _ keyword: SchemaKeyword, _ value: JSONValue, into rules: inout SchemaRules,
    at path: @autoclosure () -> String
  ) throws(SchemaError) {
    var all = rules.array ?? .init()
    switch keyword {
    case .items:
      guard value.arrayValue == nil else {
        throw unsupported(path(), "a list of schemas is written as prefixItems")
      }
      all.items = try compile(value, at: path())
    case .prefixItems: all.prefix = try compileList(value, at: path())
    case .minItems: all.least = try count(value, path())
    case .maxItems: all.most = try count(value, path())
    case .contains: all.contains = try compile(value, at: path())
    case .minContains: all.leastContained = try count(value, path())
    case .maxContains: all.mostContained = try count(value, path())
    default:
      guard let flag = value.boolValue else { throw bad(path(), "it is true or false") }
      all.isUnique = flag
    }
    rules.array = all
  }

  private mutating func readObject(
    _ keyword: SchemaKeyword, _ value: JSONValue, into rules: inout SchemaRules,
    at path: @autoclosure () -> String
  ) throws(SchemaError) {
    var all = rules.object ?? .init()
    switch keyword {
    case .properties:
      let members = try members(value, path())
      all.properties.reserveCapacity(members.count)
      for (name, schema) in members {
        let index = try compile(schema, at: "\(path())/\(escapedPointer(name))")
        guard all.properties.updateValue(index, forKey: name) == nil else {
          throw .duplicateProperty(
            schema: self.name, property: name,
            context: .init(
              debugDescription: "The schema is wrong at \(path()): the property \(quoted(name)) is"
                + " there twice."))
        }
      }
    case .required: all.required = try texts(value, path())
    case .additionalProperties: all.additional = try compile(value, at: path())
    case .propertyNames: all.names = try compile(value, at: path())
    case .minProperties: all.least = try count(value, path())
    case .maxProperties: all.most = try count(value, path())
    case .dependentRequired:
      for (name, needs) in try members(value, path()) {
        all.dependencies.append((name: name, needs: try texts(needs, "\(path())/\(name)")))
      }
    default:
      for (text, schema) in try members(value, path()) {
        let pattern: Pattern
        do throws(PatternError) {
          pattern = try Pattern(text)
        } catch {
          throw unsupported(
            path(), "the pattern \(quoted(shortened(text))) cannot be used: \(error.reason)")
        }
        let index = try compile(schema, at: "\(path())/\(escapedPointer(text))")
        all.patterns.append((pattern: pattern, rules: index))
      }
    }
    rules.object = all
  }

  private func members(
    _ value: JSONValue, _ path: @autoclosure () -> String
  ) throws(SchemaError) -> [(name: String, value: JSONValue)] {
    guard let object = value.objectValue else { throw bad(path(), "it is an object") }
    return object.members
  }

  private func count(_ value: JSONValue, _ path: @autoclosure () -> String) throws(SchemaError)
    -> Int
  {
    guard let count = value.intValue, count >= 0 else {
      throw bad(path(), "it is a whole number of at least 0")
    }
    return count
  }

  private func texts(_ value: JSONValue, _ path: @autoclosure () -> String) throws(SchemaError)
    -> [String]
  {
    var texts: [String] = []
    for element in value.arrayValue ?? [.null] {
      guard let text = element.stringValue else { throw bad(path(), "it is a list of names") }
      texts.append(text)
    }
    return texts
  }

  // MARK: - What can never be

  private func checkBounds(_ rules: SchemaRules, at path: String) throws(SchemaError) {
    if let number = rules.number {
      if let low = number.minimum, let high = number.maximum, low.isAbove(high) {
        throw bad(path, "minimum (\(low.literal)) is above maximum (\(high.literal))")
      }
    }
    // Three calls, and no loop over a list of three: for that the compiler wrote its jumps in an order
    // that changed from build to build.
    try checkCounts("minLength", rules.string?.least, rules.string?.most, at: path)
    try checkCounts("minItems", rules.array?.least, rules.array?.most, at: path)
    try checkCounts("minProperties", rules.object?.least, rules.object?.most, at: path)
  }

  private func checkCounts(
    _ name: String, _ low: Int?, _ high: Int?, at path: String
  ) throws(SchemaError) {
    guard let low, let high, low > high else { return }
    throw bad(path, "\(name) (\(low)) is above its upper bound (\(high))")
  }

  /// A schema that refers to itself without a step into the value would be checked for ever.
  private func refuseCircles() throws(SchemaError) {
    enum Mark { case new, open, done }
    var marks = [Mark](repeating: .new, count: table.rules.count)
    func visit(_ index: Int) -> Bool {
      switch marks[index] {
      case .open: return false
      case .done: return true
      case .new: break
      }
      marks[index] = .open
      guard table.rules[index].allOfTheSameValue(visit) else { return false }
      marks[index] = .done
      return true
    }
    for index in table.rules.indices where !visit(index) {
      throw .invalid(
        schema: name,
        context: .init(
          debugDescription: "The schema \(quoted(name)) has a definition that refers to itself"
            + " without a property or item in between: no value could be checked by it."))
    }
  }

  private func bad(_ path: String, _ reason: String) -> SchemaError {
    .invalid(
      schema: name, context: .init(debugDescription: "The schema is wrong at \(path): \(reason)."))
  }

  private func unsupported(_ path: String, _ reason: String) -> SchemaError {
    .unsupportedGuide(
      schema: name,
      context: .init(debugDescription: "The schema asks too much at \(path): \(reason)."))
  }
}

/// A name as a JSON pointer (RFC 6901) writes it.
func escapedPointer(_ name: String) -> String {
  guard name.utf8.contains(where: { $0 == UInt8(ascii: "~") || $0 == UInt8(ascii: "/") }) else {
    return name
  }
  return name.map { $0 == "~" ? "~0" : $0 == "/" ? "~1" : String($0) }.joined()
}

/// A part of a JSON pointer in a URL fragment: percent signs first, then tildes.
private func unescapedPointer(_ part: String) -> String {
  var bytes: [UInt8] = []
  var rest = Array(part.utf8)[...]
  while let byte = rest.popFirst() {
    if byte == UInt8(ascii: "%"), rest.count >= 2,
      let code = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16)
    {
      bytes.append(code)
      rest = rest.dropFirst(2)
    } else if byte == UInt8(ascii: "~"), rest.first == UInt8(ascii: "0") {
      bytes.append(UInt8(ascii: "~"))
      rest.removeFirst()
    } else if byte == UInt8(ascii: "~"), rest.first == UInt8(ascii: "1") {
      bytes.append(UInt8(ascii: "/"))
      rest.removeFirst()
    } else {
      bytes.append(byte)
    }
  }
  return String(decoding: bytes, as: UTF8.self)
}

extension JSONValue {
  /// The schema that a JSON pointer (RFC 6901) in a fragment names, in this root schema.
  func target(of reference: String) -> JSONValue? {
    guard reference.hasPrefix("#") else { return nil }
    var value = self
    let pointer = reference.dropFirst()
    if pointer.isEmpty { return value }
    guard pointer.hasPrefix("/") else { return nil }
    for part in pointer.dropFirst().split(separator: "/", omittingEmptySubsequences: false) {
      let name = unescapedPointer(String(part))
      switch value {
      case .object(let object):
        guard let member = object[name] else { return nil }
        value = member
      case .array(let elements):
        guard let index = Int(name), elements.indices.contains(index) else { return nil }
        value = elements[index]
      default: return nil
      }
    }
    return value
  }
}
