import Foundation
import Testing

@testable import FMWire

/// Tool calls in every shape that servers stream them in, each as its fixture: pieces of
/// `delta.tool_calls`, and the calls they mean.
@Suite struct ChatToolCallTests {
  typealias Call = ChatToolCall

  static let weather = Call(id: "a", name: "weather", arguments: #"{"city":"Paris"}"#)
  static let time = Call(id: "b", name: "time", arguments: #"{"zone":"CET"}"#)

  static let shapes: [(name: String, deltas: [String], calls: [Call])] = [
    (
      "as documented: the id and the name first, then the arguments by index",
      [
        #"[{"index":0,"id":"a","type":"function","function":{"name":"weather","arguments":""}}]"#,
        #"[{"index":0,"function":{"arguments":"{\"city\":"}}]"#,
        #"[{"index":0,"function":{"arguments":"\"Paris\"}"}}]"#,
        #"[{"index":1,"id":"b","type":"function","function":{"name":"time","arguments":""}}]"#,
        #"[{"index":1,"function":{"arguments":"{\"zone\":\"CET\"}"}}]"#,
      ], [weather, time]
    ),
    (
      "the index is missing",
      [
        #"[{"id":"a","function":{"name":"weather","arguments":""}}]"#,
        #"[{"function":{"arguments":"{\"city\":\"Paris\"}"}}]"#,
        #"[{"id":"b","function":{"name":"time","arguments":"{\"zone\":"}}]"#,
        #"[{"function":{"arguments":"\"CET\"}"}}]"#,
      ], [weather, time]
    ),
    (
      "the id is missing",
      [
        #"[{"index":0,"function":{"name":"weather","arguments":"{\"city\":"}}]"#,
        #"[{"index":0,"function":{"arguments":"\"Paris\"}"}}]"#,
        #"[{"index":1,"function":{"name":"time","arguments":"{\"zone\":\"CET\"}"}}]"#,
      ],
      [
        Call(id: "call_1", name: "weather", arguments: #"{"city":"Paris"}"#),
        Call(id: "call_2", name: "time", arguments: #"{"zone":"CET"}"#),
      ]
    ),
    (
      "both are missing",
      [
        #"[{"function":{"name":"weather","arguments":"{\"city\":"}}]"#,
        #"[{"function":{"arguments":"\"Paris\"}"}}]"#,
        #"[{"function":{"name":"time","arguments":"{\"zone\":\"CET\"}"}}]"#,
      ],
      [
        Call(id: "call_1", name: "weather", arguments: #"{"city":"Paris"}"#),
        Call(id: "call_2", name: "time", arguments: #"{"zone":"CET"}"#),
      ]
    ),
    (
      "two calls have the index 0",
      [
        #"[{"index":0,"id":"a","function":{"name":"weather","arguments":"{\"city\":\"Paris\"}"}}]"#,
        #"[{"index":0,"id":"b","function":{"name":"time","arguments":"{\"zone\":\"CET\"}"}}]"#,
      ], [weather, time]
    ),
    (
      "two calls have the index 0 in one piece, without ids",
      [
        #"[{"index":0,"function":{"name":"weather","arguments":"{\"city\":\"Paris\"}"}},"#
          + #"{"index":0,"function":{"name":"time","arguments":"{\"zone\":\"CET\"}"}}]"#
      ],
      [
        Call(id: "call_1", name: "weather", arguments: #"{"city":"Paris"}"#),
        Call(id: "call_2", name: "time", arguments: #"{"zone":"CET"}"#),
      ]
    ),
    (
      "one function is called twice, with the index 0 and without ids",
      [
        #"[{"index":0,"function":{"name":"time","arguments":"{}"}}]"#,
        #"[{"index":0,"function":{"name":"time","arguments":"{\"zone\":\"CET\"}"}}]"#,
      ],
      [
        Call(id: "call_1", name: "time", arguments: "{}"),
        Call(id: "call_2", name: "time", arguments: #"{"zone":"CET"}"#),
      ]
    ),
    (
      "the first index is 1",
      [
        #"[{"index":1,"id":"a","function":{"name":"weather","arguments":"{\"city\":"}}]"#,
        #"[{"index":1,"function":{"arguments":"\"Paris\"}"}}]"#,
        #"[{"index":2,"id":"b","function":{"name":"time","arguments":"{\"zone\":\"CET\"}"}}]"#,
      ], [weather, time]
    ),
    (
      "the id and the name come with every piece",
      [
        #"[{"index":0,"id":"a","function":{"name":"weather","arguments":"{\"city\":"}}]"#,
        #"[{"index":0,"id":"a","function":{"name":"weather","arguments":"\"Paris\"}"}}]"#,
        #"[{"index":1,"id":"b","function":{"name":"time","arguments":"{\"zone\":"}}]"#,
        #"[{"index":1,"id":"b","function":{"name":"time","arguments":"\"CET\"}"}}]"#,
      ], [weather, time]
    ),
    (
      "later pieces have an empty id and name",
      [
        #"[{"index":0,"id":"a","function":{"name":"weather","arguments":""}}]"#,
        #"[{"index":0,"id":"","function":{"name":"","arguments":"{\"city\":\"Paris\"}"}}]"#,
      ], [weather]
    ),
    (
      "the name comes after the arguments",
      [
        #"[{"index":0,"id":"a","function":{"arguments":"{\"city\":\"Paris\"}"}}]"#,
        #"[{"index":0,"function":{"name":"weather"}}]"#,
        #"[{"index":1,"id":"b","function":{"arguments":"{\"zone\":\"CET\"}"}}]"#,
        #"[{"index":1,"id":"b","function":{"name":"time","arguments":""}}]"#,
      ], [weather, time]
    ),
    (
      "the id comes late",
      [
        #"[{"index":0,"function":{"name":"weather","arguments":"{\"city\":"}}]"#,
        #"[{"index":0,"id":"a","function":{"arguments":"\"Paris\"}"}}]"#,
      ], [weather]
    ),
    (
      "the name comes in pieces",
      [
        #"[{"index":0,"id":"a","function":{"name":"wea"}}]"#,
        #"[{"index":0,"function":{"name":"ther"}}]"#,
        #"[{"index":0,"function":{"arguments":"{\"city\":\"Paris\"}"}}]"#,
      ], [weather]
    ),
    (
      "the calls take turns",
      [
        #"[{"index":0,"id":"a","function":{"name":"weather","arguments":"{\"city\":"}},"#
          + #"{"index":1,"id":"b","function":{"name":"time","arguments":"{\"zo"}}]"#,
        #"[{"index":1,"function":{"arguments":"ne\":"}}]"#,
        #"[{"index":0,"function":{"arguments":"\"Paris\"}"}}]"#,
        #"[{"index":1,"function":{"arguments":"\"CET\"}"}}]"#,
      ], [weather, time]
    ),
    (
      "the arguments are an object",
      [
        #"[{"id":"a","function":{"name":"weather","arguments":{"city":"Paris"}}},"#
          + #"{"id":"b","function":{"name":"time","arguments":{"zone":"CET"}}}]"#
      ], [weather, time]
    ),
    (
      "the arguments are null, or missing, or empty",
      [
        #"[{"index":0,"id":"a","function":{"name":"x","arguments":null}}]"#,
        #"[{"index":1,"id":"b","function":{"name":"y"}}]"#,
        #"[{"index":2,"id":"c","function":{"name":"z","arguments":""}}]"#,
      ],
      [
        Call(id: "a", name: "x", arguments: ""), Call(id: "b", name: "y", arguments: ""),
        Call(id: "c", name: "z", arguments: ""),
      ]
    ),
    (
      "one call, and no list",
      [#"{"id":"a","function":{"name":"weather","arguments":"{\"city\":\"Paris\"}"}}"#], [weather]
    ),
    (
      "the function's members stand beside the id",
      [#"[{"id":"a","name":"weather","arguments":{"city":"Paris"}}]"#], [weather]
    ),
    (
      "broken arguments stay as they are",
      [#"[{"id":"a","function":{"name":"x","arguments":"{\"city\": Par"}}]"#],
      [Call(id: "a", name: "x", arguments: #"{"city": Par"#)]
    ),
    ("values that are no calls", [#"[null,1,"x"]"#, "null", "[]", "7"], []),
  ]

  static func events(_ lines: [String]) throws -> [ChatEvent] {
    var decoder = ChatStreamDecoder(failure: ChatDecoderTests.failure)
    var events: [ChatEvent] = []
    try decoder.feed(Array(lines.joined().utf8), into: &events)
    try decoder.finish(into: &events)
    return events
  }

  static func calls(_ events: [ChatEvent]) -> [Call] {
    var calls: [Call] = []
    for case .toolCall(let delta) in events { calls.take(delta) }
    return calls
  }

  @Test(arguments: shapes.indices)
  func readsStreams(_ index: Int) throws {
    let (name, deltas, expected) = Self.shapes[index]
    let lines = deltas.map { #"data: {"choices":[{"delta":{"tool_calls":\#($0)}}]}"# + "\n\n" }
    let end = #"data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"# + "\n\n"
    let events = try Self.events(lines + [end])
    #expect(Self.calls(events) == expected, "\(name)")
    #expect(events.last == .finish(reason: "tool_calls"))
    #expect(events.text == "", "a call never leaks into the text")
  }

  @Test func readsWholeCompletions() throws {
    let events = try Self.events([
      #"""
      {"choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant",
       "content":null,"tool_calls":[
        {"id":"a","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Paris\"}"}},
        {"id":"b","type":"function","function":{"name":"time","arguments":{"zone":"CET"}}}]}}]}
      """#
    ])
    #expect(Self.calls(events) == [Self.weather, Self.time])
    #expect(events.last == .finish(reason: "tool_calls"))
  }

  @Test func readsTheFormThatCameBefore() throws {
    let events = try Self.events([
      #"data: {"choices":[{"delta":{"function_call":{"name":"weather","arguments":""}}}]}"#
        + "\n\n",
      #"data: {"choices":[{"delta":{"function_call":{"arguments":"{\"city\":"}}}]}"# + "\n\n",
      #"data: {"choices":[{"delta":{"function_call":{"arguments":"\"Paris\"}"}}}]}"# + "\n\n",
      #"data: {"choices":[{"delta":{},"finish_reason":"function_call"}]}"# + "\n\n",
    ])
    #expect(
      Self.calls(events) == [
        Call(id: "call_1", name: "weather", arguments: #"{"city":"Paris"}"#)
      ])
    #expect(ChatFinish(reason: "function_call") == .toolCalls)
  }

  /// Cut anywhere, the same calls.
  @Test func isTheSameAtEverySplit() throws {
    let lines = Self.shapes[0].deltas.map {
      #"data: {"choices":[{"delta":{"tool_calls":\#($0)}}]}"# + "\n\n"
    }
    let bytes = Array((lines.joined() + "data: [DONE]\n\n").utf8)
    for split in 0...bytes.count {
      var decoder = ChatStreamDecoder(failure: ChatDecoderTests.failure)
      var events: [ChatEvent] = []
      try decoder.feed(Array(bytes[..<split]), into: &events)
      try decoder.feed(Array(bytes[split...]), into: &events)
      try decoder.finish(into: &events)
      #expect(Self.calls(events) == Self.shapes[0].calls)
    }
  }
}
