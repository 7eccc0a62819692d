import Foundation
import Testing

@testable import FMWire

@Suite struct JSONWriterTests {
  @Test func setsCommas() {
    var writer = JSONWriter()
    writer.beginObject()
    writer.name("a")
    writer.beginArray()
    writer.value(1)
    writer.value("two")
    writer.beginObject()
    writer.endObject()
    writer.beginArray()
    writer.endArray()
    writer.endArray()
    writer.name("b")
    writer.value(.null)
    writer.name("c")
    writer.value(["x": true, "y": [false, 1]])
    writer.endObject()
    #expect(
      String(decoding: writer.bytes, as: UTF8.self)
        == #"{"a":[1,"two",{},[]],"b":null,"c":{"x":true,"y":[false,1]}}"#)
  }

  @Test func escapesWhatMustBe() throws {
    let text =
      String(String.UnicodeScalarView((0...0x7F).map { Unicode.Scalar($0)! })) + "é東🦊\u{2028}"
    let json = JSONValue.string(text).jsonText
    #expect(try JSONDecoder().decode(String.self, from: Data(json.utf8)) == text)
    #expect(json.hasPrefix(#""\u0000\u0001"#))
    #expect(json.contains(#"\b\t\n\u000b\f\r\u000e"#))
    #expect(json.contains("!\\\"#$"))
    #expect(json.hasSuffix("é東🦊\u{2028}\""))
  }

  @Test(arguments: Array(0...70) + [1000, 12287, 12288, 12289, 24577, 100_001])
  func encodesBase64AsFoundationDoes(_ count: Int) throws {
    var generator = SeededGenerator(state: UInt64(count))
    let data = (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) }
    var writer = JSONWriter()
    writer.beginArray()
    writer.value("first")
    writer.dataURL(mediaType: "image/png", bytes: data)
    writer.endArray()
    #expect(
      String(decoding: writer.bytes, as: UTF8.self)
        == #"["first","data:image/png;base64,"# + Data(data).base64EncodedString() + #""]"#)
  }

  @Test func keepsNumbers() throws {
    for literal in ["9223372036854775807", "-0", "1.10", "1e400", "0.30000000000000004"] {
      #expect(try JSONValue(parsing: literal).jsonText == literal)
    }
  }

  /// A byte that is escaped, at every place of a long text, among bytes of every kind.
  @Test func escapesAtEveryPlace() throws {
    for filler in ["a", "\u{7F}", "é", "東", "!", "]"] {
      for special in ["\"", "\\", "\n", "\u{1F}", "\u{0}", "\"\""] {
        for before in 0..<20 {
          let text =
            String(repeating: filler, count: before) + special + String(repeating: filler, count: 9)
          let json = JSONValue.string(text).jsonText
          #expect(try JSONValue(parsing: json) == .string(text))
          let plain = try JSONSerialization.jsonObject(
            with: Data(json.utf8), options: .fragmentsAllowed)
          #expect(plain as? String == text)
        }
      }
    }
  }
}
