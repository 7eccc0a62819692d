extension GenerationSchema {
  /// The schema of a type with properties.
  public init(type: any Generable.Type, description: String? = nil, properties: [Property]) {
    self.init(
      type: type, description: description, representNilExplicitlyInGeneratedContent: false,
      properties: properties)
  }

  /// - Parameter representNilExplicitlyInGeneratedContent: an optional property is there and null,
  ///   instead of missing.
  public init(
    type: any Generable.Type, description: String? = nil,
    representNilExplicitlyInGeneratedContent: Bool, properties: [Property]
  ) {
    let name = typeName(type)
    let properties = properties.map { property in
      var property = property.property
      if representNilExplicitlyInGeneratedContent, property.isOptional {
        property.isOptional = false
        property.isNullable = true
      }
      return property
    }
    self.init(
      name: name,
      .named(
        NamedSchema(
          name: name, description: description, body: .object(properties),
          type: ObjectIdentifier(type))))
  }

  /// The schema of a type that is one of some strings.
  public init(type: any Generable.Type, description: String? = nil, anyOf choices: [String]) {
    let name = typeName(type)
    self.init(
      name: name,
      .named(
        NamedSchema(
          name: name, description: description, body: .strings(choices),
          type: ObjectIdentifier(type))))
  }

  /// The schema of a type that is one of some types.
  public init(
    type: any Generable.Type, description: String? = nil, anyOf types: [any Generable.Type]
  ) {
    let name = typeName(type)
    let nodes = types.map { type in SchemaNode.type { type.generationSchema } }
    self.init(
      name: name,
      .named(
        NamedSchema(
          name: name, description: description, body: .choice(nodes),
          type: ObjectIdentifier(type))))
  }

  /// A schema put together at run time.
  ///
  /// - Parameter dependencies: what references in it may name.
  public init(
    root: DynamicGenerationSchema, dependencies: [DynamicGenerationSchema]
  ) throws(SchemaError) {
    var named: [SchemaDependency] = []
    for dependency in dependencies {
      guard case .named(let schema) = dependency.node else {
        throw .invalid(
          schema: root.name ?? "answer",
          context: .init(
            debugDescription: "A dependency of a schema has no name that a reference could give."))
      }
      named.append(.named(schema))
    }
    try self.init(name: root.name ?? "answer", root.node, dependencies: named)
  }

  /// One property of a type.
  public struct Property: Sendable {
    let property: SchemaProperty

    public init<Value: Generable>(
      name: String, description: String? = nil, type: Value.Type,
      guides: [GenerationGuide<Value>] = []
    ) {
      property = SchemaProperty(
        name: name, description: description, type: .type { Value.generationSchema },
        isOptional: false, guides: guides.map(\.guide))
    }

    /// A property that may be missing.
    public init<Value: Generable>(
      name: String, description: String? = nil, type: Value?.Type,
      guides: [GenerationGuide<Value>] = []
    ) {
      property = SchemaProperty(
        name: name, description: description, type: .type { Value.generationSchema },
        isOptional: true, guides: guides.map(\.guide))
    }

    /// A string that the regex matches; of several the last counts.
    public init<Output>(
      name: String, description: String? = nil, type: String.Type, guides: [Regex<Output>]
    ) {
      self.init(
        name: name, description: description, type: type,
        guides: guides.suffix(1).map(GenerationGuide.pattern))
    }

    /// The same for one that may be missing.
    public init<Output>(
      name: String, description: String? = nil, type: String?.Type, guides: [Regex<Output>]
    ) {
      self.init(
        name: name, description: description, type: type,
        guides: guides.suffix(1).map(GenerationGuide.pattern))
    }
  }
}

/// The type's name without its module.
private func typeName(_ type: any Generable.Type) -> String {
  String(describing: type)
}
