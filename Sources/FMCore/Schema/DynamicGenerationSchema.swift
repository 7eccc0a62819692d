/// A schema that is put together at run time: from a settings file, a database, another schema.
///
///     let dish = DynamicGenerationSchema(
///       name: "Dish",
///       properties: [
///         .init(name: "name", schema: .init(type: String.self)),
///         .init(name: "price", schema: .init(type: Double.self, guides: [.minimum(0)])),
///         .init(name: "sides", schema: .init(arrayOf: .init(referenceTo: "Dish"))),
///       ])
///     let schema = try GenerationSchema(root: dish, dependencies: [])
public struct DynamicGenerationSchema: Sendable {
  let node: SchemaNode

  private init(_ node: SchemaNode) { self.node = node }

  var name: String? {
    if case .named(let schema) = node { schema.name } else { nil }
  }

  /// Nothing but null.
  public static var null: DynamicGenerationSchema { .init(.plain(["type": "null"])) }

  /// An object.
  public init(name: String, description: String? = nil, properties: [Property]) {
    self.init(
      name: name, description: description, representNilExplicitlyInGeneratedContent: false,
      properties: properties)
  }

  /// - Parameter representNilExplicitlyInGeneratedContent: an optional property is there and null,
  ///   instead of missing.
  public init(
    name: String, description: String? = nil, representNilExplicitlyInGeneratedContent: Bool,
    properties: [Property]
  ) {
    let properties = properties.map { property in
      SchemaProperty(
        name: property.name, description: property.description, type: property.schema.node,
        isOptional: property.isOptional && !representNilExplicitlyInGeneratedContent,
        isNullable: property.isOptional && representNilExplicitlyInGeneratedContent)
    }
    node = .named(NamedSchema(name: name, description: description, body: .object(properties)))
  }

  /// One of some schemas.
  public init(name: String, description: String? = nil, anyOf choices: [DynamicGenerationSchema]) {
    node = .named(
      NamedSchema(name: name, description: description, body: .choice(choices.map(\.node))))
  }

  /// One of some strings.
  public init(name: String, description: String? = nil, anyOf choices: [String]) {
    node = .named(NamedSchema(name: name, description: description, body: .strings(choices)))
  }

  public init(
    arrayOf element: DynamicGenerationSchema, minimumElements: Int? = nil,
    maximumElements: Int? = nil
  ) {
    node = .array(element.node, least: minimumElements, most: maximumElements)
  }

  /// The schema of a type, with guides for its values.
  public init<Value: Generable>(type: Value.Type, guides: [GenerationGuide<Value>] = []) {
    let inner = SchemaNode.type { Value.generationSchema }
    node = guides.isEmpty ? inner : .guided(inner, guides.map(\.guide))
  }

  /// The schema of that name: the root, or a dependency.
  public init(referenceTo name: String) {
    node = .reference(name)
  }

  public struct Property: Sendable {
    let name: String
    let description: String?
    let schema: DynamicGenerationSchema
    let isOptional: Bool

    public init(
      name: String, description: String? = nil, schema: DynamicGenerationSchema,
      isOptional: Bool = false
    ) {
      self.name = name
      self.description = description
      self.schema = schema
      self.isOptional = isOptional
    }
  }
}
