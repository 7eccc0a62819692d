import FMImaging
import FMWire

/// Writes a transcript as JSON.
struct TranscriptWriter {
  /// Whether the pictures' bytes go into the text, so that it stands without their files.
  var embedsData = false

  func json(_ transcript: Transcript) -> JSONValue {
    var inner = JSONObject([("entries", .array(transcript.entries.map(json)))])
    inner.append(transcript.envelope.unknownInnerMembers)
    var top = JSONObject([
      ("type", .string(TranscriptEnvelope.type)), ("version", version(of: transcript)),
      ("transcript", .object(inner)),
    ])
    top.append(transcript.envelope.unknownMembers)
    return .object(top)
  }

  /// What version 1 has no words for is written as 1.1.
  private func version(of transcript: Transcript) -> JSONValue {
    let version = transcript.envelope.version
    guard version == 1 || version == "1" else { return version }
    let needsMore = transcript.contains { entry in
      switch entry {
      case .reasoning: true
      case .prompt(let prompt): prompt.contextOptions.reasoningLevel != nil
      default: false
      }
    }
    return needsMore ? "1.1" : version
  }

  private func json(_ entry: Transcript.Entry) -> JSONValue {
    var object = JSONObject()
    switch entry {
    case .instructions(let entry):
      object = head("instructions", entry.id)
      object["contents"] = contents(entry.segments)
      if !entry.toolDefinitions.isEmpty {
        object["tools"] = .array(entry.toolDefinitions.map(json))
      }
      object.append(entry.unknownMembers)
    case .prompt(let entry):
      object = head("user", entry.id)
      object["contents"] = contents(entry.segments)
      object["options"] = .object(options(entry))
      object["contextOptions"] = contextOptions(entry).map(JSONValue.object)
      if let format = entry.responseFormat {
        object["responseFormat"] = [
          "type": "jsonSchema",
          "jsonSchema": ["name": .string(format.name), "schema": format.schema.json],
        ]
      }
      object.append(metadata: entry.metadata)
      object.append(entry.unknownMembers)
    case .toolCalls(let entry):
      object = head("response", entry.id)
      object["toolCalls"] = .array(entry.calls.map(json))
      object.append(entry.unknownMembers)
    case .toolOutput(let entry):
      object = head("tool", entry.id)
      object["toolCallID"] = .string(entry.id)
      object["toolName"] = .string(entry.toolName)
      object["contents"] = contents(entry.segments)
      object.append(entry.unknownMembers)
    case .response(let entry):
      object = head("response", entry.id)
      object["contents"] = contents(entry.segments)
      object["assets"] = .array(entry.assetIDs.map(JSONValue.string))
      object.append(metadata: entry.metadata)
      object.append(entry.unknownMembers)
    case .reasoning(let entry):
      object = head("reasoning", entry.id)
      var inner = JSONObject([("contents", contents(entry.segments))])
      if let signature = entry.signatureBytes {
        inner["signature"] = .string(Base64.text(of: signature))
      }
      object["reasoning"] = .object(inner)
      object.append(metadata: entry.metadata)
      object.append(entry.unknownMembers)
    }
    return .object(object)
  }

  private func head(_ role: String, _ id: String) -> JSONObject {
    JSONObject([("id", .string(id)), ("role", .string(role))])
  }

  /// As they were read, unless they were changed since.
  private func options(_ entry: Transcript.Prompt) -> JSONObject {
    let read = try? GenerationOptions(json: JSONValue.object(entry.encodedOptions).jsonText)
    let isUnchanged = (read ?? GenerationOptions()) == entry.options
    return isUnchanged ? entry.encodedOptions : entry.options.json
  }

  /// nil where there is nothing to say.
  private func contextOptions(_ entry: Transcript.Prompt) -> JSONObject? {
    let read = entry.encodedContextOptions.map(ContextOptions.init(transcriptJSON:))
    if read == entry.contextOptions { return entry.encodedContextOptions }
    let options = entry.contextOptions.transcriptJSON
    return options.members.isEmpty ? nil : options
  }

  private func json(_ tool: Transcript.ToolDefinition) -> JSONValue {
    var function = JSONObject([
      ("name", .string(tool.name)), ("description", .string(tool.description)),
      ("parameters", tool.parameters.json),
    ])
    function.append(tool.unknownMembers)
    return ["type": "function", "function": .object(function)]
  }

  private func json(_ call: Transcript.ToolCall) -> JSONValue {
    var object = JSONObject([
      ("id", .string(call.id)), ("name", .string(call.toolName)),
      ("arguments", .string(call.arguments.jsonString)),
    ])
    object.append(metadata: call.metadata)
    object.append(call.unknownMembers)
    return .object(object)
  }

  private func contents(_ segments: [Transcript.Segment]) -> JSONValue {
    .array(segments.map(json))
  }

  private func json(_ segment: Transcript.Segment) -> JSONValue {
    var object = JSONObject()
    switch segment {
    case .text(let segment):
      object["type"] = "text"
      object["id"] = .string(segment.id)
      object["text"] = .string(segment.content)
      object.append(segment.unknownMembers)
    case .structure(let segment):
      object["type"] = "structure"
      object["id"] = .string(segment.id)
      object["structure"] = [
        "source": .string(segment.schemaName), "content": segment.content.jsonValue,
      ]
      object.append(segment.unknownMembers)
    case .attachment(let segment):
      object["type"] = "attachment"
      object["id"] = .string(segment.id)
      if let label = segment.label { object["label"] = .string(label) }
      if case .image(let image) = segment.content { object["attachment"] = .object(json(image)) }
      object.append(segment.unknownMembers)
    }
    return .object(object)
  }

  private func json(_ image: Transcript.ImageAttachment) -> JSONObject {
    var object = image.encoded
    object["type"] = "image"
    if let orientation = image.content.orientation {
      object["orientation"] = .number(JSONNumber(Int(orientation.rawValue)))
    }
    // A picture that could not be read stays as it was written.
    guard case .success(let source) = image.content.source else { return object }
    if let path = source.path { object["url"] = .string(FileURL.text(of: path)) }
    object["mediaType"] = .string(source.info.format.mediaType)
    object["sha256"] = .string(source.sha256Text)
    // Bytes that came from no file can be had nowhere else.
    let carriesData = embedsData || source.path == nil
    object["data"] = carriesData ? .string(Base64.text(of: source.bytes)) : nil
    return object
  }
}

extension JSONObject {
  fileprivate mutating func append(_ more: JSONObject) {
    for member in more.members where self[member.name] == nil { self[member.name] = member.value }
  }

  fileprivate mutating func append(metadata: [String: GeneratedContent]) {
    guard !metadata.isEmpty else { return }
    self["metadata"] = .object(
      JSONObject(metadata.sorted { $0.key < $1.key }.map { ($0.key, $0.value.jsonValue) }))
  }
}

extension GenerationOptions {
  /// The form that FMLanguageModelSessionRespond takes.
  package var json: JSONObject {
    var object = JSONObject()
    var sampling = JSONObject()
    func number(_ value: Double) -> JSONValue? { JSONNumber(value).map(JSONValue.number) }
    func seed(_ seed: UInt64?) { sampling["seed"] = seed.map { .number(JSONNumber($0)) } }
    switch samplingMode?.kind {
    case .greedy: sampling["mode"] = "greedy"
    case .randomTopK(let k, let value):
      sampling["mode"] = "random"
      sampling["top_k"] = .number(JSONNumber(k))
      seed(value)
    case .randomProbabilityThreshold(let threshold, let value):
      sampling["mode"] = "random"
      sampling["top_p"] = number(threshold)
      seed(value)
    case .random(let value):
      sampling["mode"] = "random"
      seed(value)
    case nil: break
    }
    if !sampling.members.isEmpty { object["sampling"] = .object(sampling) }
    object["temperature"] = temperature.flatMap(number)
    object["maximum_response_tokens"] = maximumResponseTokens.map { .number(JSONNumber($0)) }
    object["tool_choice"] = toolCallingMode.map { .string($0.kind.rawValue) }
    return object
  }
}
