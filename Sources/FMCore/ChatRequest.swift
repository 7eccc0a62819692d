import FMImaging
import FMWire

/// One chat-completions request body, rendered from what a session asks.
struct ChatRequest {
  /// The JSON text.
  var body: [UInt8]
  /// The pictures of the newest prompt, as they are sent.
  var images: [SentImage]
  /// All pictures, as the log tells them.
  var pictures: [RequestRecord.Image]

  /// Prepares the pictures and writes the body once, base64 straight from the prepared bytes.
  init(
    _ request: LanguageModelExecutorGenerationRequest, to configuration: ChatConfiguration,
    dialect: ServerDialect
  ) throws {
    var renderer = Renderer(policy: configuration.imagePolicy)
    try renderer.prepare(request.transcript)
    renderer.write(request, configuration: configuration, dialect: dialect)
    body = renderer.writer.bytes
    images = renderer.imagesOfNewestPrompt
    pictures = renderer.prepared.map {
      RequestRecord.Image(width: $0.width, height: $0.height, byteCount: $0.bytes.count)
    }
  }
}

/// What became of one picture on its way to a server.
package struct SentImage: Sendable, Equatable {
  package var label: String?
  package var sourceWidth: Int
  package var sourceHeight: Int
  package var width: Int
  package var height: Int
  package var byteCount: Int
  package var mediaType: String
  package var route: String

  package init(label: String?, prepared: PreparedImage) {
    self.label = label
    sourceWidth = prepared.sourceWidth
    sourceHeight = prepared.sourceHeight
    width = prepared.width
    height = prepared.height
    byteCount = prepared.bytes.count
    mediaType = prepared.format.mediaType
    route = prepared.route.rawValue
  }

  package var json: JSONValue {
    [
      "label": label.map(JSONValue.string) ?? .null,
      "source_width": .number(JSONNumber(sourceWidth)),
      "source_height": .number(JSONNumber(sourceHeight)),
      "width": .number(JSONNumber(width)), "height": .number(JSONNumber(height)),
      "byte_count": .number(JSONNumber(byteCount)), "media_type": .string(mediaType),
      "route": .string(route),
    ]
  }
}

/// The text that goes right before a labelled picture, so that a model can name it.
func labelMarker(_ label: String) -> String { "[image: \(label)]" }

private struct Renderer {
  let policy: ImagePolicy
  var writer = JSONWriter()
  var imagesOfNewestPrompt: [SentImage] = []
  private(set) var prepared: [PreparedImage] = []

  init(policy: ImagePolicy) {
    self.policy = policy
  }

  /// Prepares every picture before the first byte is written, so that the body is allocated once.
  mutating func prepare(_ transcript: Transcript) throws {
    for entry in transcript {
      if case .prompt = entry { imagesOfNewestPrompt = [] }
      for case .attachment(let segment) in entry.segments {
        guard case .image(let image) = segment.content else { continue }
        let one = try ImagePreparer.shared.prepare(
          try image.content.source.get(), orientation: image.content.orientation, policy: policy)
        prepared.append(one)
        imagesOfNewestPrompt.append(SentImage(label: segment.label, prepared: one))
      }
    }
    let imageBytes = prepared.reduce(0) { $0 + ($1.bytes.count + 2) / 3 * 4 + 128 }
    writer = JSONWriter(reservingCapacity: imageBytes + 4096)
  }

  mutating func write(
    _ request: LanguageModelExecutorGenerationRequest, configuration: ChatConfiguration,
    dialect: ServerDialect
  ) {
    let extra = configuration.extraBody
    func member(_ name: String, _ value: JSONValue?) {
      guard let value, extra[name] == nil else { return }
      writer.name(name)
      writer.value(value)
    }
    writer.beginObject()
    member("model", .string(configuration.model))
    if extra["messages"] == nil {
      writer.name("messages")
      writer.beginArray()
      var images = prepared[...]
      for entry in request.transcript { write(entry, images: &images) }
      writer.endArray()
    }
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
    member("response_format", request.schema.flatMap { responseFormat($0, dialect) })
    for (name, value) in extra.members {
      writer.name(name)
      writer.value(value)
    }
    writer.endObject()
  }

  private func number(_ value: Double) -> JSONValue? { JSONNumber(value).map(JSONValue.number) }

  private func responseFormat(_ schema: GenerationSchema, _ dialect: ServerDialect) -> JSONValue? {
    switch dialect.responseFormat {
    case .jsonSchema:
      // Servers take only these characters in a schema's name, and 64 of them.
      let name = String(
        schema.name.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? $0 : "_" }.prefix(64))
      return [
        "type": "json_schema",
        "json_schema": ["name": .string(name), "strict": true, "schema": schema.json],
      ]
    case .jsonObjectWithSchema: return ["type": "json_object", "schema": schema.json]
    case .none: return nil
    }
  }

  private mutating func write(_ entry: Transcript.Entry, images: inout ArraySlice<PreparedImage>) {
    writer.beginObject()
    writer.name("role")
    switch entry {
    case .instructions: writer.value("system")
    case .prompt: writer.value("user")
    case .response: writer.value("assistant")
    }
    writer.name("content")
    let parts = parts(of: entry.segments)
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
    writer.endObject()
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

extension Transcript.Entry {
  var segments: [Transcript.Segment] {
    switch self {
    case .instructions(let entry): entry.segments
    case .prompt(let entry): entry.segments
    case .response(let entry): entry.segments
    }
  }
}
