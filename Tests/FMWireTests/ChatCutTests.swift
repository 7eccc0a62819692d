import Testing

@testable import FMWire

/// Every kind of answer, cut off after each of its bytes and in two at each of its bytes.
@Suite struct ChatCutTests {
  static let answers: [(name: String, text: String)] = [
    (
      "a stream with everything",
      """
      : keep-alive\r
      \r
      data: {"id":"1","model":"m","choices":[{"delta":{"role":"assistant","content":null}}]}\r
      \r
      data: {"choices":[{"delta":{"reasoning":"Hm — 東"}}]}\r
      \r
      data: {"choices":[{"delta":{"content":"Né\\n\\ud83e\\udd8a"}}]}\r
      \r
      :\r
      data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f",\
      "arguments":"{}"}}]}}]}\r
      \r
      data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}],"usage":null}\r
      \r
      data: {"choices":[],"usage":{"prompt_tokens":5},"timings":{"a":1}}\r
      \r
      data: [DONE]\r
      \r

      """
    ),
    (
      "no [DONE], no blank line at the end, carriage returns",
      "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\r\r"
        + "data: {\"choices\":[{\"delta\":{\"content\":\"!\"},\"finish_reason\":\"stop\"}]}"
    ),
    (
      "a byte order mark, lines of an event, no space",
      "\u{FEFF}data:{\"choices\":\ndata:[{\"delta\":{\"content\":\"Hi\"}}]}\n\ndata:[DONE]\n\n"
    ),
    (
      "a completion",
      #"""
      {"choices":[{"message":{"content":"Né \ud83e\udd8a"},"finish_reason":"stop"}],
       "usage":{"prompt_tokens":5,"completion_tokens":2}}
      """#
    ),
    (
      "a comment in a data line",
      "data: : PROCESSING\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: [DONE]\n\n"
    ),
    (
      "an error field",
      "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\nerror: {\"message\":\"gone\"}\n\n"
    ),
    ("an error event", "event: error\ndata: {\"message\":\"gone\"}\n\n"),
    ("an error object", "data: {\"error\":{\"message\":\"gone\"}}\n\n"),
    ("an error in words", "data: {\"error\":\"gone\"}\n\n"),
    ("an error that is a completion's body", #"{"error":{"message":"gone","code":500}}"#),
    ("a page", "<html><head><title>gone</title></head></html>\n"),
    ("nothing", ""),
  ]

  struct Reading: Equatable {
    var text = ""
    var reasoning = ""
    var calls: [ChatToolCall] = []
    var finishReasons: [String] = []
    var usages: [ChatUsage] = []
    var error: WireError?

    init(_ pieces: [ArraySlice<UInt8>]) {
      var decoder = ChatStreamDecoder(failure: ChatDecoderTests.failure)
      var events: [ChatEvent] = []
      do throws(WireError) {
        for piece in pieces { try decoder.feed(Array(piece), into: &events) }
        try decoder.finish(into: &events)
      } catch {
        self.error = error
      }
      text = events.text
      reasoning = events.reasoning
      calls = ChatToolCallTests.calls(events)
      finishReasons = events.finishReasons
      usages = events.usages
    }
  }

  @Test(arguments: answers.indices)
  func isTheSameInPieces(_ index: Int) {
    let bytes = Array(Self.answers[index].text.utf8)
    let whole = Reading([bytes[...]])
    for cut in 0...bytes.count {
      #expect(Reading([bytes[..<cut], bytes[cut...]]) == whole, "cut at \(cut)")
    }
    #expect(Reading(bytes.indices.map { bytes[$0...$0] }) == whole)
    for size in 2...17 {
      let pieces = stride(from: 0, to: bytes.count, by: size).map {
        bytes[$0..<min($0 + size, bytes.count)]
      }
      #expect(Reading(pieces) == whole, "pieces of \(size)")
    }
  }

  /// What arrived before the end is kept, nothing is made up, and an answer without its end is an
  /// error, whatever byte it ends at.
  @Test(arguments: answers.indices)
  func tellsACutAnswer(_ index: Int) {
    let bytes = Array(Self.answers[index].text.utf8)
    let whole = Reading([bytes[...]])
    for cut in 0..<bytes.count {
      let part = Reading([bytes[..<cut]])
      #expect(whole.text.hasPrefix(part.text) && whole.reasoning.hasPrefix(part.reasoning))
      #expect(part.usages.count <= whole.usages.count)
      for (some, all) in zip(part.calls, whole.calls) {
        #expect(some.id == all.id && all.arguments.hasPrefix(some.arguments))
      }
      if part.error == nil {
        // Only where the answer had said that it is complete.
        let isOver = !part.finishReasons.isEmpty || part.text == whole.text
        #expect(isOver && whole.error == nil, "no error after \(cut) bytes")
      }
    }
  }
}
