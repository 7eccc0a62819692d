import FMWire

/// A picture that a model names by its label, in a guided answer or in a tool's arguments.
///
/// While an answer is guided, only labels that are really attached can be named: in the prompt, in
/// an earlier one, or in the instructions.
public struct ImageReference: Sendable, Equatable {
  public let attachmentLabel: String

  package init(attachmentLabel: String) {
    self.attachmentLabel = attachmentLabel
  }

  /// The attachment of that label; the newest where several have it. nil where there is none: the
  /// label was made up, or its entry is gone from the transcript.
  public func resolved(in entries: some Sequence<Transcript.Entry>) -> Transcript.ImageAttachment? {
    try? attachment(in: entries)
  }

  /// The same, with an error that names the labels there are.
  public func attachment(
    in entries: some Sequence<Transcript.Entry>
  ) throws(UnknownLabel) -> Transcript.ImageAttachment {
    let labelled = entries.labelledImages
    guard let found = labelled.last(where: { $0.label == attachmentLabel }) else {
      throw UnknownLabel(label: attachmentLabel, knownLabels: labelled.map(\.label).unique)
    }
    return found.image
  }

  /// Nothing attached has the label.
  public struct UnknownLabel: Error, Sendable, Equatable, CustomDebugStringConvertible {
    public let label: String
    /// In the order in which they were attached.
    public let knownLabels: [String]

    public var debugDescription: String {
      let known =
        knownLabels.isEmpty
        ? "no attachment has a label"
        : "there are \(knownLabels.map(quoted).joined(separator: ", "))"
      return "No attachment has the label \(quoted(label)); \(known)."
    }
  }
}

extension ImageReference: Generable {
  public init(_ content: GeneratedContent) throws {
    attachmentLabel = try content.value(forProperty: Self.property)
  }

  public var generatedContent: GeneratedContent {
    GeneratedContent(.object(JSONObject([(Self.property, .string(attachmentLabel))])))
  }

  public static var generationSchema: GenerationSchema {
    GenerationSchema(name: schemaName, .document(name: schemaName, schemaJSON))
  }

  public struct PartiallyGenerated: Sendable, Equatable, Identifiable,
    ConvertibleFromGeneratedContent
  {
    public let id: GenerationID
    public let attachmentLabel: String?

    public init(_ content: GeneratedContent) throws {
      id = content.id ?? GenerationID()
      attachmentLabel = try content.value(forProperty: ImageReference.property)
    }
  }

  private static let property = "attachmentLabel"
  static let schemaName = "ImageReference"
  static let schemaJSON: JSONValue = [
    "title": "ImageReference", "type": "object",
    "description": "One of the attached pictures.",
    "properties": [
      "attachmentLabel": ["type": "string", "description": "The label of the picture."]
    ],
    "required": ["attachmentLabel"], "x-order": ["attachmentLabel"], "additionalProperties": false,
  ]
}

extension Sequence<Transcript.Entry> {
  /// The pictures that have a label, in the order in which they were attached.
  package var labelledImages: [(label: String, image: Transcript.ImageAttachment)] {
    flatMap { entry in
      entry.segments.compactMap { segment in
        guard case .attachment(let attachment) = segment, let label = attachment.label,
          case .image(let image) = attachment.content
        else { return nil }
        return (label: label, image: image)
      }
    }
  }
}

extension [String] {
  /// Each element once, where it first stood.
  fileprivate var unique: [String] {
    var seen: Set<String> = []
    return filter { seen.insert($0).inserted }
  }
}

extension Transcript.ImageAttachment {
  /// The answer of FMLanguageModelSessionCopyAttachmentJSON.
  package func descriptionJSON(label: ImageReference) throws -> String {
    let source = try content.source.get()
    let value: JSONValue = [
      "label": .string(label.attachmentLabel), "path": path.map(JSONValue.string) ?? .null,
      "orientation": .number(JSONNumber(Int(orientation.rawValue))),
      "sha256": .string(source.sha256Text),
      "mime_type": .string(source.info.format.mediaType),
      "byte_count": .number(JSONNumber(source.bytes.count)),
    ]
    return value.jsonText
  }
}

// MARK: - Only what is attached

extension GenerationSchema {
  /// Whether any part of the schema is an image reference.
  package var namesImages: Bool { json.holdsImageReference }

  /// The schema with its image references limited to those labels. Without labels they stay open:
  /// a tool may be offered before any picture is attached.
  package func limitingImageReferences(to labels: [String]) throws(SchemaError) -> GenerationSchema
  {
    guard !labels.isEmpty else { return self }
    let json = try resolved().json
    guard json.holdsImageReference else { return self }
    return try GenerationSchema(json: json.limitingImageReferences(to: labels.unique))
  }
}

extension GenerationSchema {
  /// The schema for where no picture has a label: without the optional properties that are image
  /// references, with null alone where a reference or null may stand, and with empty lists alone of
  /// references; nil where a reference must be given.
  func leavingOutImageReferences() throws(SchemaError) -> GenerationSchema? {
    let json = try resolved().json
    var rest = json.leavingOutImageReferences(of: json)
    let definition = "#/$defs/\(ImageReference.schemaName)"
    if !rest.refers(to: definition), case .object(var object) = rest,
      var definitions = object["$defs"]?.objectValue
    {
      definitions[ImageReference.schemaName] = nil
      object["$defs"] = definitions.members.isEmpty ? nil : .object(definitions)
      rest = .object(object)
    }
    return rest.holdsImageReference ? nil : try GenerationSchema(json: rest)
  }
}

extension JSONValue {
  fileprivate func leavingOutImageReferences(of root: JSONValue) -> JSONValue {
    switch self {
    case .array(let elements):
      return .array(elements.map { $0.leavingOutImageReferences(of: root) })
    case .object(var object):
      func isReference(_ schema: JSONValue) -> Bool {
        (schema["$ref"]?.stringValue.flatMap(root.target) ?? schema).isImageReference
      }
      let required = object["required"]?.arrayValue ?? []
      for index in object.members.indices {
        let (name, value) = object.members[index]
        var kept = value
        switch value {
        case .object(let properties) where name == "properties":
          kept = .object(
            JSONObject(
              properties.members.filter {
                required.contains(.string($0.name)) || !isReference($0.value)
              }.map { ($0.name, $0.value) }))
        case .array(let alternatives) where name == "anyOf" || name == "oneOf":
          let others = alternatives.filter { !isReference($0) }
          // Without any, it stays what it is: a reference must be given.
          if !others.isEmpty { kept = .array(others) }
        default: break
        }
        object.members[index].value = kept.leavingOutImageReferences(of: root)
      }
      if object["type"]?.stringValue == "array", let items = object["items"], isReference(items),
        object["minItems"]?.intValue ?? 0 == 0
      {
        object["items"] = nil
        object["maxItems"] = 0
      }
      return .object(object)
    default: return self
    }
  }

  fileprivate func refers(to reference: String) -> Bool {
    switch self {
    case .array(let elements): elements.contains { $0.refers(to: reference) }
    case .object(let object):
      object["$ref"] == .string(reference)
        || object.members.contains { $0.value.refers(to: reference) }
    default: false
    }
  }
}

extension JSONValue {
  /// An object of that title with that one property, however it came into the schema.
  private var isImageReference: Bool {
    guard let object = objectValue, object["title"]?.stringValue == ImageReference.schemaName,
      let properties = object["properties"]?.objectValue?.members
    else { return false }
    return properties.count == 1 && properties[0].name == "attachmentLabel"
  }

  fileprivate var holdsImageReference: Bool {
    switch self {
    case .array(let elements): elements.contains(where: \.holdsImageReference)
    case .object(let object):
      isImageReference || object.members.contains(where: \.value.holdsImageReference)
    default: false
    }
  }

  fileprivate func limitingImageReferences(to labels: [String]) -> JSONValue {
    switch self {
    case .array(let elements):
      return .array(elements.map { $0.limitingImageReferences(to: labels) })
    case .object(var object):
      if isImageReference {
        object["properties"] = [
          "attachmentLabel": [
            "type": "string", "enum": .array(labels.map(JSONValue.string)),
            "description": "The label of the picture.",
          ]
        ]
        return .object(object)
      }
      for index in object.members.indices {
        object.members[index].value = object.members[index].value.limitingImageReferences(
          to: labels)
      }
      return .object(object)
    default: return self
    }
  }
}
