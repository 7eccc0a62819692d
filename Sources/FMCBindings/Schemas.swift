import FMCore
import Synchronization

/// A schema as C callers build it, piece by piece; what it says is worked out when it is used.
final class SchemaObject: LiveObject, @unchecked Sendable {
  private struct Weak {
    weak var schema: SchemaObject?
  }

  private struct Parts {
    var properties: [SchemaPropertyObject] = []
    var references: [SchemaObject] = []
    /// References that lead back here: owning them would keep the circle alive for ever.
    var circular: [Weak] = []
  }

  private let name: String
  private let description: String?
  /// A schema that came whole, from JSON.
  private let fixed: GenerationSchema?
  private let parts = Mutex(Parts())

  init(name: String, description: String?) {
    self.name = name
    self.description = description
    fixed = nil
    super.init(.generationSchema)
  }

  init(_ schema: GenerationSchema) {
    name = schema.name
    description = nil
    fixed = schema
    super.init(.generationSchema)
  }

  static func from(_ handle: UnsafeRawPointer?) throws(Failure) -> SchemaObject {
    try HandleTable.shared.object(handle, as: SchemaObject.self, "schema")
  }

  func add(_ property: SchemaPropertyObject) throws(Failure) {
    try requireOpen()
    parts.withLock { $0.properties.append(property) }
  }

  func add(_ reference: SchemaObject) throws(Failure) {
    try requireOpen()
    guard reference !== self else { return }
    var visited: Set<ObjectIdentifier> = []
    let leadsBack = reference.leads(to: self, &visited)
    parts.withLock { parts in
      if leadsBack {
        parts.circular.append(Weak(schema: reference))
      } else {
        parts.references.append(reference)
      }
    }
  }

  /// The schema as it is now.
  func schema() throws -> GenerationSchema {
    if let fixed { return fixed }
    var visited: Set<ObjectIdentifier> = []
    return try GenerationSchema(declaration(&visited))
  }

  private func requireOpen() throws(Failure) {
    guard fixed == nil else {
      throw Failure(
        .invalidArgument,
        "The schema \(quoted(name)) was made from JSON; nothing can be added to it.")
    }
  }

  private func all() -> (properties: [SchemaPropertyObject], references: [SchemaObject]) {
    parts.withLock { ($0.properties, $0.references + $0.circular.compactMap(\.schema)) }
  }

  private func leads(to other: SchemaObject, _ visited: inout Set<ObjectIdentifier>) -> Bool {
    guard visited.insert(ObjectIdentifier(self)).inserted else { return false }
    return all().references.contains { $0 === other || $0.leads(to: other, &visited) }
  }

  private func declaration(_ visited: inout Set<ObjectIdentifier>) -> SchemaDeclaration {
    visited.insert(ObjectIdentifier(self))
    let (properties, references) = all()
    var declaration = SchemaDeclaration(
      name: name, description: description, properties: properties.map(\.declaration))
    for reference in references where !visited.contains(ObjectIdentifier(reference)) {
      if let fixed = reference.fixed {
        declaration.references.append(.schema(fixed))
      } else {
        declaration.references.append(.declaration(reference.declaration(&visited)))
      }
    }
    return declaration
  }
}

/// One property of a schema, with the guides added so far.
final class SchemaPropertyObject: LiveObject, @unchecked Sendable {
  private let property: Mutex<SchemaDeclaration.Property>

  init(_ property: SchemaDeclaration.Property) {
    self.property = Mutex(property)
    super.init(.generationSchemaProperty)
  }

  static func from(_ handle: UnsafeRawPointer?) throws(Failure) -> SchemaPropertyObject {
    try HandleTable.shared.object(handle, as: SchemaPropertyObject.self, "property")
  }

  var declaration: SchemaDeclaration.Property { property.withLock(\.self) }

  func add(_ guide: SchemaGuide, toElements: Bool) {
    property.withLock { $0.guides.append(toElements ? .element(guide) : guide) }
  }
}

// MARK: - Building

@_cdecl("FMGenerationSchemaCreate")
public func fmGenerationSchemaCreate(
  _ name: UnsafePointer<CChar>?, _ description: UnsafePointer<CChar>?
) -> UnsafeRawPointer? {
  enter(else: nil) {
    HandleTable.shared.insert(
      SchemaObject(
        name: try requiredText(name, "schema's name"),
        description: try text(description, "schema's description")))
  }
}

@_cdecl("FMGenerationSchemaCreateFromJSON")
public func fmGenerationSchemaCreateFromJSON(
  _ json: UnsafePointer<CChar>?, _ code: ErrorCode, _ errorDescription: ErrorDescription
) -> UnsafeRawPointer? {
  enter(code, errorDescription, else: nil) {
    HandleTable.shared.insert(
      SchemaObject(try GenerationSchema(json: try requiredText(json, "schema"))))
  }
}

@_cdecl("FMGenerationSchemaCreateFromDeclarationJSON")
public func fmGenerationSchemaCreateFromDeclarationJSON(
  _ json: UnsafePointer<CChar>?, _ code: ErrorCode, _ errorDescription: ErrorDescription
) -> UnsafeRawPointer? {
  enter(code, errorDescription, else: nil) {
    let declaration = try SchemaDeclaration(json: try requiredText(json, "declaration"))
    return HandleTable.shared.insert(SchemaObject(try GenerationSchema(declaration)))
  }
}

@_cdecl("FMGenerationSchemaAddProperty")
public func fmGenerationSchemaAddProperty(
  _ schema: UnsafeRawPointer?, _ property: UnsafeRawPointer?
) {
  enter(else: ()) {
    try SchemaObject.from(schema).add(try SchemaPropertyObject.from(property))
  }
}

@_cdecl("FMGenerationSchemaAddReferenceSchema")
public func fmGenerationSchemaAddReferenceSchema(
  _ schema: UnsafeRawPointer?, _ reference: UnsafeRawPointer?
) {
  enter(else: ()) { try SchemaObject.from(schema).add(try SchemaObject.from(reference)) }
}

@_cdecl("FMGenerationSchemaGetJSONString")
public func fmGenerationSchemaGetJSONString(
  _ schema: UnsafeRawPointer?, _ code: ErrorCode, _ errorDescription: ErrorDescription
) -> UnsafeMutablePointer<CChar>? {
  enter(code, errorDescription, else: nil) {
    let object = try SchemaObject.from(schema)
    do {
      return copyString(try object.schema().jsonString)
    } catch {
      // The reference gives this code for whatever is wrong.
      throw Failure(.invalidSchema, Failure(error).message)
    }
  }
}

@_cdecl("FMGenerationSchemaPropertyCreate")
public func fmGenerationSchemaPropertyCreate(
  _ name: UnsafePointer<CChar>?, _ description: UnsafePointer<CChar>?,
  _ typeName: UnsafePointer<CChar>?, _ isOptional: Bool
) -> UnsafeRawPointer? {
  enter(else: nil) {
    HandleTable.shared.insert(
      SchemaPropertyObject(
        SchemaDeclaration.Property(
          name: try requiredText(name, "property's name"),
          description: try text(description, "property's description"),
          type: .name(try requiredText(typeName, "property's type")), isOptional: isOptional)))
  }
}

// MARK: - Guides

private func add(
  _ property: UnsafeRawPointer?, toElements: Bool, _ guide: () throws -> SchemaGuide
) {
  enter(else: ()) {
    let property = try SchemaPropertyObject.from(property)
    property.add(try guide(), toElements: toElements)
  }
}

@_cdecl("FMGenerationSchemaPropertyAddAnyOfGuide")
public func fmGenerationSchemaPropertyAddAnyOfGuide(
  _ property: UnsafeRawPointer?, _ choices: UnsafePointer<UnsafePointer<CChar>?>?,
  _ choiceCount: Int32, _ wrapped: Bool
) {
  add(property, toElements: wrapped) {
    guard let choices, choiceCount >= 0 else {
      throw Failure(.invalidArgument, "The choices are NULL, or their count is below 0.")
    }
    return .anyOf(
      try UnsafeBufferPointer(start: choices, count: Int(choiceCount)).map {
        try requiredText($0, "choice")
      })
  }
}

@_cdecl("FMGenerationSchemaPropertyAddCountGuide")
public func fmGenerationSchemaPropertyAddCountGuide(
  _ property: UnsafeRawPointer?, _ count: Int32, _ wrapped: Bool
) {
  add(property, toElements: wrapped) { .count(Int(count)) }
}

@_cdecl("FMGenerationSchemaPropertyAddMaximumGuide")
public func fmGenerationSchemaPropertyAddMaximumGuide(
  _ property: UnsafeRawPointer?, _ maximum: Double, _ wrapped: Bool
) {
  add(property, toElements: wrapped) { .maximum(maximum) }
}

@_cdecl("FMGenerationSchemaPropertyAddMinimumGuide")
public func fmGenerationSchemaPropertyAddMinimumGuide(
  _ property: UnsafeRawPointer?, _ minimum: Double, _ wrapped: Bool
) {
  add(property, toElements: wrapped) { .minimum(minimum) }
}

@_cdecl("FMGenerationSchemaPropertyAddMinItemsGuide")
public func fmGenerationSchemaPropertyAddMinItemsGuide(
  _ property: UnsafeRawPointer?, _ count: Int32
) {
  add(property, toElements: false) { .minimumCount(Int(count)) }
}

@_cdecl("FMGenerationSchemaPropertyAddMaxItemsGuide")
public func fmGenerationSchemaPropertyAddMaxItemsGuide(
  _ property: UnsafeRawPointer?, _ count: Int32
) {
  add(property, toElements: false) { .maximumCount(Int(count)) }
}

@_cdecl("FMGenerationSchemaPropertyAddRangeGuide")
public func fmGenerationSchemaPropertyAddRangeGuide(
  _ property: UnsafeRawPointer?, _ minimum: Double, _ maximum: Double, _ wrapped: Bool
) {
  add(property, toElements: wrapped) { .range(minimum, maximum) }
}

@_cdecl("FMGenerationSchemaPropertyAddRegex")
public func fmGenerationSchemaPropertyAddRegex(
  _ property: UnsafeRawPointer?, _ pattern: UnsafePointer<CChar>?, _ wrapped: Bool
) {
  add(property, toElements: wrapped) { .pattern(try requiredText(pattern, "pattern")) }
}
