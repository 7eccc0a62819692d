import Foundation
import Testing

@testable import FMWire

@Suite struct RequestBodyTests {
  /// Long and short texts with whatever JSON escapes, and pictures, written by one that leaves the
  /// long ones where they are.
  static func body(_ random: inout SeededGenerator) -> (body: RequestBody, strings: [String]) {
    var writer = JSONWriter(leavingLarge: true)
    var strings: [String] = []
    writer.beginArray()
    for _ in 0..<6 {
      let count = Bool.random(using: &random) ? 40_000 : 40
      if Bool.random(using: &random) {
        let text = text(count + Int.random(in: 0..<9, using: &random), &random)
        writer.value(text)
        strings.append(text)
      } else {
        let bytes = (0..<(count + Int.random(in: 0..<9, using: &random))).map { _ in
          UInt8.random(in: 0...255, using: &random)
        }
        writer.dataURL(mediaType: "image/png", bytes: bytes)
        strings.append("data:image/png;base64," + Data(bytes).base64EncodedString())
      }
    }
    writer.endArray()
    return (writer.body, strings)
  }

  /// Mostly plain words, or mostly what is escaped.
  static func text(_ count: Int, _ random: inout SeededGenerator) -> String {
    let odd: [Unicode.Scalar] = ["\"", "\\", "\n", "\t", "\u{0}", "\u{1F}", "\u{B}", "é", "東", "🦊"]
    let share = [2, 40, 1000].randomElement(using: &random)!
    var text = String.UnicodeScalarView()
    for _ in 0..<count {
      let isOdd = Int.random(in: 0..<share, using: &random) == 0
      text.append(
        isOdd ? odd.randomElement(using: &random)! : Unicode.Scalar(UInt8.random(in: 97...122)))
    }
    return String(text)
  }

  static func read(_ reader: inout RequestBodyReader, rooms: () -> Int) -> [UInt8] {
    var result: [UInt8] = []
    while true {
      var room = [UInt8](repeating: 0, count: rooms())
      let count = room.withUnsafeMutableBytes { reader.read(into: $0) }
      result += room[..<count]
      if count < room.count { return result }
    }
  }

  /// Foundation reads what was written as what was meant, whatever room it is written into.
  @Test(arguments: 0..<20)
  func isTheSameInEveryRoom(_ seed: UInt64) throws {
    var random = SeededGenerator(state: seed)
    let (body, strings) = Self.body(&random)
    let whole = body.bytes
    #expect(body.count == whole.count)
    #expect(try JSONSerialization.jsonObject(with: Data(whole)) as? [String] == strings)
    var rooms = [1, 2, 3, 4, 5, 6, 7, 4096, 65_536].makeIterator()
    while let room = rooms.next() {
      var reader = RequestBodyReader(body)
      #expect(Self.read(&reader) { room } == whole)
    }
    var reader = RequestBodyReader(body)
    #expect(Self.read(&reader) { .random(in: 1...3000, using: &random) } == whole)
  }

  @Test func beginsAgainAnywhere() {
    var random = SeededGenerator(state: 3)
    let body = Self.body(&random).body
    let whole = body.bytes
    var reader = RequestBodyReader(body)
    for _ in 0..<50 {
      let place = Int.random(in: 0...whole.count, using: &random)
      reader.seek(to: place)
      #expect(Self.read(&reader) { 5000 } == Array(whole[place...]))
    }
    reader.seek(to: 0)
    #expect(Self.read(&reader) { 1 << 20 } == whole)
  }

  @Test func largePartsAreNotCopied() throws {
    let text = String(repeating: "long \"text\"\n", count: 4000)
    var writer = JSONWriter(leavingLarge: true)
    writer.beginArray()
    writer.value(text)
    writer.value("short")
    writer.dataURL(mediaType: "image/png", bytes: [UInt8](repeating: 7, count: 100_000))
    writer.endArray()
    let given = writer.body.pieces.map { piece -> Int in
      if case .bytes(let bytes) = piece { bytes.count } else { 0 }
    }
    #expect(given.reduce(0, +) < 100)
    #expect(given.count == 5)
  }

  @Test func aPartIsTakenOutWhereItStandsLast() throws {
    let text = String(repeating: "x", count: 20_000) + UsageRequest.member
    var writer = JSONWriter(leavingLarge: true)
    writer.value([
      "a": 1, "stream_options": ["include_usage": true], "b": .string(text),
      "stream_options": ["include_usage": true], "c": .string(text),
    ])
    let member = Array(UsageRequest.member.utf8)
    let once = try #require(writer.body.removing(member))
    #expect(once.count == writer.body.count - member.count)
    let twice = try #require(once.removing(member))
    #expect(
      try JSONValue(parsing: twice.bytes) == ["a": 1, "b": .string(text), "c": .string(text)])
    #expect(twice.removing(member) == nil)
    #expect(RequestBody().removing(member) == nil)
  }
}
