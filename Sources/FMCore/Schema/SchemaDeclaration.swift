import FMWire

/// A type with properties, as callers outside Swift declare it.
package struct SchemaDeclaration: Sendable {
  package struct Property: Sendable {
    package var name: String
    package var description: String?
    package var type: PropertyType
    package var isOptional: Bool
    package var guides: [SchemaGuide]

    package init(
      name: String, description: String?, type: PropertyType, isOptional: Bool,
      guides: [SchemaGuide] = []
    ) {
      self.name = name
      self.description = description
      self.type = type
      self.isOptional = isOptional
      self.guides = guides
    }
  }

  package enum PropertyType: Sendable {
    /// As `FMGenerationSchemaPropertyCreate` takes it.
    case name(String)
    /// A JSON Schema that may refer to `#/$defs/NAME` of the whole.
    case schema(JSONValue)
  }

  package enum Reference: Sendable {
    case declaration(SchemaDeclaration)
    case schema(GenerationSchema)
    /// A JSON Schema, with `$defs` of its own.
    case document(name: String, JSONValue)
  }

  package var name: String
  package var description: String?
  package var properties: [Property]
  /// What properties may refer to by name; theirs count too.
  package var references: [Reference]

  package init(
    name: String, description: String? = nil, properties: [Property] = [],
    references: [Reference] = []
  ) {
    self.name = name
    self.description = description
    self.properties = properties
    self.references = references
  }
}

extension GenerationSchema {
  /// - Throws: `SchemaError` for guides that do not suit their types and names that are not defined.
  package init(_ declaration: SchemaDeclaration) throws(SchemaError) {
    try self.init(
      name: declaration.name, .named(try declaration.named()),
      dependencies: try declaration.dependencies())
  }
}

extension SchemaDeclaration {
  fileprivate func named() throws(GenerationSchema.SchemaError) -> NamedSchema {
    var all: [SchemaProperty] = []
    for property in properties {
      let node: SchemaNode
      switch property.type {
      case .name(let name): node = try SchemaNode(typeName: name, of: property.name)
      case .schema(let json): node = .fragment(json)
      }
      all.append(
        SchemaProperty(
          name: property.name, description: property.description, type: node,
          isOptional: property.isOptional, guides: property.guides))
    }
    return NamedSchema(name: name, description: description, body: .object(all))
  }

  /// All that is referred to, at any depth, once by name.
  fileprivate func dependencies() throws(GenerationSchema.SchemaError) -> [SchemaDependency] {
    var found: [SchemaDependency] = []
    var open = references
    while let reference = open.popLast() {
      switch reference {
      case .schema(let schema):
        found.append(.document(name: schema.name, try schema.resolved().json))
      case .document(let name, let json):
        found.append(.document(name: name, json))
      case .declaration(let declaration):
        // The same schema may be attached to several; a cycle comes back to one already there.
        guard declaration.name != name,
          !found.contains(where: { $0.name == declaration.name })
        else { continue }
        found.append(.named(try declaration.named()))
        open += declaration.references
      }
    }
    return found
  }
}

extension SchemaNode {
  /// The type that a name of the C builder stands for: a scalar, `array<...>`, `map<...>`, or the
  /// name of another schema. An empty name is a string.
  init(
    typeName: String, of property: String
  ) throws(GenerationSchema.SchemaError) {
    func inner(_ prefix: String) -> String? {
      guard typeName.hasPrefix(prefix), typeName.hasSuffix(">") else { return nil }
      return String(typeName.dropFirst(prefix.count).dropLast())
    }
    switch typeName {
    case "", "string": self = .plain(["type": "string"])
    case "number", "float", "double": self = .plain(["type": "number"])
    case "integer", "int": self = .plain(["type": "integer"])
    case "boolean", "bool": self = .plain(["type": "boolean"])
    default:
      if let element = inner("array<") {
        self = .array(try SchemaNode(typeName: element, of: property))
      } else if let element = inner("map<") {
        self = .map(try SchemaNode(typeName: element, of: property))
      } else {
        self = .reference(typeName)
      }
    }
  }
}

// MARK: - As JSON

extension SchemaDeclaration {
  /// The argument of FMGenerationSchemaCreateFromDeclarationJSON.
  package init(json text: String) throws(Failure) {
    let value: JSONValue
    do {
      value = try JSONValue(parsing: text)
    } catch {
      throw Failure(
        .invalidSchema,
        "The declaration is no JSON: \(error.message) at byte \(error.offset).")
    }
    try self.init(value, at: "$")
  }

  // Paths are put together where something is wrong, and nowhere else.
  private init(_ json: JSONValue, at path: @autoclosure () -> String) throws(Failure) {
    guard let name = json["name"]?.stringValue, let properties = json["properties"]?.arrayValue
    else {
      throw wrong(path(), "a declaration has a name and a list of properties")
    }
    self.init(name: name, description: json["description"]?.stringValue)
    for (index, property) in properties.enumerated() {
      self.properties.append(try Property(property, at: "\(path()).properties[\(index)]"))
    }
    for (index, reference) in (json["references"]?.arrayValue ?? []).enumerated() {
      if let name = reference["name"]?.stringValue, let schema = reference["schema"] {
        references.append(.document(name: name, schema))
      } else {
        references.append(
          .declaration(try SchemaDeclaration(reference, at: "\(path()).references[\(index)]")))
      }
    }
  }
}

extension SchemaDeclaration.Property {
  fileprivate init(_ json: JSONValue, at path: @autoclosure () -> String) throws(Failure) {
    guard let name = json["name"]?.stringValue else { throw wrong(path(), "it has no name") }
    let type: SchemaDeclaration.PropertyType
    if let schema = json["schema"] {
      type = .schema(schema)
    } else if let typeName = json["type"]?.stringValue {
      type = .name(typeName)
    } else {
      throw wrong(path(), "it has neither \"type\" nor \"schema\"")
    }
    self.init(
      name: name, description: json["description"]?.stringValue, type: type,
      isOptional: json["optional"]?.boolValue ?? false)
    for (index, guide) in (json["guides"]?.arrayValue ?? []).enumerated() {
      guides.append(try SchemaGuide(guide, at: "\(path()).guides[\(index)]"))
    }
  }
}

extension SchemaGuide {
  /// A pair: the guide's name and its value.
  fileprivate init(_ json: JSONValue, at path: @autoclosure () -> String) throws(Failure) {
    guard let pair = json.arrayValue, pair.count == 2, let name = pair[0].stringValue else {
      throw wrong(path(), "a guide is a pair of a name and a value")
    }
    let value = pair[1]
    let guide: SchemaGuide?
    switch name {
    case "constant": guide = value.stringValue.map(SchemaGuide.constant)
    case "anyOf":
      let texts = value.arrayValue?.compactMap(\.stringValue)
      guide = texts?.count == value.arrayValue?.count ? texts.map(SchemaGuide.anyOf) : nil
    case "pattern": guide = value.stringValue.map(SchemaGuide.pattern)
    case "minimum": guide = value.doubleValue.map(SchemaGuide.minimum)
    case "maximum": guide = value.doubleValue.map(SchemaGuide.maximum)
    case "range":
      let bounds = value.arrayValue?.compactMap(\.doubleValue) ?? []
      guide = bounds.count == 2 ? .range(bounds[0], bounds[1]) : nil
    case "count": guide = value.intValue.map(SchemaGuide.count)
    case "minItems": guide = value.intValue.map(SchemaGuide.minimumCount)
    case "maxItems": guide = value.intValue.map(SchemaGuide.maximumCount)
    case "element": guide = .element(try SchemaGuide(value, at: "\(path())[1]"))
    default: throw wrong(path(), "there is no guide \(quoted(name))")
    }
    guard let guide else {
      throw wrong(path(), "\(shortened(value.jsonText)) is no value of the guide \(quoted(name))")
    }
    self = guide
  }
}

private func wrong(_ path: String, _ reason: String) -> Failure {
  Failure(.invalidSchema, "The declaration is wrong at \(path): \(reason).")
}
