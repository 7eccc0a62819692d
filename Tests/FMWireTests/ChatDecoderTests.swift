import Testing

@testable import FMWire

/// What chunks say, without a server: one fixture a spelling.
@Suite struct ChatDecoderTests {
  static var failure: ServerFailure {
    ServerFailure(
      url: "http://example", secrets: Secrets(of: Endpoint(baseURL: "http://example")),
      head: HTTPResponseHead(status: 200, headers: []))
  }

  /// The events of a stream of chunks, and what else was told.
  static func read(_ chunks: [String], done: Bool = true) throws -> (
    events: [ChatEvent], details: JSONObject
  ) {
    var decoder = ChatStreamDecoder(failure: failure)
    var events: [ChatEvent] = []
    let text = chunks.map { "data: \($0)\n\n" }.joined() + (done ? "data: [DONE]\n\n" : "")
    try decoder.feed(Array(text.utf8), into: &events)
    try decoder.finish(into: &events)
    return (events, decoder.details)
  }

  static func delta(_ members: String) -> String { #"{"choices":[{"delta":{\#(members)}}]}"# }

  /// What cannot be an answer is not taken for an empty one.
  @Test(arguments: [#""content":7"#, #""content":true"#, #""content":{"a":1}"#])
  func refusesContentOfAnotherKind(_ members: String) {
    let error = #expect(throws: WireError.self) { try Self.read([Self.delta(members)]) }
    #expect(error?.kind == .invalidResponse)
  }

  @Test(arguments: [
    (#""content":"Hi""#, [ChatEvent.text("Hi")]),
    (#""content":"a\u00e9\n\"\ud83e\udd8a""#, [.text("aé\n\"🦊")]),
    (#""content":"""#, []), (#""content":null"#, []), (#""role":"assistant""#, []), ("", []),
    (#""content":[]"#, []), (#""content":[7,{"type":"audio"}]"#, []),
    (#""content":["Hi"," you"]"#, [.text("Hi you")]),
    (
      #""content":[{"type":"text","text":"Hi"},{"type":"image_url","image_url":{}}]"#, [.text("Hi")]
    ),
    (#""content":[{"text":"Hi"},{"type":"output_text","text":"!"}]"#, [.text("Hi!")]),
    (#""content":{"type":"text","text":"Hi"}"#, [.text("Hi")]),
    (
      #""content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm"}]},{"text":"Hi"}]"#,
      [.reasoning("Hm"), .text("Hi")]
    ),
    (#""content":[{"type":"reasoning","text":"Hm"}]"#, [.reasoning("Hm")]),
    (#""content":[{"type":"refusal","refusal":"No"}]"#, [.refusal("No")]),
    (#""reasoning":"Hm""#, [.reasoning("Hm")]),
    (#""reasoning_content":"Hm""#, [.reasoning("Hm")]),
    (#""reasoning":"Hm","reasoning_content":"Hm""#, [.reasoning("Hm")]),
    (#""reasoning":"Hm","reasoning_content":null"#, [.reasoning("Hm")]),
    (#""reasoning":"","reasoning_content":"Hm""#, [.reasoning("Hm")]),
    (#""reasoning":{"a":1}"#, []),
    (#""content":"Hi","reasoning":"Hm""#, [.reasoning("Hm"), .text("Hi")]),
    (#""refusal":"No""#, [.refusal("No")]), (#""refusal":null,"content":"Hi""#, [.text("Hi")]),
    (#""con\u0074ent":"Hi""#, [.text("Hi")]),
    (#""content":"first","content":"last""#, [.text("last")]),
    (
      #""audio":{"data":["x",{"y":null}]},"content":"Hi","logprobs":[1e3,-0.5,false]"#,
      [.text("Hi")]
    ),
  ])
  func readsDeltas(_ members: String, _ expected: [ChatEvent]) throws {
    #expect(try Self.read([Self.delta(members)]).events == expected)
    // Members that come before and after change nothing.
    let full =
      #"{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"#
      + #""logprobs":null,"delta":{\#(members)},"index":0,"finish_reason":null}],"usage":null}"#
    #expect(try Self.read([full]).events == expected)
    // The same as a whole completion.
    var decoder = ChatStreamDecoder(failure: Self.failure)
    var events: [ChatEvent] = []
    let completion = #"{"choices":[{"message":{\#(members)},"finish_reason":"stop"}]}"#
    try decoder.feed(Array(completion.utf8), into: &events)
    try decoder.finish(into: &events)
    #expect(events == expected + [.finish(reason: "stop")])
  }

  @Test(arguments: [
    #"{"choices":[]}"#, #"{"choices":null}"#, #"{"choices":[null,1]}"#, "{}",
    #"{"choices":[{"delta":null}]}"#, #"{"choices":[{"delta":[]}]}"#, "[]", "null", "7", #""x""#,
    #"{"choices":[{"index":1,"delta":{"content":"other"}}]}"#, #"{"error":null}"#,
    #"{"choices":[{"finish_reason":null}]}"#, #"{"choices":[{"finish_reason":""}]}"#,
  ])
  func findsNothingIn(_ chunk: String) throws {
    #expect(try Self.read([chunk]).events == [])
  }

  @Test func readsTheFirstChoiceOnly() throws {
    let chunk =
      #"{"choices":[{"index":1,"delta":{"content":"b"}},{"index":0,"delta":{"content":"a"}},"#
      + #"{"index":0,"delta":{"content":"c"}}]}"#
    #expect(try Self.read([chunk]).events == [.text("a")])
  }

  // MARK: - Finish reasons

  @Test(arguments: [
    ("stop", ChatFinish.stop), ("STOP", .stop), ("eos", .stop), ("end_turn", .stop),
    ("stop_sequence", .stop), ("length", .length), ("max_tokens", .length), ("MAX_TOKENS", .length),
    ("model_length", .length), ("tool_calls", .toolCalls), ("tool_use", .toolCalls),
    ("function_call", .toolCalls), ("content_filter", .contentFilter), ("SAFETY", .contentFilter),
    ("refusal", .refusal), ("error", .failure), ("abort", .failure),
    ("insufficient_system_resource", .failure), ("banana", .other),
  ])
  func knowsFinishReasons(_ reason: String, _ meaning: ChatFinish) throws {
    let chunk = #"{"choices":[{"delta":{},"finish_reason":"\#(reason)"}]}"#
    #expect(try Self.read([chunk], done: false).events == [.finish(reason: reason)])
    #expect(ChatFinish(reason: reason) == meaning)
  }

  @Test func finishesOnce() throws {
    let chunk = #"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#
    #expect(try Self.read([chunk, chunk]).events == [.finish(reason: "stop")])
  }

  // MARK: - Usage

  @Test(
    arguments: [
      (
        #"{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12}"#,
        ChatUsage(promptTokens: 5, completionTokens: 7)
      ),
      (
        #"{"prompt_tokens":5,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":3},"#
          + #""completion_tokens_details":{"reasoning_tokens":2}}"#,
        ChatUsage(
          promptTokens: 5, completionTokens: 7, cachedPromptTokens: 3, reasoningTokens: 2)
      ),
      (
        #"{"prompt_tokens":5,"completion_tokens":0,"prompt_tokens_details":{"cached_tokens":0}}"#,
        ChatUsage(promptTokens: 5, completionTokens: 0, cachedPromptTokens: 0)
      ),
      (
        #"{"prompt_tokens":5,"prompt_tokens_details":null,"completion_tokens_details":null}"#,
        ChatUsage(promptTokens: 5)
      ),
      (
        #"{"input_tokens":5,"output_tokens":7,"input_tokens_details":{"cached_tokens":1},"#
          + #""output_tokens_details":{"reasoning_tokens":4}}"#,
        ChatUsage(
          promptTokens: 5, completionTokens: 7, cachedPromptTokens: 1, reasoningTokens: 4)
      ),
      (
        #"{"prompt_tokens":5,"completion_tokens":7,"prompt_cache_hit_tokens":4}"#,
        ChatUsage(promptTokens: 5, completionTokens: 7, cachedPromptTokens: 4)
      ),
      ("null", nil), ("{}", nil), ("[]", nil), (#"{"prompt_tokens":null}"#, nil),
      (#"{"prompt_tokens":-1,"completion_tokens":"7"}"#, nil),
    ] as [(String, ChatUsage?)])
  func readsUsage(_ usage: String, _ expected: ChatUsage?) throws {
    let events = try Self.read([#"{"choices":[],"usage":\#(usage)}"#]).events
    #expect(events == (expected.map { [.usage($0)] } ?? []))
  }

  @Test func keepsWhatALaterCountLeavesOut() throws {
    let events = try Self.read([
      #"{"choices":[],"usage":{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":3}}}"#,
      #"{"choices":[],"usage":{"prompt_tokens":5}}"#,
      #"{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}"#,
    ]).events
    #expect(
      events == [
        .usage(ChatUsage(promptTokens: 5, cachedPromptTokens: 3)),
        .usage(ChatUsage(promptTokens: 5, completionTokens: 2, cachedPromptTokens: 3)),
      ])
  }

  // MARK: - What is told besides

  @Test func keepsNamesAndTimings() throws {
    let first =
      #"{"id":"x-1","model":"served","system_fingerprint":null,"choices":[{"delta":{"content":"a"}}]}"#
    let last = #"{"id":"x-2","choices":[],"timings":{"prompt_ms":1.50,"predicted_n":9}}"#
    let details = try Self.read([first, last]).details
    #expect(details["id"] == "x-1")
    #expect(details["model"] == "served")
    #expect(details["system_fingerprint"] == nil)
    #expect(details["timings"]?.jsonText == #"{"prompt_ms":1.50,"predicted_n":9}"#)
  }

  // MARK: - Errors

  @Test(arguments: [
    #"{"error":"x"}"#, #"{"error":{"message":"x"}}"#, #"{"object":"error","message":"x"}"#,
    #"{"message":"x","object":"error"}"#, #"{"detail":"x"}"#, #"[{"error":{"message":"x"}}]"#,
    #"{"choices":[{"delta":{"content":"a"}}],"error":{"message":"x","code":502}}"#,
  ])
  func findsErrors(_ chunk: String) {
    let error = #expect(throws: WireError.self) { try Self.read([chunk]) }
    #expect(error?.kind == .server)
    #expect(error?.message.contains(": x") == true)
  }

  @Test func readsDetailBesideChoicesAsNoError() throws {
    #expect(
      try Self.read([#"{"detail":1,"choices":[{"delta":{"content":"a"}}]}"#]).events == [.text("a")]
    )
  }

  @Test(arguments: [
    #"{"choices":[{"delta":{"content":"x"}]}"#, #"{"choices":[}"#,
    #"{"choices":[{"delta":{"a":tru}}]}"#,
    #"{"a":1}}"#, #"{"x":"\ud800"}"#, #"{"x":01}"#, #"{"x":[1,]}"#, #"{"x" 1}"#, #"{"x":1,}"#,
  ])
  func refusesBrokenChunks(_ chunk: String) {
    let error = #expect(throws: WireError.self) { try Self.read([chunk]) }
    #expect(error?.kind == .invalidResponse)
    #expect(error?.body == chunk)
    // It is as strict as the parser of whole values.
    #expect(throws: JSONError.self) { try JSONValue(parsing: chunk) }
  }

  /// Chunks that flip a bit are read or refused just as a parser of whole values would.
  @Test func agreesWithTheParserOfValues() {
    let seed = Array(
      (#"{"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"a\u00e9"#
        + #"東"},"finish_reason":null}],"usage":{"prompt_tokens":12},"x":[1e-3,true,{"y":"z"}]}"#)
        .utf8)
    var generator = SeededGenerator(state: 0xC0FFEE)
    var refused = 0
    for _ in 0..<rounds(20_000) {
      var bytes = seed
      let index = Int.random(in: 0..<bytes.count, using: &generator)
      bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
      let value = try? JSONValue(parsing: bytes)
      let chunk = bytes.withUnsafeBufferPointer { buffer in
        try? ChatChunk(buffer, .delta, wantsNames: true)
      }
      #expect((value == nil) == (chunk == nil))
      if value == nil { refused += 1 }
      guard let value, let chunk, value["choices"]?.arrayValue?.count == 1 else { continue }
      #expect(chunk.isError == ServerFailure.isError(value))
      let choice = value["choices"]?.arrayValue?[0]
      if choice?["index"] == 0, let text = choice?["delta"]?["content"]?.stringValue {
        #expect(chunk.text == text)
      }
    }
    #expect(refused > 1000)
  }
}
