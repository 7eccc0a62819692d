/// Turns the bytes of an answer, an event stream or one JSON text, into chat events.
///
/// Which of the two it is decides the first byte, not the content type: servers send JSON errors as
/// event streams and event streams as plain text.
struct ChatStreamDecoder {
  /// Bytes of an answer that is one JSON text.
  private static let maxBody = 64 << 20

  private enum Form {
    case unknown
    case events(SSEParser)
    case json
    case page
  }

  /// [DONE] was read; what follows means nothing.
  private(set) var isDone = false
  private(set) var hasFinishReason = false
  /// What the server says about the answer beside its events: `id`, `model`, `system_fingerprint`
  /// and llama.cpp's `timings`, as far as they have come.
  private(set) var details = JSONObject()
  /// The start of a body that is read as events though it does not begin like one.
  private var strangeHead: [UInt8]?

  private let failure: ServerFailure
  private var form = Form.unknown
  /// A JSON text or page so far, or what came before its first byte that is no white space.
  private var body: [UInt8] = []
  private var parsed: [SSEEvent] = []

  init(failure: ServerFailure) { self.failure = failure }

  /// Appends the events that `chunk` completes. When it throws, those before the error are there.
  mutating func feed(_ chunk: [UInt8], into events: inout [ChatEvent]) throws(WireError) {
    switch form {
    case .unknown:
      body.append(contentsOf: chunk)
      guard let first = Self.firstByte(of: body) else { return }
      switch first {
      case UInt8(ascii: "{"), UInt8(ascii: "["): form = .json
      case UInt8(ascii: "<"): form = .page
      default:
        form = .events(SSEParser(url: failure.url))
        let start = body
        body = []
        if !Self.beginsLikeEvents(start) { strangeHead = start }
        try feed(start, into: &events)
      }
    case .events(var parser):
      form = .unknown  // so that the parser's buffers are not copied
      var found = parsed
      parsed = []
      let result = Result { () throws(WireError) in try parser.feed(chunk, into: &found) }
      form = .events(parser)
      try take(found, into: &events)
      found.removeAll(keepingCapacity: true)
      parsed = found
      try result.get()
    case .json, .page:
      body.append(contentsOf: chunk)
      if body.count > Self.maxBody {
        throw failure.invalid("an answer longer than \(Self.maxBody) bytes", body: body)
      }
    }
  }

  /// The body is over. Throws `.endedEarly` when the answer is not.
  mutating func finish(into events: inout [ChatEvent]) throws(WireError) {
    switch form {
    case .unknown: break
    case .page: throw failure.error(body: body)
    case .json:
      try takeJSON(into: &events)
      return
    case .events(var parser):
      var found: [SSEEvent] = []
      try parser.finish(into: &found)
      try take(found, into: &events)
    }
    guard !isDone && !hasFinishReason else { return }
    if let strangeHead {
      throw failure.invalid("an answer that is no event stream and no JSON", body: strangeHead)
    }
    throw failure.endedEarly()
  }

  /// Whether the bytes start with a comment or a field of an event stream, as far as they go.
  private static func beginsLikeEvents(_ bytes: [UInt8]) -> Bool {
    let text = String(decoding: bytes.prefix(16), as: UTF8.self).trimmingASCIIWhitespace()
    return [":", "data", "event", "id", "retry", "error"].contains {
      text.hasPrefix($0) || $0.hasPrefix(text)
    }
  }

  /// The first byte after white space and a byte order mark.
  private static func firstByte(of bytes: [UInt8]) -> UInt8? {
    var rest = bytes[...]
    // A mark that is not there in full yet does not decide anything.
    let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
    if rest.count < 3 && mark.starts(with: rest) { return nil }
    if rest.starts(with: mark) { rest = rest.dropFirst(3) }
    return rest.first { $0 != 32 && !(9...13 ~= $0) }
  }

  // MARK: - Event streams

  private mutating func take(
    _ found: [SSEEvent], into events: inout [ChatEvent]
  ) throws(WireError) {
    for event in found {
      if isDone { return }
      try take(event, into: &events)
    }
  }

  private mutating func take(
    _ event: SSEEvent, into events: inout [ChatEvent]
  ) throws(WireError) {
    if event.name == "error" { throw failure.error(midstream: event.data) }
    if event.data.elementsEqual("[DONE]".utf8) {
      isDone = true
      return
    }
    let chunk: JSONValue
    do throws(JSONError) {
      chunk = try JSONValue(parsing: event.data)
    } catch {
      let text = String(decoding: event.data, as: UTF8.self).trimmingASCIIWhitespace()
      // Some gateways wrap comments in data lines.
      if text.isEmpty || text.hasPrefix(":") { return }
      if text == "[DONE]" {
        isDone = true
        return
      }
      throw failure.error(unparsed: text, because: error)
    }
    if ServerFailure.isError(chunk) { throw failure.error(midstream: event.data) }
    takeChunk(chunk, choiceMember: "delta", into: &events)
  }

  // MARK: - Chunks and completions

  private mutating func takeJSON(into events: inout [ChatEvent]) throws(WireError) {
    let completion: JSONValue
    do throws(JSONError) {
      completion = try JSONValue(parsing: body)
    } catch {
      throw failure.invalid(
        "JSON that is none (at byte \(error.offset): \(error.message))", body: body)
    }
    if ServerFailure.isError(completion) { throw failure.error(body: body) }
    guard completion["choices"]?.arrayValue?.isEmpty == false else {
      throw failure.invalid("JSON that is no completion", body: body)
    }
    takeChunk(completion, choiceMember: "message", into: &events)
  }

  private mutating func takeChunk(
    _ chunk: JSONValue, choiceMember: String, into events: inout [ChatEvent]
  ) {
    // The first chunk names the model; timings come with the last.
    if details.members.isEmpty {
      for name in ["id", "model", "system_fingerprint"] {
        if let value = chunk[name], !value.isNull { details[name] = value }
      }
    }
    if let timings = chunk["timings"], !timings.isNull { details["timings"] = timings }
    let choices = chunk["choices"]?.arrayValue ?? []
    // Only the first choice is asked for.
    if let choice = choices.first(where: { ($0["index"]?.intValue ?? 0) == 0 }) {
      let said = choice[choiceMember]
      // vLLM renamed `reasoning_content` to `reasoning`; a server may send both with one text.
      let reasoning = Self.text(said?["reasoning_content"]) ?? Self.text(said?["reasoning"])
      if let reasoning { events.append(.reasoning(reasoning)) }
      if let text = Self.text(said?["content"]) { events.append(.text(text)) }
      if let refusal = Self.text(said?["refusal"]) { events.append(.refusal(refusal)) }
      if let reason = choice["finish_reason"]?.stringValue, !reason.isEmpty, !hasFinishReason {
        hasFinishReason = true
        events.append(.finish(reason: reason))
      }
    }
    if let usage = chunk["usage"], let counts = ChatUsage(usage) { events.append(.usage(counts)) }
  }

  /// A string, or the text parts of a list; nil when there is nothing.
  private static func text(_ content: JSONValue?) -> String? {
    switch content {
    case .string(let text): return text.isEmpty ? nil : text
    case .array(let parts):
      let text = parts.compactMap { part -> String? in
        if let text = part.stringValue { return text }
        let type = part["type"]?.stringValue
        return type == nil || type == "text" || type == "output_text"
          ? part["text"]?.stringValue : nil
      }.joined()
      return text.isEmpty ? nil : text
    default: return nil
    }
  }
}

extension ChatUsage {
  /// nil when the value holds no count at all.
  init?(_ usage: JSONValue) {
    self.init(
      promptTokens: usage["prompt_tokens"]?.intValue,
      completionTokens: usage["completion_tokens"]?.intValue,
      cachedPromptTokens: usage["prompt_tokens_details"]?["cached_tokens"]?.intValue,
      reasoningTokens: usage["completion_tokens_details"]?["reasoning_tokens"]?.intValue)
    if self == ChatUsage() { return nil }
  }
}
