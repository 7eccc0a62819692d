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
  private let maximumBytes: Int
  private var receivedBytes = 0
  private var form = Form.unknown
  /// A JSON text or page so far, or what came before its first byte that is no white space.
  private var body: [UInt8] = []
  private var toolCalls = ChatToolCallRouter()
  private var usage: ChatUsage?

  /// `maximumBytes`: of the whole answer; more is an error.
  init(failure: ServerFailure, maximumBytes: Int = .max) {
    self.failure = failure
    self.maximumBytes = maximumBytes
  }

  /// Appends the events that `chunk` completes. When it throws, those before the error are there.
  mutating func feed(_ chunk: [UInt8], into events: inout [ChatEvent]) throws(WireError) {
    let result = chunk.withUnsafeBufferPointer { bytes in
      Result { () throws(WireError) in try feed(bytes, into: &events) }
    }
    try result.get()
  }

  mutating func feed(
    _ chunk: UnsafeBufferPointer<UInt8>, into events: inout [ChatEvent]
  ) throws(WireError) {
    receivedBytes += chunk.count
    if receivedBytes > maximumBytes { throw failure.tooLong(maximumBytes) }
    try read(chunk, into: &events)
  }

  private mutating func read(
    _ chunk: UnsafeBufferPointer<UInt8>, into events: inout [ChatEvent]
  ) throws(WireError) {
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
        let result = start.withUnsafeBufferPointer { bytes in
          Result { () throws(WireError) in try read(bytes, into: &events) }
        }
        try result.get()
      }
    case .events(var parser):
      form = .unknown  // so that the parser's buffers are not copied
      defer { form = .events(parser) }
      try parser.feed(chunk) { (name, data) throws(WireError) in
        try take(name, data, into: &events)
      }
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
      try parser.finish { (name, data) throws(WireError) in try take(name, data, into: &events) }
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
    _ name: String, _ data: UnsafeBufferPointer<UInt8>, into events: inout [ChatEvent]
  ) throws(WireError) {
    if isDone { return }
    if name == "error" { throw failure.error(midstream: Array(data)) }
    if data.first == UInt8(ascii: "["), data.elementsEqual("[DONE]".utf8) {
      isDone = true
      return
    }
    let chunk: ChatChunk
    do throws(JSONError) {
      chunk = try ChatChunk(data, .delta, wantsNames: details.members.isEmpty)
    } catch {
      let text = String(decoding: data, as: UTF8.self).trimmingASCIIWhitespace()
      // Some gateways wrap comments in data lines.
      if text.isEmpty || text.hasPrefix(":") { return }
      if text == "[DONE]" {
        isDone = true
        return
      }
      throw failure.error(unparsed: text, because: error)
    }
    if chunk.isError { throw failure.error(midstream: Array(data)) }
    if chunk.isUnreadable { throw failure.invalid(Self.unreadableContent, body: Array(data)) }
    take(chunk, into: &events)
  }

  private static let unreadableContent =
    "an answer whose content is neither text nor a list of parts"

  // MARK: - Chunks and completions

  private mutating func takeJSON(into events: inout [ChatEvent]) throws(WireError) {
    let result = body.withUnsafeBufferPointer { bytes in
      Result { () throws(JSONError) in try ChatChunk(bytes, .message, wantsNames: true) }
    }
    let completion: ChatChunk
    do throws(JSONError) {
      completion = try result.get()
    } catch {
      throw failure.invalid(
        "JSON that is none (at byte \(error.offset): \(error.message))", body: body)
    }
    if completion.isError { throw failure.error(body: body) }
    if completion.isUnreadable { throw failure.invalid(Self.unreadableContent, body: body) }
    guard completion.choiceCount ?? 0 > 0 else {
      throw failure.invalid("JSON that is no completion", body: body)
    }
    take(completion, into: &events)
  }

  private mutating func take(_ chunk: ChatChunk, into events: inout [ChatEvent]) {
    // The first chunk names the model; timings come with the last.
    for (name, value) in chunk.names { details[name] = value }
    if let timings = chunk.timings { details["timings"] = timings }
    if let reasoning = chunk.reasoning { events.append(.reasoning(reasoning)) }
    if let text = chunk.text { events.append(.text(text)) }
    if let refusal = chunk.refusal { events.append(.refusal(refusal)) }
    for call in chunk.toolCalls {
      if let delta = toolCalls.route(call) { events.append(.toolCall(delta)) }
    }
    if let reason = chunk.finishReason, !hasFinishReason {
      hasFinishReason = true
      events.append(.finish(reason: reason))
    }
    if let counts = chunk.usage {
      var total = usage ?? ChatUsage()
      total.update(with: counts)
      if total != usage { events.append(.usage(total)) }
      usage = total
    }
  }
}
