import FMImaging
import FMWire

/// One chat-completions request body, rendered from what a session asks.
struct ChatRequest {
  /// The JSON text. Long texts and pictures are not copied into it.
  var body: RequestBody
  /// The pictures of the newest prompt, as they are sent.
  var images: [SentImage]
  /// All pictures, as the log tells them.
  var pictures: [RequestRecord.Image]
  /// How much of the body is no picture.
  var textByteCount: Int

  /// Prepares the pictures and writes the body once; base64 is made straight from the prepared bytes,
  /// while it is sent.
  init(
    _ request: LanguageModelExecutorGenerationRequest, to configuration: ChatConfiguration,
    dialect: ServerDialect
  ) throws {
    var renderer = Renderer()
    try renderer.prepare(request.transcript, for: configuration)
    try renderer.write(request, configuration: configuration, dialect: dialect)
    body = renderer.writer.body
    textByteCount = body.count - renderer.imageByteCount
    images = renderer.imagesOfNewestPrompt
    pictures = renderer.prepared.map {
      RequestRecord.Image(width: $0.width, height: $0.height, byteCount: $0.bytes.count)
    }
  }
}

/// What became of one picture on its way to a server.
package struct SentImage: Sendable, Equatable {
  package var label: String?
  package var originalWidth: Int
  package var originalHeight: Int
  package var width: Int
  package var height: Int
  package var byteCount: Int
  package var mimeType: String
  package var action: String
  package var scale: Double
  package var orientation: Int

  package init(label: String?, prepared: PreparedImage) {
    self.label = label
    originalWidth = prepared.originalWidth
    originalHeight = prepared.originalHeight
    width = prepared.width
    height = prepared.height
    byteCount = prepared.bytes.count
    mimeType = prepared.format.mediaType
    action = prepared.action.rawValue
    scale = prepared.scale
    orientation = Int(prepared.orientation.rawValue)
  }

  package var json: JSONValue {
    [
      "label": label.map(JSONValue.string) ?? .null,
      "original_width": .number(JSONNumber(originalWidth)),
      "original_height": .number(JSONNumber(originalHeight)),
      "width": .number(JSONNumber(width)), "height": .number(JSONNumber(height)),
      "scale": JSONNumber(scale).map(JSONValue.number) ?? .null,
      "orientation": .number(JSONNumber(orientation)),
      "byte_count": .number(JSONNumber(byteCount)), "mime_type": .string(mimeType),
      "action": .string(action),
    ]
  }
}

/// The text that goes right before a labelled picture, so that a model can name it.
func labelMarker(_ label: String) -> String { "[image: \(label)]" }

private struct Renderer {
  var writer = JSONWriter(leavingLarge: true)
  var imagesOfNewestPrompt: [SentImage] = []
  private(set) var prepared: [PreparedImage] = []
  /// Bytes that the pictures take in the body.
  var imageByteCount = 0

  /// Prepares every picture before the first byte is written.
  mutating func prepare(_ transcript: Transcript, for configuration: ChatConfiguration) throws {
    var policy: ImagePolicy?
    for entry in transcript {
      if case .prompt = entry { imagesOfNewestPrompt = [] }
      for case .attachment(let segment) in entry.segments {
        guard case .image(let image) = segment.content else { continue }
        // Found out by the model's name: not for nothing.
        let known = policy ?? configuration.imagePolicy
        policy = known
        let one = try image.content.prepare(policy: known)
        prepared.append(one)
        imagesOfNewestPrompt.append(SentImage(label: segment.label, prepared: one))
      }
    }
    imageByteCount = prepared.reduce(0) { $0 + ($1.bytes.count + 2) / 3 * 4 }
  }

  mutating func write(
    _ request: LanguageModelExecutorGenerationRequest, configuration: ChatConfiguration,
    dialect: ServerDialect
  ) throws {
    let responseFormat = try request.schema.flatMap { try $0.responseFormat(for: dialect) }
    let extra = configuration.extraBody
    func member(_ name: String, _ value: JSONValue?) {
      guard let value, extra[name] == nil else { return }
      writer.name(name)
      writer.value(value)
    }
    writer.beginObject()
    member("model", .string(configuration.model))
    writer.name("messages")
    writer.beginArray()
    var images = prepared[...]
    writeMessages(request.transcript.entries, images: &images)
    writer.endArray()
    member("stream", true)
    member("stream_options", ["include_usage": true])
    let options = request.generationOptions
    let sampling = options.samplingMode?.kind
    member(
      "temperature", sampling == .greedy ? 0 : options.temperature.flatMap(number))
    switch sampling {
    case .randomTopK(let k, let seed):
      if dialect.sampling.topK { member("top_k", .number(JSONNumber(k))) }
      if dialect.sampling.seed { member("seed", seed.map { .number(JSONNumber($0)) }) }
    case .randomProbabilityThreshold(let threshold, let seed):
      member("top_p", number(threshold))
      if dialect.sampling.seed { member("seed", seed.map { .number(JSONNumber($0)) }) }
    case .random(let seed):
      if dialect.sampling.seed { member("seed", seed.map { .number(JSONNumber($0)) }) }
    case .greedy, nil: break
    }
    member(
      dialect.maximumTokensMember, options.maximumResponseTokens.map { .number(JSONNumber($0)) })
    if let level = request.contextOptions.reasoningLevel {
      let effort = JSONValue.string(level.effort)
      switch dialect.reasoningEffort {
      case .member: member("reasoning_effort", effort)
      case .templateArgument: member("chat_template_kwargs", ["reasoning_effort": effort])
      case .none: break
      }
    }
    writeTools(request, except: extra, dialect)
    member("response_format", responseFormat)
    for (name, value) in extra.members {
      writer.name(name)
      writer.value(value)
    }
    writer.endObject()
  }

  private func number(_ value: Double) -> JSONValue? { JSONNumber(value).map(JSONValue.number) }

  private mutating func writeTools(
    _ request: LanguageModelExecutorGenerationRequest, except extra: JSONObject,
    _ dialect: ServerDialect
  ) {
    let tools = request.enabledToolDefinitions
    guard !tools.isEmpty, extra["tools"] == nil else { return }
    // A server that cannot be told to leave them alone is not told of them.
    if request.generationOptions.toolCallingMode?.kind == .disallowed,
      !dialect.toolChoices.contains(.none)
    {
      return
    }
    writer.name("tools")
    writer.value(
      .array(
        tools.map { tool in
          [
            "type": "function",
            "function": [
              "name": .string(tool.name), "description": .string(tool.description),
              "parameters": tool.parameters.json,
            ],
          ]
        }))
    // What a model does anyway need not be said to servers that might not understand it.
    let choice: ServerDialect.ToolChoice =
      switch request.generationOptions.toolCallingMode?.kind {
      case .required: .required
      case .disallowed: .none
      case .allowed, nil: .auto
      }
    guard choice != .auto, dialect.toolChoices.contains(choice), extra["tool_choice"] == nil else {
      return
    }
    writer.name("tool_choice")
    writer.value(choice.rawValue)
  }

  private mutating func writeMessages(
    _ entries: [Transcript.Entry], images: inout ArraySlice<PreparedImage>
  ) {
    let newestPrompt = entries.lastIndex { if case .prompt = $0 { true } else { false } } ?? 0
    var reasoning: String?
    var outputPictures: [Transcript.Segment] = []
    for (index, entry) in entries.enumerated() {
      if case .toolOutput(let output) = entry {
        writeOutput(output)
        outputPictures += output.segments.filter { segment in
          if case .attachment = segment { true } else { false }
        }
        continue
      }
      writePictures(&outputPictures, images: &images)
      switch entry {
      case .instructions(let entry):
        guard !entry.segments.isEmpty else { continue }
        writeMessage("system", entry.segments, images: &images)
      case .prompt(let prompt):
        writeMessage("user", prompt.segments + entry.schemaSegments, images: &images)
      case .response(let entry):
        // What was said before a call is part of the call's message.
        if entries.indices.contains(index + 1), case .toolCalls = entries[index + 1] { continue }
        writeMessage("assistant", entry.segments, reasoning: reasoning, images: &images)
        reasoning = nil
      case .toolCalls(let calls):
        var said: [Transcript.Segment] = []
        if index > 0, case .response(let before) = entries[index - 1] { said = before.segments }
        writeMessage(
          "assistant", said, calls: calls, reasoning: reasoning, images: &images)
        reasoning = nil
      case .reasoning(let entry):
        // Of earlier turns it is of no use to the model, and some servers refuse it.
        guard index > newestPrompt else { continue }
        reasoning = entry.segments.compactMap { segment in
          if case .text(let text) = segment { text.content } else { nil }
        }.joined()
      case .toolOutput: break
      }
    }
    writePictures(&outputPictures, images: &images)
  }

  private mutating func writeMessage(
    _ role: String, _ segments: [Transcript.Segment], calls: Transcript.ToolCalls? = nil,
    reasoning: String? = nil, images: inout ArraySlice<PreparedImage>
  ) {
    writer.beginObject()
    writer.name("role")
    writer.value(role)
    if let reasoning {
      writer.name("reasoning_content")
      writer.value(reasoning)
    }
    writer.name("content")
    let parts = parts(of: segments)
    // A lone text goes as a string: some servers' templates take nothing else.
    if parts.isEmpty {
      writer.value("")
    } else if parts.count == 1, case .text(let text) = parts[0] {
      writer.value(text)
    } else {
      writer.beginArray()
      for part in parts { write(part, images: &images) }
      writer.endArray()
    }
    if let calls {
      writer.name("tool_calls")
      writer.value(
        .array(
          calls.map { call in
            [
              "id": .string(call.id), "type": "function",
              "function": [
                "name": .string(call.toolName), "arguments": .string(call.arguments.jsonString),
              ],
            ]
          }))
    }
    writer.endObject()
  }

  private mutating func writeOutput(_ output: Transcript.ToolOutput) {
    writer.beginObject()
    writer.name("role")
    writer.value("tool")
    writer.name("tool_call_id")
    writer.value(output.id)
    writer.name("name")
    writer.value(output.toolName)
    writer.name("content")
    let texts = parts(of: output.segments).map { if case .text(let text) = $0 { text } else { "" } }
    writer.value(texts.filter { !$0.isEmpty }.joined(separator: "\n"))
    writer.endObject()
  }

  /// Servers take no pictures in a tool's message: they follow in one of the user.
  private mutating func writePictures(
    _ pictures: inout [Transcript.Segment], images: inout ArraySlice<PreparedImage>
  ) {
    guard !pictures.isEmpty else { return }
    let heading = Transcript.TextSegment(content: "The pictures that the tools gave:")
    writeMessage("user", [.text(heading)] + pictures, images: &images)
    pictures = []
  }

  private enum Part {
    case text(String)
    case image
  }

  /// The parts of a message: a picture's label becomes text before it, and texts that meet are
  /// joined by a newline.
  private func parts(of segments: [Transcript.Segment]) -> [Part] {
    var parts: [Part] = []
    func append(_ text: String) {
      if case .text(let before) = parts.last {
        parts[parts.count - 1] = .text(before + "\n" + text)
      } else {
        parts.append(.text(text))
      }
    }
    for segment in segments {
      switch segment {
      case .text(let segment): append(segment.content)
      case .structure(let segment): append(segment.content.jsonString)
      case .attachment(let segment):
        if let label = segment.label { append(labelMarker(label)) }
        parts.append(.image)
      }
    }
    return parts
  }

  private mutating func write(_ part: Part, images: inout ArraySlice<PreparedImage>) {
    writer.beginObject()
    writer.name("type")
    switch part {
    case .text(let text):
      writer.value("text")
      writer.name("text")
      writer.value(text)
    case .image:
      let image = images.removeFirst()
      writer.value("image_url")
      writer.name("image_url")
      writer.beginObject()
      writer.name("url")
      writer.dataURL(mediaType: image.format.mediaType, bytes: image.bytes)
      writer.endObject()
    }
    writer.endObject()
  }
}

extension ContextOptions.ReasoningLevel {
  /// The word that servers have for it.
  fileprivate var effort: String {
    switch self {
    case .light: "low"
    case .moderate: "medium"
    case .deep: "high"
    case .custom(let word): word
    }
  }
}

extension GenerationSchema {
  /// The request's member that asks for an answer by this schema; nil where the server has none.
  fileprivate func responseFormat(for dialect: ServerDialect) throws -> JSONValue? {
    let form = try ServerSchema(self, within: dialect.grammar)
    switch dialect.responseFormat {
    case .jsonSchema:
      // Servers take only these characters in a schema's name, and 64 of them.
      let name = String(
        self.name.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? $0 : "_" }.prefix(64))
      return [
        "type": "json_schema",
        "json_schema": [
          "name": .string(name), "strict": .bool(form.isStrict), "schema": form.json,
        ],
      ]
    case .jsonObjectWithSchema: return ["type": "json_object", "schema": form.json]
    case .none: return nil
    }
  }
}

extension Transcript.Entry {
  /// What a prompt tells the model of the schema that its answer is to be valid by.
  var schemaSegments: [Transcript.Segment] {
    guard case .prompt(let prompt) = self, let format = prompt.responseFormat,
      prompt.contextOptions.includeSchemaInPrompt != false
    else { return [] }
    return [.text(Transcript.TextSegment(id: "schema", content: schemaText(format.schema)))]
  }

  var segments: [Transcript.Segment] {
    switch self {
    case .instructions(let entry): entry.segments
    case .prompt(let entry): entry.segments
    case .toolCalls: []
    case .toolOutput(let entry): entry.segments
    case .response(let entry): entry.segments
    case .reasoning(let entry): entry.segments
    }
  }
}
