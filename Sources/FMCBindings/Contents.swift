import FMCore

/// A generated value as C callers hold it.
final class ContentObject: LiveObject, @unchecked Sendable {
  let content: GeneratedContent

  init(_ content: GeneratedContent) {
    self.content = content
    super.init(.generatedContent)
  }

  static func from(_ handle: UnsafeRawPointer?) throws(Failure) -> GeneratedContent {
    try HandleTable.shared.object(handle, as: ContentObject.self, "generated content").content
  }
}

@_cdecl("FMGeneratedContentCreateFromJSON")
public func fmGeneratedContentCreateFromJSON(
  _ json: UnsafePointer<CChar>?, _ code: ErrorCode, _ description: ErrorDescription
) -> UnsafeRawPointer? {
  enter(code, description, else: nil) {
    let text = try requiredText(json, "JSON text")
    do {
      return HandleTable.shared.insert(ContentObject(try GeneratedContent(json: text)))
    } catch {
      throw Failure(.unknown, Failure(error).message)
    }
  }
}

@_cdecl("FMGeneratedContentCreateFromJSONWithSchema")
public func fmGeneratedContentCreateFromJSONWithSchema(
  _ json: UnsafePointer<CChar>?, _ schema: UnsafeRawPointer?, _ code: ErrorCode,
  _ description: ErrorDescription
) -> UnsafeRawPointer? {
  enter(code, description, else: nil) {
    let schema = try SchemaObject.from(schema).schema()
    let text = try requiredText(json, "JSON text")
    return HandleTable.shared.insert(
      ContentObject(try GeneratedContent(json: text, schema: schema)))
  }
}

@_cdecl("FMGeneratedContentGetJSONString")
public func fmGeneratedContentGetJSONString(_ content: UnsafeRawPointer?) -> UnsafeMutablePointer<
  CChar
>? {
  enter(else: nil) { copyString(try ContentObject.from(content).jsonString) }
}

@_cdecl("FMGeneratedContentGetPropertyValue")
public func fmGeneratedContentGetPropertyValue(
  _ content: UnsafeRawPointer?, _ name: UnsafePointer<CChar>?, _ code: ErrorCode,
  _ description: ErrorDescription
) -> UnsafeMutablePointer<CChar>? {
  enter(code, description, else: nil) {
    let content = try ContentObject.from(content)
    let name = try requiredText(name, "property's name")
    do {
      return copyString(try content.value(String.self, forProperty: name))
    } catch {
      throw Failure(.unknown, Failure(error).message)
    }
  }
}

@_cdecl("FMGeneratedContentIsComplete")
public func fmGeneratedContentIsComplete(_ content: UnsafeRawPointer?) -> Bool {
  enter(else: false) { try ContentObject.from(content).isComplete }
}
