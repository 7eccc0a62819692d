import FMImaging
import FMWire

/// Reads a transcript's JSON: the envelope, versions 1 and 1.1, and this library's own attachment
/// segments. What it does not know is kept and written again.
struct TranscriptReader {
  /// Pictures that are in memory already, by SHA-256: they are not read from their files again.
  var knownSources: [String: SourceImage] = [:]

  func read(_ text: String) throws(TranscriptError) -> Transcript {
    let value: JSONValue
    do {
      value = try JSONValue(parsing: text)
    } catch {
      throw TranscriptError("$", "it is no JSON: \(error.message) at byte \(error.offset)")
    }
    return try read(value)
  }

  func read(_ value: JSONValue) throws(TranscriptError) -> Transcript {
    var top = try Members(value, at: "$")
    let type = top.take("type")
    guard type == nil || type == .string(TranscriptEnvelope.type) else {
      throw TranscriptError("$.type", "it is not \(quoted(TranscriptEnvelope.type))")
    }
    var envelope = TranscriptEnvelope()
    if let version = top.take("version") {
      guard [1, "1", "1.1"].contains(version) || version.doubleValue == 1.1 else {
        throw TranscriptError("$.version", "versions 1 and 1.1 are known, not \(version.jsonText)")
      }
      envelope.version = version
    }
    guard let inner = top.take("transcript") else {
      throw TranscriptError("$", "it has no member \"transcript\"")
    }
    envelope.unknownMembers = top.rest
    var members = try Members(inner, at: "$.transcript")
    let elements = try members.array("entries", isRequired: true)
    var entries: [Transcript.Entry] = []
    for (index, element) in elements.enumerated() {
      entries.append(try entry(element, at: "$.transcript.entries[\(index)]"))
    }
    envelope.unknownInnerMembers = members.rest
    var transcript = Transcript(entries: entries)
    transcript.envelope = envelope
    return transcript
  }

  // MARK: - Entries

  private func entry(_ value: JSONValue, at path: String) throws(TranscriptError)
    -> Transcript.Entry
  {
    var members = try Members(value, at: path)
    switch try members.text("role") {
    case "instructions": return .instructions(try instructions(&members))
    case "user": return .prompt(try prompt(&members))
    case "response":
      return members.object["toolCalls"] == nil
        ? .response(try response(&members)) : .toolCalls(try toolCalls(&members))
    case "tool": return .toolOutput(try toolOutput(&members))
    case "reasoning": return .reasoning(try reasoning(&members))
    case let role:
      throw TranscriptError("\(path).role", "\(quoted(role)) is no role of a transcript")
    }
  }

  private func instructions(_ members: inout Members) throws(TranscriptError)
    -> Transcript.Instructions
  {
    var entry = Transcript.Instructions(
      id: try members.text("id"), segments: try segments(&members))
    for (index, value) in try members.array("tools").enumerated() {
      entry.toolDefinitions.append(
        try toolDefinition(value, at: "\(members.path).tools[\(index)]"))
    }
    entry.unknownMembers = members.rest
    return entry
  }

  private func toolDefinition(_ value: JSONValue, at path: String) throws(TranscriptError)
    -> Transcript.ToolDefinition
  {
    var tool = try Members(value, at: path)
    _ = tool.take("type")
    var function = try Members(tool.take("function") ?? value, at: "\(path).function")
    let name = try function.text("name")
    let description = function.take("description")?.stringValue ?? ""
    let parameters = try schema(
      function.take("parameters") ?? ["type": "object"], at: "\(path).function.parameters")
    var definition = Transcript.ToolDefinition(
      name: name, description: description, parameters: parameters)
    definition.unknownMembers = function.rest
    return definition
  }

  private func prompt(_ members: inout Members) throws(TranscriptError) -> Transcript.Prompt {
    var entry = Transcript.Prompt(id: try members.text("id"), segments: try segments(&members))
    if let options = members.take("options")?.objectValue {
      entry.encodedOptions = options
      // What another version of the format says in other words does not keep a transcript from
      // being read.
      if let known = try? GenerationOptions(json: JSONValue.object(options).jsonText) {
        entry.options = known
      }
    }
    if let options = members.take("contextOptions")?.objectValue {
      entry.contextOptions = ContextOptions(transcriptJSON: options)
      let known = entry.contextOptions.transcriptJSON
      if options.members.isEmpty || known != options { entry.encodedContextOptions = options }
    }
    entry.metadata = members.metadata()
    if let format = members.take("responseFormat") {
      let schemaPath = "\(members.path).responseFormat.jsonSchema.schema"
      guard let value = format["jsonSchema"]?["schema"] else {
        throw TranscriptError(schemaPath, "there is no schema")
      }
      var schema = try schema(value, at: schemaPath)
      // A schema without a title has its name beside it.
      if let name = format["jsonSchema"]?["name"]?.stringValue { schema.name = name }
      entry.responseFormat = Transcript.ResponseFormat(schema: schema)
    }
    entry.unknownMembers = members.rest
    return entry
  }

  private func response(_ members: inout Members) throws(TranscriptError) -> Transcript.Response {
    var entry = Transcript.Response(id: try members.text("id"), segments: try segments(&members))
    entry.assetIDs = try members.array("assets").compactMap(\.stringValue)
    entry.metadata = members.metadata()
    entry.unknownMembers = members.rest
    return entry
  }

  private func toolCalls(_ members: inout Members) throws(TranscriptError)
    -> Transcript.ToolCalls
  {
    let id = try members.text("id")
    var calls: [Transcript.ToolCall] = []
    for (index, value) in try members.array("toolCalls").enumerated() {
      let path = "\(members.path).toolCalls[\(index)]"
      var call = try Members(value, at: path)
      let callID = try call.text("id")
      let name = try call.text("name")
      let arguments: JSONValue
      switch call.take("arguments") {
      case .string(let text):
        do {
          arguments = try JSONValue(parsing: text)
        } catch {
          throw TranscriptError(
            "\(path).arguments", "they are no JSON: \(error.message) at byte \(error.offset)")
        }
      case let value?: arguments = value
      case nil: arguments = [:]
      }
      var entry = Transcript.ToolCall(
        id: callID, toolName: name, arguments: GeneratedContent(arguments))
      entry.metadata = call.metadata()
      entry.unknownMembers = call.rest
      calls.append(entry)
    }
    var entry = Transcript.ToolCalls(id: id, calls)
    entry.unknownMembers = members.rest
    return entry
  }

  private func toolOutput(_ members: inout Members) throws(TranscriptError)
    -> Transcript.ToolOutput
  {
    let callID = members.take("toolCallID")?.stringValue
    let id = members.take("id")?.stringValue
    guard let id = callID ?? id else {
      throw TranscriptError("\(members.path).toolCallID", "it is missing")
    }
    let name = members.take("toolName")?.stringValue ?? ""
    var entry = Transcript.ToolOutput(id: id, toolName: name, segments: try segments(&members))
    entry.unknownMembers = members.rest
    return entry
  }

  private func reasoning(_ members: inout Members) throws(TranscriptError)
    -> Transcript.Reasoning
  {
    let id = try members.text("id")
    var inner = try Members(members.take("reasoning") ?? [:], at: "\(members.path).reasoning")
    var entry = Transcript.Reasoning(id: id, segments: try segments(&inner))
    if let signature = inner.take("signature")?.stringValue {
      guard let bytes = Base64.bytes(of: signature) else {
        throw TranscriptError("\(inner.path).signature", "it is no base64")
      }
      entry.signatureBytes = bytes
    }
    entry.metadata = members.metadata()
    entry.unknownMembers = members.rest
    return entry
  }

  private func schema(_ value: JSONValue, at path: String) throws(TranscriptError)
    -> GenerationSchema
  {
    do {
      return try GenerationSchema(json: value.jsonText)
    } catch {
      throw TranscriptError(path, Failure(error).message)
    }
  }

  // MARK: - Segments

  private func segments(_ members: inout Members) throws(TranscriptError) -> [Transcript.Segment] {
    var result: [Transcript.Segment] = []
    for (index, value) in try members.array("contents", isRequired: true).enumerated() {
      result.append(try segment(value, at: "\(members.path).contents[\(index)]"))
    }
    return result
  }

  private func segment(_ value: JSONValue, at path: String) throws(TranscriptError)
    -> Transcript.Segment
  {
    var members = try Members(value, at: path)
    let id = members.take("id")?.stringValue ?? makeUUID()
    switch try members.text("type") {
    case "text":
      var segment = Transcript.TextSegment(id: id, content: try members.text("text"))
      segment.unknownMembers = members.rest
      return .text(segment)
    case "structure":
      var structure = try Members(members.take("structure") ?? .null, at: "\(path).structure")
      let source = structure.take("source")?.stringValue ?? ""
      guard let content = structure.take("content", keepingNull: true) else {
        throw TranscriptError("\(path).structure.content", "it is missing")
      }
      var segment = Transcript.StructuredSegment(
        id: id, schemaName: source, content: GeneratedContent(content))
      segment.unknownMembers = members.rest
      return .structure(segment)
    case "attachment":
      let label = members.take("label")?.stringValue
      guard let encoded = members.take("attachment")?.objectValue else {
        throw TranscriptError("\(path).attachment", "it is missing")
      }
      var segment = Transcript.AttachmentSegment(
        id: id,
        content: .image(
          Transcript.ImageAttachment(
            content: try image(encoded, at: "\(path).attachment"), encoded: encoded)),
        label: label)
      segment.unknownMembers = members.rest
      return .attachment(segment)
    case let type:
      throw TranscriptError("\(path).type", "\(quoted(type)) is no type of a segment")
    }
  }

  /// A picture that cannot be had any more is no reason not to read what was said about it: the
  /// failure is thrown when the transcript is sent.
  private func image(_ encoded: JSONObject, at path: String) throws(TranscriptError)
    -> ImageAttachmentContent
  {
    if let type = encoded["type"]?.stringValue, type != "image" {
      throw TranscriptError("\(path).type", "\(quoted(type)) is no type of an attachment")
    }
    var orientation: ImageOrientation?
    if let value = encoded["orientation"], !value.isNull {
      guard let number = value.intValue.flatMap(UInt32.init(exactly:)),
        let known = ImageOrientation(rawValue: number)
      else { throw TranscriptError("\(path).orientation", "it is no number from 1 to 8") }
      orientation = known
    }
    return ImageAttachmentContent(source: source(encoded), orientation: orientation)
  }

  private func source(_ encoded: JSONObject) -> Result<SourceImage, ImageError> {
    let sha256 = encoded["sha256"]?.stringValue?.lowercased()
    if let sha256, let known = knownSources[sha256] { return .success(known) }
    let url = encoded["url"]?.stringValue
    let path = url.flatMap(FileURL.path)
    if let text = encoded["data"]?.stringValue {
      return ImageAttachmentContent.source(ofBase64: text, path: path)
    }
    if let url, url.hasPrefix("data:") { return ImageAttachmentContent.source(ofURL: url) }
    guard let path else {
      return .failure(
        ImageError(
          kind: .notFound,
          message: "A picture of the transcript has neither data nor a file"
            + "\(url.map { " (its URL is \(quoted(shortened($0))))" } ?? ""); attach it again.",
          path: url))
    }
    return Result { () throws(ImageError) in
      try SourceImage(contentsOfFile: path, expectedSHA256: sha256)
    }
  }
}

/// An object's members, of which those taken are known and the rest is kept.
private struct Members {
  let object: JSONObject
  let path: String
  private var taken: Set<String> = []

  init(_ value: JSONValue, at path: String) throws(TranscriptError) {
    guard let object = value.objectValue else { throw TranscriptError(path, "it is no object") }
    self.object = object
    self.path = path
  }

  var rest: JSONObject {
    JSONObject(object.members.filter { !taken.contains($0.name) }.map { ($0.name, $0.value) })
  }

  /// nil where it is missing, or null.
  mutating func take(_ name: String, keepingNull: Bool = false) -> JSONValue? {
    guard let value = object[name], keepingNull || !value.isNull else { return nil }
    taken.insert(name)
    return value
  }

  mutating func text(_ name: String) throws(TranscriptError) -> String {
    guard let text = take(name)?.stringValue else {
      throw TranscriptError(
        "\(path).\(name)", object[name] == nil ? "it is missing" : "it is no text")
    }
    return text
  }

  mutating func array(_ name: String, isRequired: Bool = false) throws(TranscriptError)
    -> [JSONValue]
  {
    guard let value = take(name) else {
      guard !isRequired else { throw TranscriptError("\(path).\(name)", "it is missing") }
      return []
    }
    guard let elements = value.arrayValue else {
      throw TranscriptError("\(path).\(name)", "it is no array")
    }
    return elements
  }

  mutating func metadata() -> [String: GeneratedContent] {
    guard let object = object["metadata"]?.objectValue else { return [:] }
    taken.insert("metadata")
    var result: [String: GeneratedContent] = [:]
    for (name, value) in object.members { result[name] = GeneratedContent(value) }
    return result
  }
}
