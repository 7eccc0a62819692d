import FMWire
import Testing

@testable import FMCore

@Suite struct PartialJSONTests {
  @Test(arguments: [
    ("", nil), ("{", "{}"), ("[", "[]"), (#"{"a"#, "{}"), (#"{"a""#, "{}"), (#"{"a":"#, "{}"),
    (#"{"a": "x"#, #"{"a": "x"}"#), (#"{"a": "x","#, #"{"a": "x"}"#), (#"{"a": 12"#, "{}"),
    (#"{"a": 12,"#, #"{"a": 12}"#), (#"{"a": tru"#, "{}"), (#"{"a": [1, 2"#, #"{"a": [1]}"#),
    (#"{"a": [{"b": "c"}"#, #"{"a": [{"b": "c"}]}"#), (#"["x\"#, #"["x"]"#),
    (#"["x\u00"#, #"["x"]"#), (#"["\ud83d"#, #"[""]"#), (#"["\ud83d\ude00"#, #"["\ud83d\ude00"]"#),
    (#"["]","#, #"["]"]"#), ("12", nil), (#""a"#, #""a""#),
  ])
  func closes(text: String, expected: String?) {
    #expect(PartialJSON.closed(text) == expected)
  }

  /// Every prefix of a text gives a value, and each holds what the one before held.
  @Test func everyPrefixParses() throws {
    let text = #"""
      {"name": "Zoë \"x\" \u00e9 \ud83d\ude00", "list": [1, -2.5e3, [true, null], {"k": ""}],
       "in": {"deep": {"er": [[], {}]}}, "last": false}
      """#
    var seen = 0
    for length in 1...text.unicodeScalars.count {
      let part = String(String.UnicodeScalarView(text.unicodeScalars.prefix(length)))
      let content = try #require(GeneratedContent(unfinishedJSON: part), "\(part)")
      let count = content.jsonValue.objectValue?.members.count ?? 0
      #expect(count >= seen)
      seen = count
    }
    #expect(GeneratedContent(unfinishedJSON: text)?.jsonValue == (try JSONValue(parsing: text)))
  }

  @Test func onlyWhatEndsTooEarlyIsUnfinished() throws {
    let content = try GeneratedContent(json: #"{"a": [1, "tw"#)
    #expect(!content.isComplete)
    #expect(content.jsonString == #"{"a":[1,"tw"]}"#)
    #expect(try GeneratedContent(json: "{}").isComplete)
    for text in ["", "{]", "{\"a\" 1", "nope", "{} x"] {
      #expect(throws: GeneratedContent.ParsingError.self) { try GeneratedContent(json: text) }
    }
  }
}
