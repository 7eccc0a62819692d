import FMWire

/// A schema as it is put together from types, before names become `$defs`.
indirect enum SchemaNode: Sendable {
  /// A schema without a name or references.
  case plain(JSONValue)
  case array(SchemaNode, least: Int? = nil, most: Int? = nil)
  /// An object whose members have any names and all this type.
  case map(SchemaNode)
  case nullable(SchemaNode)
  case guided(SchemaNode, [SchemaGuide])
  case named(NamedSchema)
  /// One that is defined elsewhere in the same schema.
  case reference(String)
  /// A JSON Schema that refers to named ones as `#/$defs/NAME`.
  case fragment(JSONValue)
  /// A whole JSON Schema with a name and definitions of its own.
  case document(name: String, JSONValue)
  /// The schema of a type, asked for only when it is needed: types may refer to themselves.
  case type(@Sendable () -> GenerationSchema)
}

/// A schema that stands under its name in `$defs`, so that it can refer to itself.
struct NamedSchema: Sendable {
  enum Body: Sendable {
    case object([SchemaProperty])
    case choice([SchemaNode])
    case strings([String])
  }

  var name: String
  var description: String?
  var body: Body
  /// The type that it is the schema of; nil for one made at run time.
  var type: ObjectIdentifier?
}

/// Something that references may name.
enum SchemaDependency: Sendable {
  case named(NamedSchema)
  case document(name: String, JSONValue)

  var name: String {
    switch self {
    case .named(let schema): schema.name
    case .document(let name, _): name
    }
  }
}

/// One property of an object.
struct SchemaProperty: Sendable {
  var name: String
  var description: String?
  var type: SchemaNode
  /// The member may be missing.
  var isOptional: Bool
  /// The member is there, and may be null.
  var isNullable = false
  var guides: [SchemaGuide] = []
}

/// Writes a node out as one JSON Schema, named schemas in `$defs`, in the reference's form.
struct SchemaAssembler {
  typealias SchemaError = GenerationSchema.SchemaError

  private let rootName: String?
  private let rootType: ObjectIdentifier?
  private var definitions: [(name: String, schema: JSONValue)] = []
  /// Names in `definitions`, and those being written at the moment.
  private var known: Set<String> = []
  private var references: [String] = []
  private var depth = 0
  private let dependencies: [String: SchemaDependency]

  private init(root: NamedSchema?, dependencies: [String: SchemaDependency]) {
    rootName = root?.name
    rootType = root?.type
    self.dependencies = dependencies
  }

  /// - Parameter dependencies: what references may name beyond what the root itself holds.
  static func assemble(
    _ root: SchemaNode, dependencies: [SchemaDependency] = []
  ) throws(SchemaError) -> JSONValue {
    var byName: [String: SchemaDependency] = [:]
    for dependency in dependencies {
      guard byName.updateValue(dependency, forKey: dependency.name) == nil else {
        throw duplicate(dependency.name, in: nil)
      }
    }
    let node = try resolve(root)
    if case .document(_, let json) = node { return json }
    guard case .named(let named) = node else {
      var assembler = SchemaAssembler(root: nil, dependencies: byName)
      var schema = try assembler.schema(of: root)
      try assembler.finish(&schema)
      return schema
    }
    guard byName[named.name] == nil else { throw duplicate(named.name, in: named.name) }
    var assembler = SchemaAssembler(root: named, dependencies: byName)
    var schema = try assembler.schema(of: named)
    try assembler.finish(&schema)
    return schema
  }

  /// The node that a type's schema is made of.
  private static func resolve(_ node: SchemaNode) throws(SchemaError) -> SchemaNode {
    var node = node
    // A type whose schema is another type's: a chain of them that never ends would hang here.
    for _ in 0..<64 {
      guard case .type(let schema) = node else { return node }
      node = try schema().node()
    }
    throw .invalid(
      schema: "", context: .init(debugDescription: "A type's schema is only ever another type's."))
  }

  private mutating func finish(_ schema: inout JSONValue) throws(SchemaError) {
    // Referring to a dependency can bring references of its own.
    var missing: [String] = []
    while let name = references.popLast() {
      guard !known.contains(name), name != rootName else { continue }
      if let dependency = dependencies[name] {
        switch dependency {
        case .named(let named): try define(named)
        case .document(let name, let json): try hoist(json, as: name)
        }
      } else if name == ImageReference.schemaName {
        known.insert(name)
        definitions.append((name: name, schema: ImageReference.schemaJSON))
      } else if !missing.contains(name) {
        missing.append(name)
      }
    }
    guard missing.isEmpty else {
      let list = missing.sorted()
      throw .undefinedReferences(
        schema: rootName, references: list,
        context: .init(
          debugDescription: "The schema \(quoted(rootName ?? "answer")) refers to"
            + " \(list.map(quoted).joined(separator: ", ")), which it does not define; add"
            + " a schema of that name."))
    }
    guard !definitions.isEmpty, var object = schema.objectValue else { return }
    object["$defs"] = .object(JSONObject(definitions.map { ($0.name, $0.schema) }))
    schema = .object(object)
  }

  private mutating func define(_ named: NamedSchema) throws(SchemaError) {
    known.insert(named.name)
    let place = definitions.count
    definitions.append((name: named.name, schema: .null))
    definitions[place].schema = try schema(of: named)
  }

  private func reference(to name: String) -> JSONValue {
    .object(
      JSONObject([("$ref", .string(name == rootName ? "#" : "#/$defs/\(escapedPointer(name))"))]))
  }

  private mutating func schema(of node: SchemaNode) throws(SchemaError) -> JSONValue {
    depth += 1
    defer { depth -= 1 }
    guard depth <= 128 else {
      throw .invalid(
        schema: rootName ?? "",
        context: .init(debugDescription: "The schema is nested too deeply."))
    }
    switch try Self.resolve(node) {
    case .plain(let json): return json
    case .array(let element, let least, let most):
      var object = JSONObject([("type", "array"), ("items", try schema(of: element))])
      if let least { object["minItems"] = .number(JSONNumber(least)) }
      if let most { object["maxItems"] = .number(JSONNumber(most)) }
      return .object(object)
    case .map(let element):
      return .object(
        JSONObject([("type", "object"), ("additionalProperties", try schema(of: element))]))
    case .nullable(let node):
      let schema = try schema(of: node)
      return ["anyOf": [schema, ["type": "null"]]]
    case .guided(let node, let guides):
      var schema = try schema(of: node)
      for guide in guides { try guide.apply(to: &schema, of: rootName ?? "answer") }
      return schema
    case .named(let named):
      try hoist(named)
      return reference(to: named.name)
    case .reference(let name):
      references.append(name)
      return reference(to: name)
    case .fragment(let json):
      let prefix = "#/$defs/"
      return json.replacingReferences { pointer in
        guard pointer.hasPrefix(prefix) else { return pointer }
        let name = String(pointer.dropFirst(prefix.count))
        references.append(name)
        return name == rootName ? "#" : pointer
      }
    case .document(let name, let json):
      // Without a name of its own it stands where it is used.
      if json["title"] == nil, json["$defs"] == nil { return json }
      try hoist(json, as: name)
      return reference(to: name)
    case .type: preconditionFailure("a resolved node is no type")
    }
  }

  /// Two schemas of one name are one schema, or a mistake.
  private mutating func hoist(_ named: NamedSchema) throws(SchemaError) {
    if named.name == rootName {
      // The root's own type, again: a schema made at run time says so with a reference.
      guard let rootType, rootType == named.type else {
        throw Self.duplicate(named.name, in: rootName)
      }
      return
    }
    guard known.contains(named.name) else { return try define(named) }
    // Being written at the moment: the reference that makes it recursive.
    guard let there = definitions.first(where: { $0.name == named.name })?.schema, !there.isNull
    else { return }
    var other = self
    other.definitions = []
    guard try other.schema(of: named) == there else {
      throw Self.duplicate(named.name, in: rootName)
    }
  }

  private mutating func hoist(_ document: JSONValue, as name: String) throws(SchemaError) {
    guard var object = document.objectValue else { return }
    let inner = object["$defs"]?.objectValue ?? JSONObject()
    object["$defs"] = nil
    for (name, schema) in inner.members + [(name: name, value: .object(object))] {
      let schema = schema.replacingReferences { $0 == "#" ? "#/$defs/\(escapedPointer(name))" : $0 }
      if let there = definitions.first(where: { $0.name == name })?.schema {
        guard there == schema else { throw Self.duplicate(name, in: rootName) }
        continue
      }
      known.insert(name)
      definitions.append((name: name, schema: schema))
    }
  }

  private mutating func schema(of named: NamedSchema) throws(SchemaError) -> JSONValue {
    guard !named.name.isEmpty else {
      throw .invalid(
        schema: named.name, context: .init(debugDescription: "A schema has no name; give it one."))
    }
    var object = JSONObject([("title", .string(named.name))])
    switch named.body {
    case .strings(let choices):
      guard !choices.isEmpty else { throw Self.empty(named.name) }
      object["type"] = "string"
      if let description = named.description { object["description"] = .string(description) }
      object["enum"] = .array(choices.map(JSONValue.string))
    case .choice(let nodes):
      guard !nodes.isEmpty else { throw Self.empty(named.name) }
      if let description = named.description { object["description"] = .string(description) }
      var alternatives: [JSONValue] = []
      for node in nodes { alternatives.append(try schema(of: node)) }
      object["anyOf"] = .array(alternatives)
    case .object(let properties):
      object["type"] = "object"
      if let description = named.description { object["description"] = .string(description) }
      var schemas: [(String, JSONValue)] = []
      for property in properties {
        guard !schemas.contains(where: { $0.0 == property.name }) else {
          throw .duplicateProperty(
            schema: named.name, property: property.name,
            context: .init(
              debugDescription: "The schema \(quoted(named.name)) has the property"
                + " \(quoted(property.name)) twice."))
        }
        schemas.append((property.name, try schema(of: property, in: named.name)))
      }
      let required = properties.filter { !$0.isOptional }.map { JSONValue.string($0.name) }
      object["properties"] = .object(JSONObject(schemas))
      object["required"] = .array(required)
      object["x-order"] = .array(properties.map { .string($0.name) })
      object["additionalProperties"] = false
    }
    return .object(object)
  }

  private mutating func schema(
    of property: SchemaProperty, in name: String
  ) throws(SchemaError) -> JSONValue {
    var schema = try schema(of: property.type)
    for guide in property.guides {
      try guide.apply(to: &schema, of: "\(name).\(property.name)")
    }
    if property.isNullable { schema = ["anyOf": [schema, ["type": "null"]]] }
    if let description = property.description, var object = schema.objectValue {
      object["description"] = .string(description)
      schema = .object(object)
    }
    return schema
  }

  private static func duplicate(_ name: String, in root: String?) -> SchemaError {
    .duplicateType(
      schema: root, type: name,
      context: .init(
        debugDescription: "Two different schemas have the name \(quoted(name)); rename one."))
  }

  private static func empty(_ name: String) -> SchemaError {
    .emptyTypeChoices(
      schema: name,
      context: .init(debugDescription: "The schema \(quoted(name)) is a choice of nothing."))
  }
}

extension JSONValue {
  /// The schema with each `$ref` changed.
  func replacingReferences(_ change: (String) -> String) -> JSONValue {
    switch self {
    case .array(let elements): .array(elements.map { $0.replacingReferences(change) })
    case .object(let object):
      .object(
        JSONObject(
          object.members.map { name, value in
            if name == "$ref", let reference = value.stringValue {
              return (name, .string(change(reference)))
            }
            return (name, value.replacingReferences(change))
          }))
    default: self
    }
  }
}
