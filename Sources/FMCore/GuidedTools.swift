import FMWire

/// Tool calling for models that have none: the tools are told in words, and the model chooses a call
/// by guided generation. The calls and outputs of a transcript become plain messages.
struct GuidedTools {
  private let tools: [Transcript.ToolDefinition]
  /// The tools whose parameters are not told in words.
  private let reticent: Set<String>
  /// No tool can have this name: it holds a space.
  private static let none = "no tool"

  init(_ tools: [AnyTool]) {
    self.tools = tools.map(\.definition)
    reticent = Set(tools.filter { !$0.tool.includesSchemaInInstructions }.map(\.name))
  }

  init(definitions: [Transcript.ToolDefinition]) {
    tools = definitions
    reticent = []
  }

  // MARK: - What is sent

  /// The transcript with the question which tool to call.
  func choosing(in transcript: Transcript) -> Transcript {
    var plain = answering(in: transcript)
    let question =
      "Is a tool needed first? Answer with JSON: {\"tool\": NAME, \"arguments\": {...}} to call a"
      + " tool, {\"tool\": \"\(Self.none)\"} when you can answer."
    if case .prompt(var prompt) = plain.entries.last {
      prompt.segments.append(.text(Transcript.TextSegment(content: question)))
      plain.entries[plain.entries.count - 1] = .prompt(prompt)
    }
    return plain
  }

  /// The transcript in plain messages.
  func answering(in transcript: Transcript) -> Transcript {
    var entries: [Transcript.Entry] = []
    for entry in transcript.entries {
      switch entry {
      case .toolCalls(let calls):
        let text = calls.map { call in
          "{\"tool\": \(JSONValue.string(call.toolName).jsonText),"
            + " \"arguments\": \(call.arguments.jsonString)}"
        }.joined(separator: "\n")
        entries.append(
          .response(
            Transcript.Response(
              id: calls.id, segments: [.text(Transcript.TextSegment(content: text))])))
      case .toolOutput(let output):
        let heading = Transcript.Segment.text(
          Transcript.TextSegment(content: "The tool \(output.toolName) gave:"))
        // Templates want the roles to alternate: what several tools gave is one message.
        if case .prompt(var prompt) = entries.last {
          prompt.segments += [heading] + output.segments
          entries[entries.count - 1] = .prompt(prompt)
        } else {
          entries.append(
            .prompt(Transcript.Prompt(id: output.id, segments: [heading] + output.segments)))
        }
      default: entries.append(entry)
      }
    }
    let told = Transcript.Segment.text(Transcript.TextSegment(content: description))
    if case .instructions(var instructions) = entries.first {
      instructions.segments.append(told)
      entries[0] = .instructions(instructions)
    } else {
      entries.insert(.instructions(Transcript.Instructions(segments: [told])), at: 0)
    }
    return Transcript(entries: entries)
  }

  private var description: String {
    let lines = tools.map { tool in
      let schema =
        reticent.contains(tool.name) ? "" : " Arguments: \(tool.parameters.json.jsonText)"
      return "- \(tool.name): \(tool.description)\(schema)"
    }
    return "You can call these tools:\n" + lines.joined(separator: "\n")
  }

  // MARK: - What comes back

  /// One alternative a tool, and one for none.
  func schema(mustCall: Bool) throws -> GenerationSchema {
    var definitions = JSONObject()
    var alternatives: [JSONValue] = []
    for tool in tools {
      let name = "\(tool.name)Arguments"
      hoist(tool.parameters.json, as: name, into: &definitions)
      alternatives.append(
        object([
          ("tool", ["type": "string", "enum": [.string(tool.name)]]),
          ("arguments", ["$ref": .string("#/$defs/\(name)")]),
        ]))
    }
    if !mustCall {
      alternatives.append(object([("tool", ["type": "string", "enum": [.string(Self.none)]])]))
    }
    let schema: JSONValue = [
      "title": "ToolChoice", "anyOf": .array(alternatives), "$defs": .object(definitions),
    ]
    return try GenerationSchema(json: schema.jsonText)
  }

  private func object(_ properties: [(String, JSONValue)]) -> JSONValue {
    [
      "type": "object", "properties": .object(JSONObject(properties)),
      "required": .array(properties.map { .string($0.0) }), "additionalProperties": false,
      "x-order": .array(properties.map { .string($0.0) }),
    ]
  }

  /// Puts a tool's schema and those it refers to under names of their own.
  private func hoist(_ schema: JSONValue, as name: String, into definitions: inout JSONObject) {
    guard var root = schema.objectValue else {
      definitions[name] = schema
      return
    }
    let inner = root["$defs"]?.objectValue ?? JSONObject()
    root["$defs"] = nil
    definitions[name] = renamed(.object(root), within: name)
    for member in inner.members {
      definitions["\(name).\(member.name)"] = renamed(member.value, within: name)
    }
  }

  private func renamed(_ schema: JSONValue, within name: String) -> JSONValue {
    switch schema {
    case .array(let elements): return .array(elements.map { renamed($0, within: name) })
    case .object(let object):
      return .object(
        JSONObject(
          object.members.map { member in
            guard member.name == "$ref", case .string(let reference) = member.value else {
              return (member.name, renamed(member.value, within: name))
            }
            let prefix = "#/$defs/"
            let target =
              reference.hasPrefix(prefix)
              ? "\(prefix)\(name).\(reference.dropFirst(prefix.count))" : "\(prefix)\(name)"
            return ("$ref", .string(target))
          }))
    default: return schema
    }
  }

  /// The call that the model chose; nil for none.
  func call(chosenBy text: String) throws -> RoundAssembler.Call? {
    let choice = try GeneratedContent(json: text).jsonValue
    guard let name = choice["tool"]?.stringValue else {
      throw GeneratedContent.ParsingError(
        rawContent: text,
        debugDescription: "The model was to choose a tool and said \(shortened(text, to: 200))")
    }
    if name == Self.none { return nil }
    return RoundAssembler.Call(
      id: "call_\(makeUUID())", name: name, arguments: choice["arguments"]?.jsonText ?? "")
  }
}
