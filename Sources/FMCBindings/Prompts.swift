import FMCore
import FMImaging
import Synchronization

/// A composed prompt: grows piece by piece, and is copied into each request it is used for.
final class PromptObject: LiveObject, @unchecked Sendable {
  private struct State {
    var components: [PromptComponent] = []
    var labels: Set<String> = []
    /// What a function without an error channel could not say; the request says it.
    var failure: Failure?
  }

  private let state = Mutex(State())

  init() {
    super.init(.composedPrompt)
  }

  func append(_ text: String) {
    state.withLock { $0.components.append(.text(text)) }
  }

  /// A text that could not be taken; the requests that use this prompt fail with it.
  func refuse(_ failure: Failure) {
    state.withLock { $0.failure = $0.failure ?? failure }
  }

  func append(_ image: Attachment<ImageAttachmentContent>) throws {
    try state.withLock { state in
      if let label = image.labelText {
        guard state.labels.insert(label).inserted else { throw PromptError.duplicateLabel(label) }
      }
      state.components.append(.image(image))
    }
  }

  func snapshot() throws(Failure) -> Prompt {
    let (components, failure) = state.withLock { ($0.components, $0.failure) }
    if let failure { throw failure }
    return Prompt(components)
  }

  static func from(_ handle: UnsafeRawPointer?) throws(Failure) -> PromptObject {
    try HandleTable.shared.object(handle, as: PromptObject.self, "composed prompt")
  }
}

@_cdecl("FMComposedPromptInitialize")
public func fmComposedPromptInitialize() -> UnsafeRawPointer? {
  enter(else: nil) { HandleTable.shared.insert(PromptObject()) }
}

@_cdecl("FMComposedPromptAddText")
public func fmComposedPromptAddText(_ prompt: UnsafeRawPointer?, _ text: UnsafePointer<CChar>?) {
  enter(else: ()) {
    let prompt = try PromptObject.from(prompt)
    do {
      guard let text else { throw Failure(.invalidArgument, "The text is NULL.") }
      guard let valid = String(validatingCString: text) else { throw notUTF8 }
      prompt.append(valid)
    } catch {
      prompt.refuse(Failure(error))
      throw error
    }
  }
}

private let notUTF8 = PromptError.invalidText(
  message: "A text of the prompt is no UTF-8; decode it before it is added.")

@_cdecl("FMComposedPromptAddTextBytes")
public func fmComposedPromptAddTextBytes(
  _ prompt: UnsafeRawPointer?, _ text: UnsafePointer<UInt8>?, _ length: Int, _ code: ErrorCode,
  _ description: ErrorDescription
) -> Bool {
  enter(code, description, else: false) {
    let prompt = try PromptObject.from(prompt)
    guard let text else { throw Failure(.invalidArgument, "The text is NULL.") }
    let bytes = UnsafeBufferPointer(start: text, count: length)
    guard let valid = String(validating: bytes, as: UTF8.self) else { throw notUTF8 }
    guard !bytes.contains(0) else {
      throw PromptError.invalidText(message: "A text of the prompt holds a NUL; take it out.")
    }
    prompt.append(valid)
    return true
  }
}

@_cdecl("FMComposedPromptAddAttachment")
public func fmComposedPromptAddAttachment(
  _ prompt: UnsafeRawPointer?, _ path: UnsafePointer<CChar>?, _ label: UnsafePointer<CChar>?,
  _ error: UnsafeMutablePointer<UInt32>?
) -> Bool {
  enter(else: false) {
    do {
      try addAttachment(prompt, path, label, orientation: 0, expectedSHA256: nil)
      return true
    } catch let failure {
      error?.pointee = 3
      throw failure
    }
  }
}

@_cdecl("FMComposedPromptAddImage")
public func fmComposedPromptAddImage(
  _ prompt: UnsafeRawPointer?, _ path: UnsafePointer<CChar>?, _ error: UnsafeMutablePointer<UInt32>?
) -> Bool {
  fmComposedPromptAddAttachment(prompt, path, nil, error)
}

@_cdecl("FMComposedPromptAddIdentifiedImage")
public func fmComposedPromptAddIdentifiedImage(
  _ prompt: UnsafeRawPointer?, _ path: UnsafePointer<CChar>?,
  _ identifier: UnsafePointer<CChar>?, _ error: UnsafeMutablePointer<UInt32>?
) -> Bool {
  fmComposedPromptAddAttachment(prompt, path, identifier, error)
}

@_cdecl("FMComposedPromptAddAttachmentWithOrientation")
public func fmComposedPromptAddAttachmentWithOrientation(
  _ prompt: UnsafeRawPointer?, _ path: UnsafePointer<CChar>?, _ label: UnsafePointer<CChar>?,
  _ orientation: Int32, _ expectedSHA256: UnsafePointer<CChar>?, _ code: ErrorCode,
  _ description: ErrorDescription
) -> Bool {
  enter(code, description, else: false) {
    try addAttachment(
      prompt, path, label, orientation: orientation,
      expectedSHA256: try sha256Text(expectedSHA256))
    return true
  }
}

@_cdecl("FMComposedPromptAddAttachmentWithPolicy")
public func fmComposedPromptAddAttachmentWithPolicy(
  _ prompt: UnsafeRawPointer?, _ path: UnsafePointer<CChar>?, _ label: UnsafePointer<CChar>?,
  _ orientation: Int32, _ policyJSON: UnsafePointer<CChar>?,
  _ expectedSHA256: UnsafePointer<CChar>?, _ code: ErrorCode, _ description: ErrorDescription
) -> Bool {
  enter(code, description, else: false) {
    try addAttachment(
      prompt, path, label, orientation: orientation,
      policyJSON: try nonEmptyText(policyJSON, "image policy"),
      expectedSHA256: try sha256Text(expectedSHA256))
    return true
  }
}

private func addAttachment(
  _ prompt: UnsafeRawPointer?, _ path: UnsafePointer<CChar>?, _ label: UnsafePointer<CChar>?,
  orientation: Int32, policyJSON: String? = nil, expectedSHA256: String?
) throws {
  let prompt = try PromptObject.from(prompt)
  let orientation = try imageOrientation(orientation)
  let label = try labelText(label)
  if let label { try validateLabel(label) }
  let changes = try ImagePolicyChanges(json: policyJSON)
  let source = try SourceImage(
    contentsOfFile: try imagePath(path), expectedSHA256: expectedSHA256)
  var attachment = Attachment(source, orientation: orientation).imagePolicy(changes: changes)
  if let label { attachment = attachment.label(label) }
  try prompt.append(attachment)
}

private func labelText(_ pointer: UnsafePointer<CChar>?) throws -> String? {
  guard let pointer else { return nil }
  guard let label = String(validatingCString: pointer) else {
    throw Failure(.invalidLabel, "A picture's label is no UTF-8.")
  }
  return label
}

func imagePath(_ pointer: UnsafePointer<CChar>?) throws -> String {
  guard let pointer else { throw Failure(.invalidArgument, "The path is NULL.") }
  guard let path = String(validatingCString: pointer) else {
    throw Failure(
      .invalidImagePath,
      "The path \(quoted(String(cString: pointer))) is no UTF-8; rename the file.")
  }
  return path
}

/// 64 hexadecimal digits, nil for NULL.
func sha256Text(_ pointer: UnsafePointer<CChar>?) throws -> String? {
  guard let digits = try text(pointer, "SHA-256") else { return nil }
  guard digits.utf8.count == 64, digits.allSatisfy(\.isHexDigit) else {
    throw Failure(.invalidArgument, "The SHA-256 is not 64 hexadecimal digits.")
  }
  return digits
}

func imageOrientation(_ value: Int32) throws -> ImageOrientation? {
  guard value != 0 else { return nil }
  guard let orientation = UInt32(exactly: value).flatMap(ImageOrientation.init) else {
    throw PromptError.invalidOrientation(Int(value))
  }
  return orientation
}
