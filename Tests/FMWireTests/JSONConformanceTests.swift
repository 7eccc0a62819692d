import Foundation
import Testing

@testable import FMWire

/// What RFC 8259 accepts and refuses, by the categories that the published suites of JSON parsers
/// go through; the inputs are written for this test.
@Suite struct JSONConformanceTests {
  static let accepted: [(category: String, texts: [String])] = [
    ("structure: any value may be the text", ["null", "true", "false", "0", #""""#, "[]", "{}"]),
    (
      "structure: white space around every token",
      [
        " []", "[] ", "\t[\n1\r,\n2 ]\r\n", " { \"a\" : [ ] , \"b\" : { } } ", "\n\n\n1\n\n\n",
        "[\r\n]",
      ]
    ),
    ("structure: the text may end with its value", ["1", "-1", "1.5", "[1]"]),
    (
      "array: every kind of element, and mixed",
      [
        "[null]", "[false]", "[\"\"]", "[[]]", "[{}]", "[1,\"a\",null,[],{}]", "[[[[[]]]]]",
        "[1,1,1,1,1,1,1,1,1,1]", "[\"a\",\"a\"]", "[ 1 , 2 ]",
      ]
    ),
    (
      "number: whole",
      ["0", "-0", "7", "-7", "10", "1234567890", "[0,-0]", "123456789012345678901"]
    ),
    ("number: with a fraction", ["0.0", "-0.0", "0.5", "10.25", "1.000000000000000000000000001"]),
    (
      "number: with an exponent",
      [
        "1e1", "1E1", "1e+1", "1e-1", "0e0", "0E+0", "1.5e10", "-1.5E-10", "1e00001", "1e999",
        "1e-999",
      ]
    ),
    (
      "object: empty, nested, with equal names",
      [
        "{}", "{\"a\":1}", "{\"a\":1,\"a\":1}", "{\"a\":1,\"a\":2}", "{\"\":0}",
        "{\"a\":{\"b\":{}}}",
        "{\"a\":[],\"b\":{},\"c\":null}", "{\"long name with spaces\":true}", "{\"\\u0061\":1}",
        "{\"\\\"\":1}", "{\"a\\u0000b\":1}",
      ]
    ),
    (
      "string: every escape",
      [
        #""\"""#, #""\\""#, #""\/""#, #""\b\f\n\r\t""#, #""\u0041""#, #""\u00E9\u00e9""#,
        #""\u0000""#, #""\u001F""#, #""\u007F""#, #""\u2028\u2029""#, #""\uFEFF""#, #""\uFFFF""#,
        #""\uFDD0""#, #""\uE000""#, #""\"\\\/""#, #""a\\""#, #""\\u0041""#,
      ]
    ),
    (
      "string: surrogate pairs",
      [#""\uD800\uDC00""#, #""\uD83D\uDE00""#, #""\udbff\udfff""#, #""x\uD834\uDD1Ey""#]
    ),
    (
      "string: characters as they are",
      [
        "\"é\"", "\"€\"", "\"𝄞\"", "\"\u{10FFFF}\"", "\"\u{7F}\"", "\"\u{80}\"", "\"\u{2028}\"",
        "\"\u{FEFF}\"", "\"\u{FFFE}\"", "\"\u{E000}\"", "\"/\"", "\"'\"", "\"/* no comment */\"",
        "\"\u{301}\"", "\" \"", "\"0123456789012345678901234567890123456789\"",
      ]
    ),
  ]

  @Test(arguments: accepted.indices)
  func accepts(_ index: Int) throws {
    for text in Self.accepted[index].texts {
      let value = try JSONValue(parsing: text)
      // What it reads as is written so that it reads as the same.
      #expect(try JSONValue(parsing: value.jsonText) == value, "\(text)")
      // A reader that skips the value finds it as good.
      #expect(Self.skips(Array(text.utf8)), "\(text)")
      // Its place does not matter.
      #expect(try JSONValue(parsing: "[\(text)]") == .array([value]))
      #expect(try JSONValue(parsing: "{\"x\":\(text)}") == .object(JSONObject([("x", value)])))
    }
  }

  static let refused: [(category: String, texts: [String])] = [
    ("structure: no value", ["", " ", "\n", "\t \r\n"]),
    (
      "structure: more than one value",
      [
        "1 2", "[] []", "{}{}", "[]x", "null null", "{}\"a\"", "[1]]", "{}}", "\"a\"\"b\"", "1,2",
        "[],",
      ]
    ),
    (
      "structure: cut off",
      [
        "[", "{", "[1", "[1,", "[\"a", "[\"a\"", "{\"a", "{\"a\"", "{\"a\":", "{\"a\":1",
        "{\"a\":1,",
        "[[", "[{", "{\"a\":[", "{\"a\":{", "t", "tr", "fals", "nul", "-", "1.", "1e", "1e+", "\"",
        "\"\\", "\"\\u", "\"\\u1", "\"\\u12", "\"\\u123",
      ]
    ),
    (
      "structure: brackets that do not match",
      [
        "]", "}", "[}", "{]", "[1}", "{\"a\":1]", "[[]", "[{]", "{[}", ",", ":", "[:]", "{,}",
        "{:}",
      ]
    ),
    (
      "structure: other words and marks",
      [
        "nil", "None", "undefined", "yes", "NULL", "True", "FALSE", "nulL", "truE", "tRue", "a",
        "*",
        "<null>", "[<a>]", "@", "&", "%", "\\", "\\u0031", "`a`", "‘a’", "\u{1}", "$", "(1)",
        "[1;2]",
      ]
    ),
    (
      "structure: white space of other kinds",
      [
        "\u{B}1", "\u{C}[]", "\u{A0}1", "1\u{2028}", "\u{200B}1", "[\u{3000}]", "\u{FEFF}{}",
        "1\u{0}",
      ]
    ),
    (
      "structure: comments",
      [
        "1//x", "//x\n1", "/**/1", "1/* x */", "[1,/*2*/3]", "{\"a\":1}#x", "{\"a\":/*x*/1}",
        "1 --x",
      ]
    ),
    (
      "array: commas and elements",
      [
        "[,]", "[1,]", "[,1]", "[1,,2]", "[1 2]", "[1 true]", "[1\n2]", "[\"a\":1]", "[a]",
        "[1,\n]",
      ]
    ),
    (
      "number: signs",
      ["+1", "--1", "+-1", "-+1", "[- 1]", "-a", "-.5", "++", "1-", "1+", "1-2", "−1"]
    ),
    ("number: leading zeros", ["00", "01", "-00", "-01", "012", "00.5", "-012.5"]),
    (
      "number: fractions",
      [".5", "-.5", "1.", "1.e1", "0.e1", "1..2", "1.2.3", "1.-2", "1 .5", "1,5"]
    ),
    (
      "number: exponents",
      [
        "1e", "1E", "1e+", "1e-", "1ee1", "1e1e1", "1e.5", "1e1.5", "e1", "1 e1", "1e+-1", "0e",
        "1E+a",
      ]
    ),
    (
      "number: other notations",
      [
        "0x1", "0X1F", "1f", "1L", "0b1", "0o7", "1_000", "1'000", "NaN", "-NaN", "Infinity",
        "-Infinity", "inf", "1/2", "１", "٣", "1\u{301}", "0.1.", "1e1x", "1a", "-1x", "2.e3",
      ]
    ),
    (
      "object: names",
      [
        "{a:1}", "{'a':1}", "{1:1}", "{null:1}", "{[]:1}", "{\"a\"}", "{\"a\" 1}", "{\"a\",1}",
        "{\"a\"::1}", "{\"a\":}", "{:1}", "{\"a\":1 \"b\":2}", "{\"a\"=1}", "{\"a\" \"b\":1}",
        "{\"a\":1:2}", "{\"\\uD800\":1}", "{\"a\nb\":1}",
      ]
    ),
    (
      "object: commas",
      ["{,}", "{\"a\":1,}", "{,\"a\":1}", "{\"a\":1,,\"b\":2}", "{\"a\":1,,}", "{\"a\":1;\"b\":2}"]
    ),
    (
      "string: escapes",
      [
        #""\a""#, #""\x41""#, #""\0""#, #""\'""#, #""\U0041""#, #""\u""#, #""\u004""#, #""\u00G1""#,
        #""\u 041""#, #""\u{41}""#, #""\ ""#, #""\é""#, #""\"#, "\"\\\n\"", #""\u00-1""#,
      ]
    ),
    (
      "string: half surrogate pairs",
      [
        #""\uD800""#, #""\uDC00""#, #""\uDFFF""#, #""\uD800\uD800""#, #""\uDC00\uD800""#,
        #""\uD800x""#, #""\uD800\n""#, #""\uD800\u0041""#, #""\uD83D\uD83D\uDE00""#, #""\uD800\u""#,
        #""\uD800\uDC0""#,
      ]
    ),
    (
      "string: control characters as they are",
      [
        "\"\u{0}\"", "\"\u{1}\"", "\"\t\"", "\"\n\"", "\"\r\"", "\"\u{1F}\"", "\"a\u{8}b\"",
        "\"\r\n\"",
      ]
    ),
    ("string: quotes", ["'a'", "a", "\"a", "a\"", "\"\"\"", "\"a\" b\"", "“a”", "\"a'"]),
  ]

  @Test(arguments: refused.indices)
  func refuses(_ index: Int) {
    for text in Self.refused[index].texts {
      let bytes = Array(text.utf8)
      let error = #expect(throws: JSONError.self, "\(text.debugDescription)") {
        try JSONValue(parsing: bytes)
      }
      #expect((0...bytes.count).contains(error?.offset ?? -1))
      #expect(!Self.skips(bytes), "\(text.debugDescription)")
      // Inside another value it is no better, unless brackets or commas make something else of it.
      let inside = "[0,\(text)]"
      let isOther = text.isEmpty || "[]{},: \t\r\n\"1-".contains(text.first ?? " ")
      if !isOther {
        #expect(throws: JSONError.self, "\(inside)") { try JSONValue(parsing: inside) }
      }
    }
  }

  static let brokenUTF8: [(category: String, sequences: [[UInt8]])] = [
    ("a continuation without a lead", [[0x80], [0xBF], [0x80, 0x80], [0x41, 0x80]]),
    (
      "a lead without its continuation",
      [[0xC3], [0xE2, 0x82], [0xF0, 0x9F, 0x98], [0xC3, 0x41]]
    ),
    (
      "longer than needed",
      [
        [0xC0, 0x80], [0xC1, 0xBF], [0xE0, 0x80, 0x80], [0xE0, 0x9F, 0xBF],
        [0xF0, 0x80, 0x80, 0x80],
        [0xF0, 0x8F, 0xBF, 0xBF],
      ]
    ),
    (
      "surrogates",
      [[0xED, 0xA0, 0x80], [0xED, 0xBF, 0xBF], [0xED, 0xA0, 0x80, 0xED, 0xB0, 0x80]]
    ),
    (
      "beyond the last character",
      [[0xF4, 0x90, 0x80, 0x80], [0xF5, 0x80, 0x80, 0x80], [0xF8], [0xFF]]
    ),
    ("of another encoding", [[0xE9], [0xFE, 0xFF], [0xA4], [0x61, 0xE9, 0x62]]),
  ]

  @Test(arguments: brokenUTF8.indices)
  func refusesBrokenUTF8(_ index: Int) {
    let quote = UInt8(ascii: "\"")
    for sequence in Self.brokenUTF8[index].sequences {
      let padding = [UInt8](repeating: UInt8(ascii: "x"), count: 19)
      for text in [
        [quote] + sequence + [quote], [quote] + padding + sequence + [quote],
        [quote] + sequence + padding + [quote], sequence,
        [UInt8(ascii: "{"), quote] + sequence + Array("\":1}".utf8),
      ] {
        #expect(throws: JSONError.self) { try JSONValue(parsing: text) }
        #expect(!Self.skips(text))
      }
    }
  }

  /// UTF-16 and UTF-32 are not read, with or without a mark.
  @Test func refusesOtherEncodings() {
    let text = "[\"é\"]"
    for encoding: String.Encoding in [
      .utf16, .utf16BigEndian, .utf16LittleEndian, .utf32, .utf32BigEndian, .utf32LittleEndian,
    ] {
      let bytes = Array(text.data(using: encoding)!)
      #expect(throws: JSONError.self) { try JSONValue(parsing: bytes) }
    }
  }

  /// All 65,536 escapes of one code unit: a character, or half of a pair and refused.
  @Test func readsEveryEscapeOfACodeUnit() throws {
    for unit in 0...0xFFFF as ClosedRange<UInt32> {
      let digits = String(unit, radix: 16)
      let text = "\"\\u" + String(repeating: "0", count: 4 - digits.count) + digits + "\""
      let value = try? JSONValue(parsing: text)
      let expected = Unicode.Scalar(unit).map { JSONValue.string(String(Character($0))) }
      if value != expected { Issue.record("\(text)") }
    }
  }

  @Test func keepsNumbersAsTheyAreWritten() throws {
    for literal in [
      "0", "-0", "0.10", "1E+2", "1e-07", "9007199254740993", "-9223372036854775808",
      "18446744073709551615", "3.14159265358979323846264338327950288", "1e400",
    ] {
      let value = try JSONValue(parsing: literal)
      #expect(value.jsonText == literal)
    }
    #expect(try JSONValue(parsing: "9223372036854775807").intValue == .max)
    #expect(try JSONValue(parsing: "-9223372036854775808").intValue == .min)
    #expect(try JSONValue(parsing: "9223372036854775808").intValue == nil)
    #expect(try JSONValue(parsing: "9007199254740993").intValue == 9_007_199_254_740_993)
    #expect(try JSONValue(parsing: "1.0e2").intValue == 100)
    #expect(try JSONValue(parsing: "1.5").intValue == nil)
    #expect(try JSONValue(parsing: "1e400").intValue == nil)
  }

  @Test func boundsTheDepthOfWhatIsSkipped() {
    let deep = Array((String(repeating: "[", count: 600) + String(repeating: "]", count: 600)).utf8)
    #expect(!Self.skips(deep))
    let fine = Array((String(repeating: "[", count: 500) + String(repeating: "]", count: 500)).utf8)
    #expect(Self.skips(fine))
    let endless = [UInt8](repeating: UInt8(ascii: "["), count: 1 << 20)
    #expect(!Self.skips(endless))
  }

  /// Whether the text is one value for a reader that only moves past it.
  static func skips(_ bytes: [UInt8]) -> Bool {
    let text = Array("{\"x\":".utf8) + bytes + [UInt8(ascii: "}")]
    return text.withUnsafeBufferPointer { buffer in
      var reader = JSONReader(buffer, maxDepth: 512)
      let isObject = try? reader.readTextMembers { (reader, _) throws(JSONError) in
        try reader.skipValue()
      }
      return isObject == true
    }
  }
}
