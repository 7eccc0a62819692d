import FMImaging
import FMWire

/// What was said in a session, in order.
///
/// Read from and written as JSON by `init(json:)` and `jsonText`.
public struct Transcript: Sendable {
  package var entries: [Entry]
  /// What the JSON it was read from says around its entries.
  var envelope = TranscriptEnvelope()

  public init(entries: some Sequence<Entry> = []) {
    self.entries = Array(entries)
  }

  public enum Entry: Sendable, Equatable, Identifiable {
    case instructions(Instructions)
    case prompt(Prompt)
    case toolCalls(ToolCalls)
    case toolOutput(ToolOutput)
    case response(Response)
    case reasoning(Reasoning)

    public var id: String {
      switch self {
      case .instructions(let entry): entry.id
      case .prompt(let entry): entry.id
      case .toolCalls(let entry): entry.id
      case .toolOutput(let entry): entry.id
      case .response(let entry): entry.id
      case .reasoning(let entry): entry.id
      }
    }
  }

  public enum Segment: Sendable, Equatable, Identifiable {
    case text(TextSegment)
    case structure(StructuredSegment)
    case attachment(AttachmentSegment)

    public var id: String {
      switch self {
      case .text(let segment): segment.id
      case .structure(let segment): segment.id
      case .attachment(let segment): segment.id
      }
    }
  }

  public struct TextSegment: Sendable, Equatable, Identifiable {
    public var id: String
    public var content: String
    var unknownMembers = JSONObject()

    public init(id: String = makeUUID(), content: String) {
      self.id = id
      self.content = content
    }
  }

  public struct StructuredSegment: Sendable, Equatable, Identifiable {
    public var id: String
    public var schemaName: String
    public var content: GeneratedContent
    var unknownMembers = JSONObject()

    public init(id: String = makeUUID(), schemaName: String, content: GeneratedContent) {
      self.id = id
      self.schemaName = schemaName
      self.content = content
    }
  }

  public struct AttachmentSegment: Sendable, Equatable, Identifiable {
    public var id: String
    public var content: Attachment
    public var label: String?
    var unknownMembers = JSONObject()

    public init(id: String = makeUUID(), content: Attachment, label: String? = nil) {
      self.id = id
      self.content = content
      self.label = label
    }
  }

  public enum Attachment: Sendable, Equatable {
    case image(ImageAttachment)
  }

  /// A picture of the transcript: its compressed bytes as they were attached.
  public struct ImageAttachment: Sendable, Equatable {
    let content: ImageAttachmentContent
    /// As the JSON had it that it was read from: what could not be read then is written unchanged.
    var encoded = JSONObject()

    public static func == (left: ImageAttachment, right: ImageAttachment) -> Bool {
      left.content == right.content
    }

    init(content: ImageAttachmentContent, encoded: JSONObject = JSONObject()) {
      self.content = content
      self.encoded = encoded
    }

    /// The picture that an attachment holds.
    public init(_ attachment: FMCore.Attachment<ImageAttachmentContent>) {
      self.init(content: attachment.content)
    }

    /// The picture at `path`, as `Attachment(path:orientation:)` reads it.
    public init(path: String, orientation: ImageOrientation? = nil) {
      self.init(FMCore.Attachment(path: path, orientation: orientation))
    }

    /// The picture of a `file:` or `data:` URL, as `Attachment(imageURL:orientation:)` reads it.
    public init(imageURL: String, orientation: ImageOrientation? = nil) {
      self.init(FMCore.Attachment(imageURL: imageURL, orientation: orientation))
    }

    /// The path that was given; nil for a picture that came as bytes.
    public var path: String? {
      switch content.source {
      case .success(let source): source.path
      case .failure(let error): error.path
      }
    }

    /// The same as a `file:` URL.
    public var url: String? { path.map(FileURL.text) }

    /// The orientation that applies: the one asked for, else the file's own.
    public var orientation: ImageOrientation {
      if let orientation = content.orientation { return orientation }
      if case .success(let source) = content.source { return source.info.orientation }
      return .up
    }
  }

  public struct Instructions: Sendable, Equatable, Identifiable {
    public var id: String
    public var segments: [Segment]
    /// The tools that the model was told of.
    public var toolDefinitions: [ToolDefinition]
    var unknownMembers = JSONObject()

    public init(
      id: String = makeUUID(), segments: [Segment], toolDefinitions: [ToolDefinition] = []
    ) {
      self.id = id
      self.segments = segments
      self.toolDefinitions = toolDefinitions
    }
  }

  public struct Prompt: Sendable, Equatable, Identifiable {
    public var id: String
    public var segments: [Segment]
    public var options: GenerationOptions
    public var contextOptions: ContextOptions
    /// What the caller gave along.
    public var metadata: [String: GeneratedContent]
    /// The options as the JSON had them that they were read from.
    var encodedOptions = JSONObject()
    /// The same of the context's, where they say what is not understood.
    var encodedContextOptions: JSONObject?
    var unknownMembers = JSONObject()
    public var responseFormat: ResponseFormat?

    public init(
      id: String = makeUUID(), metadata: [String: any ConvertibleToGeneratedContent] = [:],
      segments: [Segment], options: GenerationOptions = GenerationOptions(),
      responseFormat: ResponseFormat? = nil, contextOptions: ContextOptions = ContextOptions()
    ) {
      self.id = id
      self.segments = segments
      self.options = options
      self.responseFormat = responseFormat
      self.contextOptions = contextOptions
      self.metadata = metadata.mapValues(\.generatedContent)
    }
  }

  public struct ResponseFormat: Sendable, Equatable {
    public let schema: GenerationSchema
    public var name: String { schema.name }
    public var kind: Kind { .schema(schema) }

    public enum Kind: Sendable, Equatable {
      case schema(GenerationSchema)
    }

    public init(schema: GenerationSchema) {
      self.schema = schema
    }

    public init<Content: Generable>(type: Content.Type) {
      self.init(schema: type.generationSchema)
    }
  }

  public struct Response: Sendable, Equatable, Identifiable {
    public var id: String
    public var segments: [Segment]
    public internal(set) var metadata: [String: GeneratedContent]
    /// What the model that answered is known by.
    public var assetIDs: [String] = []
    var unknownMembers = JSONObject()

    public init(id: String = makeUUID(), assetIDs: [String], segments: [Segment]) {
      self.init(id: id, segments: segments)
      self.assetIDs = assetIDs
    }

    public init(
      id: String = makeUUID(), metadata: [String: any ConvertibleToGeneratedContent] = [:],
      segments: [Segment]
    ) {
      self.id = id
      self.metadata = metadata.mapValues(\.generatedContent)
      self.segments = segments
    }
  }
}

extension Transcript: Equatable {
  public static func == (left: Transcript, right: Transcript) -> Bool {
    left.entries == right.entries
  }
}

extension Transcript: RandomAccessCollection, MutableCollection, RangeReplaceableCollection {
  public init() { entries = [] }
  public var startIndex: Int { entries.startIndex }
  public var endIndex: Int { entries.endIndex }
  public subscript(position: Int) -> Entry {
    get { entries[position] }
    set { entries[position] = newValue }
  }
  public mutating func replaceSubrange(
    _ range: Range<Int>, with newElements: some Collection<Entry>
  ) {
    entries.replaceSubrange(range, with: newElements)
  }
}

extension [Transcript.Segment] {
  init(_ components: [PromptComponent]) {
    self = components.map { component in
      switch component {
      case .text(let text): .text(Transcript.TextSegment(content: text))
      case .image(let image):
        .attachment(
          Transcript.AttachmentSegment(
            content: .image(Transcript.ImageAttachment(content: image.content)),
            label: image.labelText))
      }
    }
  }

  var holdsImages: Bool {
    contains { if case .attachment = $0 { true } else { false } }
  }
}
