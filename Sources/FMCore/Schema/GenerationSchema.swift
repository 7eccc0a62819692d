import FMWire
import Synchronization

/// The JSON Schema that an answer must be valid by.
///
/// Made from a type's properties, from a `DynamicGenerationSchema`, or from JSON. Whatever a server
/// promises, an answer is checked here by the schema as it was given; so every keyword is either
/// checked or refused:
///
/// - any value: `type` (a name or a list), `enum`, `const`, `allOf`, `anyOf`, `oneOf`, `not`,
///   `if`/`then`/`else`, `$ref` to a JSON pointer in the same schema, `$defs`, `definitions`;
/// - strings: `minLength`, `maxLength`, `pattern` (see `Pattern` for the language);
/// - numbers: `minimum`, `maximum`, `exclusiveMinimum`, `exclusiveMaximum`, `multipleOf`;
/// - arrays: `items`, `prefixItems`, `minItems`, `maxItems`, `uniqueItems`, `contains`,
///   `minContains`, `maxContains`;
/// - objects: `properties`, `required`, `additionalProperties`, `patternProperties`,
///   `propertyNames`, `minProperties`, `maxProperties`, `dependentRequired`.
///
/// `title`, `description`, `default`, `examples`, `format`, `discriminator`, `$schema` and other
/// annotations constrain nothing, as the standard has it. `x-order` gives the order of an object's
/// members: an answer with another order is put into it. Any other keyword is an
/// `unsupportedGuide`. Source: JSON Schema 2020-12, core and validation vocabularies.
public struct GenerationSchema: Sendable {
  /// The type's name: the schema's title, or "answer".
  public var name: String
  private let storage: SchemaStorage

  /// - Throws: `SchemaError` for a text that is no JSON Schema of the keywords above.
  public init(json text: String) throws(SchemaError) {
    let value: JSONValue
    do {
      value = try JSONValue(parsing: text)
    } catch {
      throw .invalid(
        schema: "",
        context: .init(
          debugDescription: "The schema is no JSON: \(error.message) at byte \(error.offset)."))
    }
    try self.init(json: value)
  }

  package init(json: JSONValue) throws(SchemaError) {
    let name = json["title"]?.stringValue.flatMap { $0.isEmpty ? nil : $0 } ?? "answer"
    let resolved = ResolvedSchema(
      json: json, rules: try SchemaCompiler.compile(json, name: name))
    self.name = name
    storage = SchemaStorage(.document(name: name, json), resolved: resolved)
  }

  /// A schema that is checked when it is first used: the types it is made of may need it themselves.
  init(name: String, _ node: SchemaNode) {
    self.name = name
    storage = SchemaStorage(node)
  }

  /// One that is checked now.
  init(
    name: String, _ node: SchemaNode, dependencies: [SchemaDependency]
  ) throws(SchemaError) {
    let json = try SchemaAssembler.assemble(node, dependencies: dependencies)
    let resolved = ResolvedSchema(json: json, rules: try SchemaCompiler.compile(json, name: name))
    self.name = name
    storage = SchemaStorage(.document(name: name, json), resolved: resolved)
  }

  func node() throws(SchemaError) -> SchemaNode { storage.node }

  /// What the schema says, checked once. A type's schema can be wrong without having thrown yet.
  package func resolved() throws(SchemaError) -> ResolvedSchema {
    try storage.resolved(name: name)
  }

  /// The JSON Schema, as the reference writes it; an empty one where the schema is wrong, which
  /// `resolved()` throws.
  package var json: JSONValue {
    do throws(SchemaError) {
      return try resolved().json
    } catch {
      return .object(JSONObject())
    }
  }

  /// The JSON text of the schema, in the reference's form.
  public var jsonString: String { json.jsonText }

  /// The value with its members in the schema's order, or the first way in which it is not valid.
  package func validated(_ value: JSONValue) throws -> JSONValue {
    try resolved().validated(value)
  }
}

extension GenerationSchema: Equatable {
  public static func == (left: GenerationSchema, right: GenerationSchema) -> Bool {
    left.name == right.name && left.json == right.json
  }
}

extension GenerationSchema: CustomDebugStringConvertible {
  public var debugDescription: String { jsonString }
}

/// A schema that is known to be good.
package struct ResolvedSchema: Sendable {
  package let json: JSONValue
  let rules: RuleTable

  package func validated(_ value: JSONValue) throws(SchemaMismatch) -> JSONValue {
    var validator = SchemaValidator(rules)
    try validator.validate(value)
    return validator.isOutOfOrder ? validator.ordered(value) : value
  }
}

extension ResolvedSchema {
  /// The same for a model's answer, in which null may stand for a property that is missing.
  func validatedAnswer(_ value: JSONValue) throws(SchemaMismatch) -> JSONValue {
    do throws(SchemaMismatch) {
      return try validated(value)
    } catch {
      var validator = SchemaValidator(rules)
      let pruned = validator.withoutNulls(value)
      guard pruned != value else { throw error }
      return try validated(pruned)
    }
  }
}

/// What a schema is made of, and what came of it.
private final class SchemaStorage: Sendable {
  typealias SchemaError = GenerationSchema.SchemaError

  let node: SchemaNode
  private let result: Mutex<Result<ResolvedSchema, SchemaError>?>

  init(_ node: SchemaNode, resolved: ResolvedSchema? = nil) {
    self.node = node
    result = Mutex(resolved.map(Result.success))
  }

  func resolved(name: String) throws(SchemaError) -> ResolvedSchema {
    if let known = result.withLock(\.self) { return try known.get() }
    // Not under the lock: the schema of a type may be its own.
    let made = Result { () throws(SchemaError) in
      let json = try SchemaAssembler.assemble(node)
      return ResolvedSchema(json: json, rules: try SchemaCompiler.compile(json, name: name))
    }
    result.withLock { $0 = made }
    return try made.get()
  }
}
