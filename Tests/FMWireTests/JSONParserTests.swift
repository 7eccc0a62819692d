import Foundation
import Testing

@testable import FMWire

@Suite struct JSONParserTests {
  static let valid: [(String, JSONValue)] = [
    ("null", .null), ("true", true), ("false", false), (" \t\r\n1 \n", 1),
    ("0", 0), ("-0", .number(JSONNumber(uncheckedLiteral: "-0"))), ("123", 123), ("-7", -7),
    ("9223372036854775807", .number(JSONNumber(Int.max))),
    ("18446744073709551616", .number(JSONNumber(uncheckedLiteral: "18446744073709551616"))),
    ("1.50", .number(JSONNumber(uncheckedLiteral: "1.50"))),
    ("1E+2", .number(JSONNumber(uncheckedLiteral: "1E+2"))),
    ("0.1e-10", .number(JSONNumber(uncheckedLiteral: "0.1e-10"))),
    (#""""#, ""), (#""abc""#, "abc"), (#""a\"b\\c\/d""#, "a\"b\\c/d"),
    (#""\b\f\n\r\t""#, "\u{8}\u{C}\n\r\t"), (#""\u0000""#, "\u{0}"), (#""\u00e9""#, "é"),
    (#""\uD83E\uDD8A""#, "🦊"), (#""\ud83e\udd8a!""#, "🦊!"), (#""\uDBFF\uDFFF""#, "\u{10FFFF}"),
    (#""\u2028""#, "\u{2028}"), ("\"\u{7F}\"", "\u{7F}"), ("\"é東🦊\u{10FFFF}\"", "é東🦊\u{10FFFF}"),
    (
      #""long enough for several words at once \n and then some more of it""#,
      "long enough for several words at once \n and then some more of it"
    ),
    (#""12345678""#, "12345678"), (#""1234567é""#, "1234567é"),
    ("[]", []), ("[ ]", []), ("[1]", [1]), ("[1, [2, []]]", [1, [2, []]]),
    ("{}", [:]), ("{ }", [:]), (#"{"a":1,"b":[{}]}"#, ["a": 1, "b": [[:]]]),
    (#"{"":null}"#, ["": nil]), (#"{"a\u0062":true}"#, ["ab": true]),
  ]

  @Test(arguments: valid)
  func accepts(_ text: String, _ value: JSONValue) throws {
    #expect(try JSONValue(parsing: text) == value)
    #expect(try JSONValue(parsing: Array(text.utf8)) == value)
    // Not contiguous.
    #expect(try JSONValue(parsing: text.utf8.lazy.map { $0 }) == value)
    // Foundation's parser agrees.
    #expect(throws: Never.self) {
      try JSONSerialization.jsonObject(with: Data(text.utf8), options: .fragmentsAllowed)
    }
  }

  /// Text, and the offset of the first byte that cannot stand there.
  static let invalid: [(String, Int)] = [
    ("", 0), (" ", 1), ("nul", 3), ("nulL", 3), ("True", 0), ("truex", 4), ("NaN", 0),
    ("-", 1), ("-a", 1), ("+1", 0), ("01", 1), ("-01", 2), (".5", 0), ("1.", 2), ("1.e1", 2),
    ("1e", 2), ("1e+", 3), ("0x1", 1), ("1 2", 2), ("-Infinity", 1),
    ("\"", 1), ("\"abc", 4), ("'a'", 0), ("\"\\x\"", 2), ("\"\\", 2), ("\"\\u12", 5),
    ("\"\\u12G4\"", 5), ("\"\\uD800\"", 1), ("\"a\\uDC00\"", 2), ("\"\\uD800\\u0041\"", 1),
    ("\"\\uD800x\"", 1), ("\"a\nb\"", 2), ("\"a\tb\"", 2), ("\"\u{0}\"", 1), ("\"\u{1F}\"", 1),
    ("\"12345678\u{1}\"", 9),
    ("[", 1), ("[1", 2), ("[1,", 3), ("[1,]", 3), ("[,1]", 1), ("[1 2]", 3), ("[1]]", 3),
    ("]", 0), ("[}", 1), ("{", 1), ("{\"a\"", 4), ("{\"a\":", 5), ("{\"a\":1", 6),
    ("{\"a\":1,", 7), ("{\"a\":1,}", 7), ("{a:1}", 1), ("{1:1}", 1), ("{\"a\" 1}", 5),
    ("{\"a\"::1}", 5), ("{\"a\":1 \"b\":2}", 7), ("// x\n1", 0), ("1 /* x */", 2),
    ("\u{FEFF}1", 0), ("\u{A0}1", 0), ("[\u{B}1]", 1),
  ]

  @Test(arguments: invalid)
  func refuses(_ text: String, _ offset: Int) {
    let error = #expect(throws: JSONError.self) { try JSONValue(parsing: text) }
    #expect(error?.offset == offset)
    #expect(error?.message.isEmpty == false)
  }

  @Test(
    arguments: [
      ([0x80], 1), ([0xC0, 0x80], 1), ([0xC1, 0xBF], 1), ([0xC3], 2), ([0xC3, 0x28], 2),
      ([0xE0, 0x80, 0x80], 2), ([0xED, 0xA0, 0x80], 2), ([0xEF, 0xBF], 3),
      ([0xF0, 0x80, 0x80, 0x80], 2), ([0xF4, 0x90, 0x80, 0x80], 2), ([0xF5, 0x80, 0x80, 0x80], 1),
      ([0xFF], 1), ([0xE2, 0x82, 0x28], 3),
    ] as [([UInt8], Int)])
  func refusesInvalidUTF8(_ bytes: [UInt8], _ offset: Int) {
    let error = #expect(throws: JSONError.self) {
      try JSONValue(parsing: [UInt8(ascii: "\"")] + bytes + [UInt8(ascii: "\"")])
    }
    #expect(error?.offset == offset)
    // The same deep inside a long string, past the fast path.
    let lead = Array("\"0123456789abcdef".utf8)
    let deep = #expect(throws: JSONError.self) {
      try JSONValue(parsing: lead + bytes + [UInt8(ascii: "\"")])
    }
    #expect(deep?.offset == offset + 16)
  }

  @Test func boundsDepth() throws {
    func nested(_ depth: Int) -> String {
      String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
    }
    #expect(throws: Never.self) { try JSONValue(parsing: nested(512)) }
    let error = #expect(throws: JSONError.self) { try JSONValue(parsing: nested(513)) }
    #expect(error?.offset == 512)
    #expect(throws: JSONError.self) { try JSONValue(parsing: nested(100_000)) }
    #expect(throws: JSONError.self) { try JSONValue(parsing: #"{"a":[]}"#, maxDepth: 1) }
    #expect(throws: Never.self) { try JSONValue(parsing: #"{"a":[],"b":[]}"#, maxDepth: 2) }
  }

  @Test func keepsOrderAndTheLastDuplicate() throws {
    let value = try JSONValue(parsing: #"{"z":1,"a":2,"z":3}"#)
    #expect(value.objectValue?.members.map(\.name) == ["z", "a", "z"])
    #expect(value["z"] == 3)
    #expect(value.jsonText == #"{"z":1,"a":2,"z":3}"#)
  }

  /// Bytes flipped at random never crash the parser, and what it still accepts, Foundation's parser
  /// accepts too and our writer writes so that it reads back the same.
  @Test func survivesFlippedBytes() throws {
    var generator = SeededGenerator(state: 0x5EED)
    let seeds =
      Self.valid.map(\.0) + [
        #"{"id":"x","choices":[{"index":0,"delta":{"content":"a\u00e9\n東"},"finish_reason":null}],"#
          + #""usage":{"prompt_tokens":12,"cost":-1.5e-3}}"#
      ]
    var accepted = 0
    for round in 0..<rounds(20_000) {
      var bytes = Array(seeds[round % seeds.count].utf8)
      for _ in 0...Int.random(in: 0..<3, using: &generator) where !bytes.isEmpty {
        let index = Int.random(in: 0..<bytes.count, using: &generator)
        switch Int.random(in: 0..<4, using: &generator) {
        case 0: bytes[index] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
        case 1: bytes[index] = UInt8.random(in: 0...255, using: &generator)
        case 2: bytes.remove(at: index)
        default: bytes.insert(bytes[Int.random(in: 0..<bytes.count, using: &generator)], at: index)
        }
      }
      guard let value = try? JSONValue(parsing: bytes) else { continue }
      accepted += 1
      #expect(try JSONValue(parsing: value.jsonText) == value)
      #expect(String(validating: bytes, as: UTF8.self) != nil)
      // Foundation has no room for numbers beyond Double.
      if bytes.contains(where: { $0 == UInt8(ascii: "e") || $0 == UInt8(ascii: "E") }) { continue }
      #expect(throws: Never.self, "\(String(decoding: bytes, as: UTF8.self))") {
        try JSONSerialization.jsonObject(with: Data(bytes), options: .fragmentsAllowed)
      }
    }
    #expect(accepted > 1000)
  }
}

/// The same sequence in every run (SplitMix64).
struct SeededGenerator: RandomNumberGenerator {
  var state: UInt64
  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var z = state
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return z ^ (z >> 31)
  }
}
