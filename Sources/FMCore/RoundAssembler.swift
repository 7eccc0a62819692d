import FMWire

/// Gathers an executor's events of one round into entries: reasoning, what was said, tool calls.
struct RoundAssembler {
  typealias Channel = LanguageModelExecutorGenerationChannel

  private(set) var usage = Usage()
  private(set) var metadata: [String: GeneratedContent] = [:]
  private var said = TextSegments()
  private var thought = TextSegments()
  private var attachments: [Transcript.AttachmentSegment] = []
  private var signature: [UInt8]?
  private var calls: [Call] = []

  /// A call whose arguments are still text.
  struct Call {
    var id: String
    var name: String
    var arguments = ""
    var metadata: [String: GeneratedContent] = [:]
  }

  var text: String { said.text }
  var toolCalls: [Call] { calls }

  /// The change of the answer's text, if the event makes one.
  mutating func take(_ event: any Channel.Event) -> TextUpdate? {
    switch event {
    case let event as Channel.ResponseEvent: return take(event.action)
    case let event as Channel.ReasoningEvent: take(event.action)
    case let event as Channel.ToolCallsEvent: take(event.action)
    default: break
    }
    return nil
  }

  private mutating func take(_ action: Channel.Action) -> TextUpdate? {
    switch action {
    case .appendText(let more, let id, _):
      guard !more.isEmpty else { return nil }
      return said.append(more, to: id) ? .appended(more) : .replaced(said.text)
    case .replaceTextSegment(let whole, let id, _):
      said.replace(whole, of: id)
      return .replaced(said.text)
    case .addAttachmentSegment(let segment): attachments.append(segment)
    case .removeAttachmentSegment(let id): attachments.removeAll { $0.id == id }
    case .updateMetadata(let values): metadata = values.mapValues(\.generatedContent)
    case .updateUsage(let input, let output, let metadata):
      usage = Usage(input: input, output: output, metadata: metadata)
    }
    return nil
  }

  /// Reasoning is kept out of the answer; its usage and metadata belong to the response too.
  private mutating func take(_ action: Channel.ReasoningAction) {
    switch action {
    case .appendText(let more, let id, _): _ = thought.append(more, to: id)
    case .replaceTextSegment(let whole, let id, _): thought.replace(whole, of: id)
    case .updateSignature(let bytes, _): signature = bytes
    case .updateMetadata(let values): metadata = values.mapValues(\.generatedContent)
    case .updateUsage(let input, let output, let metadata):
      usage = Usage(input: input, output: output, metadata: metadata)
    }
  }

  private mutating func take(_ action: Channel.ToolCallsAction) {
    switch action {
    case .toolCall(let id, let name, let action):
      let known = calls.firstIndex { $0.id == id }
      let index = known ?? calls.endIndex
      if known == nil { calls.append(Call(id: id, name: name)) }
      calls[index].name = name
      switch action {
      case .appendArguments(let more, _): calls[index].arguments += more
      case .updateMetadata(let values):
        calls[index].metadata = values.mapValues(\.generatedContent)
      }
    case .removeToolCall(let id): calls.removeAll { $0.id == id }
    case .updateMetadata(let values): metadata = values.mapValues(\.generatedContent)
    case .updateUsage(let input, let output, let metadata):
      usage = Usage(input: input, output: output, metadata: metadata)
    }
  }

  /// The entry of what was thought; nil when nothing was.
  var reasoning: Transcript.Reasoning? {
    guard !thought.text.isEmpty || signature != nil else { return nil }
    return Transcript.Reasoning(
      segments: [.text(Transcript.TextSegment(content: thought.text))], signatureBytes: signature)
  }

  /// The entry of what was said, with `content` in place of the text where it is given.
  func response(content segment: Transcript.Segment? = nil) -> Transcript.Response {
    let text = Transcript.Segment.text(Transcript.TextSegment(id: "0", content: said.text))
    var response = Transcript.Response(
      segments: [segment ?? text] + attachments.map(Transcript.Segment.attachment))
    // How the request was sent is known of the response, and no part of what was said.
    response.metadata = metadata.filter { !["images", "server", "warnings"].contains($0.key) }
    return response
  }
}

/// Texts by the ids of their segments, in the order in which those began.
private struct TextSegments {
  private var segments: [(id: String?, text: String)] = []

  var text: String {
    segments.count == 1 ? segments[0].text : segments.map(\.text).joined()
  }

  /// Whether the text as a whole only grew at its end.
  mutating func append(_ more: String, to id: String?) -> Bool {
    let index = id == nil ? segments.indices.last : segments.lastIndex { $0.id == id }
    guard let index else {
      segments.append((id, more))
      return true
    }
    segments[index].text += more
    return index == segments.count - 1
  }

  mutating func replace(_ whole: String, of id: String?) {
    let index = id == nil ? segments.indices.last : segments.lastIndex { $0.id == id }
    guard let index else {
      segments.append((id, whole))
      return
    }
    segments[index].text = whole
  }
}
