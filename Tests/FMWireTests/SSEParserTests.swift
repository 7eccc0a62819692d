import Testing

@testable import FMWire

@Suite struct SSEParserTests {
  static func parse(_ chunks: [[UInt8]], maxLength: Int = 8 << 20) throws -> [SSEEvent] {
    var parser = SSEParser(url: "http://example", maxLength: maxLength)
    var events: [SSEEvent] = []
    for chunk in chunks { try parser.feed(chunk, into: &events) }
    try parser.finish(into: &events)
    return events
  }

  static func parse(_ text: String) throws -> [SSEEvent] { try parse([Array(text.utf8)]) }

  static func event(_ data: String, name: String = "", id: String = "") -> SSEEvent {
    SSEEvent(name: name, data: Array(data.utf8), id: id)
  }

  @Test(arguments: [
    ("data: a\n\n", [event("a")]),
    ("data:a\n\ndata:  b\n\n", [event("a"), event(" b")]),
    ("data: a\r\n\r\ndata: b\r\n\r\n", [event("a"), event("b")]),
    ("data: a\r\rdata: b\r\r", [event("a"), event("b")]),
    ("data: a\r\n\ndata: b\n\r\n", [event("a"), event("b")]),
    ("\u{FEFF}data: a\n\n", [event("a")]),
    ("data: \u{FEFF}a\n\n", [event("\u{FEFF}a")]),
    ("data: a\ndata: b\n\n", [event("a\nb")]),
    ("event: x\ndata: a\nid: 7\n\ndata: b\n\n", [event("a", name: "x", id: "7"), event("b")]),
    (":\n\n: comment\ndata: a\n:x\n\n:\n\n", [event("a")]),
    ("event: x\n\ndata:\n\ndata\n\n\n\n", []),
    ("error: {\"a\":1}\n\n", [event("{\"a\":1}", name: "error")]),
    ("unknown: x\nretry: 5\ndata: a\n\n", [event("a")]),
    ("data: a", [event("a")]), ("data: a\n", [event("a")]), ("data: a\r", [event("a")]),
    ("", []), ("\n\n\r\n", []), ("dat", []),
  ])
  func reads(_ text: String, _ expected: [SSEEvent]) throws {
    #expect(try Self.parse(text) == expected)
  }

  /// Cut in two at every byte, and into single bytes: always the same events.
  @Test func givesTheSameAtEverySplit() throws {
    let text =
      "\u{FEFF}: hi\r\ndata: {\"a\":\"é東🦊\"}\r\n\r\ndata: one\rdata: two\r\r:\n\nevent: error\n"
      + "data: bad\n\nid: 9\nerror: worse\r\n\r\n\n\ndata: [DONE]\r\n"
    let bytes = Array(text.utf8)
    let expected = try Self.parse([bytes])
    #expect(expected.count == 5)
    for split in 0...bytes.count {
      #expect(try Self.parse([Array(bytes[..<split]), Array(bytes[split...])]) == expected)
    }
    #expect(try Self.parse(bytes.map { [$0] }) == expected)
    for size in 2..<12 {
      let chunks = stride(from: 0, to: bytes.count, by: size).map {
        Array(bytes[$0..<min($0 + size, bytes.count)])
      }
      #expect(try Self.parse(chunks) == expected)
    }
  }

  @Test func boundsLinesAndEvents() throws {
    let long = [UInt8](repeating: UInt8(ascii: "x"), count: 101)
    for chunks in [[long], [Array(long[..<60]), Array(long[60...])], [long + [10]]] {
      let error = #expect(throws: WireError.self) { try Self.parse(chunks, maxLength: 100) }
      #expect(error?.kind == .invalidResponse)
    }
    let line = Array("data: ".utf8) + long[..<40] + [10]
    #expect(throws: Never.self) { try Self.parse([line, line], maxLength: 100) }
    #expect(throws: WireError.self) { try Self.parse([line, line, line], maxLength: 100) }
  }
}
