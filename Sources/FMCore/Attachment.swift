import FMImaging
import FMWire

/// Something other than text that goes into a prompt, with a label by which a model can name it.
public struct Attachment<Content> {
  public let content: Content
  /// The label given, nil for none.
  package var labelText: String?

  package init(content: Content, labelText: String?) {
    self.content = content
    self.labelText = labelText
  }

  /// A copy with that label. Within one prompt a label stands once; a request with a repeated one
  /// throws `PromptError.duplicateLabel`.
  public func label(_ label: String) -> Attachment<Content> {
    Attachment(content: content, labelText: label)
  }
}

extension Attachment: Sendable where Content: Sendable {}
extension Attachment: Equatable where Content: Equatable {}

/// A picture as it was attached: its compressed bytes, or the failure to read them.
public struct ImageAttachmentContent: Sendable {
  let source: Result<SourceImage, ImageError>
  /// Replaces the file's own EXIF orientation; nil takes the file's. Never are both applied.
  let orientation: ImageOrientation?
  /// What was set for this picture over its model's policy.
  var policyChanges = ImagePolicyChanges()
}

extension ImageAttachmentContent: Equatable {
  /// Equal when the bytes are (by SHA-256), and the orientation and policy asked for are.
  public static func == (left: ImageAttachmentContent, right: ImageAttachmentContent) -> Bool {
    guard left.orientation == right.orientation, left.policyChanges == right.policyChanges else {
      return false
    }
    switch (left.source, right.source) {
    case (.success(let left), .success(let right)): return left.sha256 == right.sha256
    case (.failure(let left), .failure(let right)): return left == right
    default: return false
    }
  }
}

extension Attachment where Content == ImageAttachmentContent {
  /// The picture at `path`. The file is read, checked and closed here; a failure is recorded and
  /// thrown by the request, before any connection. Costs one read and one SHA-256 of the file.
  public init(path: String, orientation: ImageOrientation? = nil) {
    let source = Result { () throws(ImageError) in try SourceImage(contentsOfFile: path) }
    self.init(
      content: ImageAttachmentContent(source: source, orientation: orientation), labelText: nil)
  }

  /// The picture of a URL: `file:`, or `data:` with base64. Nothing is loaded from a network: a
  /// picture that lies there is a failure, as one that cannot be read.
  public init(imageURL: String, orientation: ImageOrientation? = nil) {
    self.init(
      content: ImageAttachmentContent(
        source: ImageAttachmentContent.source(ofURL: imageURL), orientation: orientation),
      labelText: nil)
  }

  /// The same, throwing `ImageError` at once.
  public init(validating path: String, orientation: ImageOrientation? = nil) throws(ImageError) {
    self.init(try SourceImage(contentsOfFile: path), orientation: orientation)
  }

  /// A picture already read.
  public init(_ source: SourceImage, orientation: ImageOrientation? = nil) {
    self.init(
      content: ImageAttachmentContent(source: .success(source), orientation: orientation),
      labelText: nil)
  }
}

extension Attachment where Content == ImageAttachmentContent {
  /// A copy that is sent by this policy, whatever model it goes to.
  public func imagePolicy(_ policy: ImagePolicy) -> Attachment {
    imagePolicy(changes: ImagePolicyChanges(policy))
  }

  package func imagePolicy(changes: ImagePolicyChanges) -> Attachment {
    var content = content
    content.policyChanges = changes
    return Attachment(content: content, labelText: labelText)
  }

  /// What a model would be sent for this picture.
  ///
  /// - Parameter policy: the model's, `model.imagePolicy`; what the attachment itself has set goes
  ///   over it.
  /// - Throws: `ImageError`. Cost: see `ImagePreparer`; a picture prepared before is remembered.
  public func prepare(policy: ImagePolicy = .default) throws(ImageError) -> PreparedImage {
    try content.prepare(policy: policy)
  }
}

extension ImageAttachmentContent {
  static func source(ofURL url: String) -> Result<SourceImage, ImageError> {
    if url.hasPrefix("data:") {
      guard let comma = url.firstIndex(of: ","), url[..<comma].hasSuffix(";base64") else {
        return .failure(
          ImageError(
            kind: .corrupt, message: "The data URL \(quoted(shortened(url))) holds no base64.",
            path: nil))
      }
      return source(ofBase64: String(url[url.index(after: comma)...]), path: nil)
    }
    guard let path = FileURL.path(of: url) else {
      return .failure(
        ImageError(
          kind: .notFound,
          message:
            "The picture at \(quoted(shortened(url))) is not loaded: only file: and data: URLs"
            + " are; save it to a file and attach that.", path: url))
    }
    return Result { () throws(ImageError) in try SourceImage(contentsOfFile: path) }
  }

  static func source(ofBase64 text: String, path: String?) -> Result<SourceImage, ImageError> {
    guard let bytes = Base64.bytes(of: text) else {
      return .failure(
        ImageError(kind: .corrupt, message: "The data of a picture is no base64.", path: path))
    }
    return Result { () throws(ImageError) in try SourceImage(bytes: bytes, path: path) }
  }

  func prepare(policy: ImagePolicy) throws(ImageError) -> PreparedImage {
    try ImagePreparer.shared.prepare(
      try source.get(), orientation: orientation, policy: policyChanges.applied(to: policy))
  }
}

extension Attachment: PromptRepresentable where Content == ImageAttachmentContent {
  public var promptRepresentation: Prompt { Prompt(components: [.image(self)]) }
}

extension Attachment: InstructionsRepresentable where Content == ImageAttachmentContent {
  public var instructionsRepresentation: Instructions { Instructions(components: [.image(self)]) }
}
