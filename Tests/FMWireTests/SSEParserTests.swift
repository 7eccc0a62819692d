import Testing

@testable import FMWire

@Suite struct SSEParserTests {
  struct Event: Equatable {
    var name: String
    var data: String
  }

  static func parse(_ chunks: [[UInt8]], maxLength: Int = 8 << 20) throws -> [Event] {
    var parser = SSEParser(url: "http://example", maxLength: maxLength)
    var events: [Event] = []
    for chunk in chunks {
      try chunk.withUnsafeBufferPointer { bytes in
        try parser.feed(bytes) { (name, data) in
          events.append(Event(name: name, data: String(decoding: data, as: UTF8.self)))
        }
      }
    }
    try parser.finish { (name, data) in
      events.append(Event(name: name, data: String(decoding: data, as: UTF8.self)))
    }
    return events
  }

  static func parse(_ text: String) throws -> [Event] { try parse([Array(text.utf8)]) }

  static func event(_ data: String, name: String = "") -> Event { Event(name: name, data: data) }

  @Test(arguments: [
    ("data: a\n\n", [event("a")]),
    ("data:a\n\ndata:  b\n\n", [event("a"), event(" b")]),
    ("data: a\r\n\r\ndata: b\r\n\r\n", [event("a"), event("b")]),
    ("data: a\r\rdata: b\r\r", [event("a"), event("b")]),
    ("data: a\r\n\ndata: b\n\r\n", [event("a"), event("b")]),
    ("\u{FEFF}data: a\n\n", [event("a")]),
    ("data: \u{FEFF}a\n\n", [event("\u{FEFF}a")]),
    ("data: a\ndata: b\n\n", [event("a\nb")]),
    ("event: x\ndata: a\nid: 7\n\ndata: b\n\n", [event("a", name: "x"), event("b")]),
    (":\n\n: comment\ndata: a\n:x\n\n:\n\n", [event("a")]),
    ("event: x\n\ndata:\n\ndata\n\n\n\n", []),
    ("error: {\"a\":1}\n\n", [event("{\"a\":1}", name: "error")]),
    ("unknown: x\nretry: 5\ndata: a\n\n", [event("a")]),
    ("data: a", [event("a")]), ("data: a\n", [event("a")]), ("data: a\r", [event("a")]),
    ("", []), ("\n\n\r\n", []), ("dat", []),
  ])
  func reads(_ text: String, _ expected: [Event]) throws {
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

  /// Every text of up to six of these pieces, at every split in two: the same events as a plain
  /// reading of the standard gives, which knows nothing of chunks.
  @Test func agreesWithAPlainReadingAtEverySplit() throws {
    let pieces = ["\n", "\r", "\r\n", "data:", "data: é", ":", "event: x", "error: y", " "]
    var generator = SeededGenerator(state: 0x55E)
    for round in 0..<rounds(3000) {
      let count = Int.random(in: 0...(round < 2000 ? 6 : 20), using: &generator)
      var text = Int.random(in: 0..<8, using: &generator) == 0 ? "\u{FEFF}" : ""
      for _ in 0..<count { text += pieces.randomElement(using: &generator)! }
      let bytes = Array(text.utf8)
      let expected = Self.plainReading(text)
      for split in 0...bytes.count {
        let events = try Self.parse([Array(bytes[..<split]), Array(bytes[split...])])
        #expect(events == expected, "\(text.debugDescription) at \(split)")
      }
      #expect(try Self.parse(bytes.map { [$0] }) == expected)
    }
  }

  /// The whole text at once: lines first, then events.
  static func plainReading(_ text: String) -> [Event] {
    var scalars = Array(text.unicodeScalars)
    if scalars.first == "\u{FEFF}" { scalars.removeFirst() }
    var lines: [String] = []
    var line = ""
    var index = 0
    while index < scalars.count {
      let scalar = scalars[index]
      index += 1
      if scalar == "\n" || scalar == "\r" {
        if scalar == "\r", index < scalars.count, scalars[index] == "\n" { index += 1 }
        lines.append(line)
        line = ""
      } else {
        line.unicodeScalars.append(scalar)
      }
    }
    lines += [line, ""]
    var events: [Event] = []
    var name = ""
    var data = ""
    for line in lines {
      if line.isEmpty {
        if !data.isEmpty { events.append(Event(name: name, data: data)) }
        (name, data) = ("", "")
        continue
      }
      let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
      var value = parts.count > 1 ? String(parts[1]) : ""
      if value.hasPrefix(" ") { value.removeFirst() }
      switch parts[0] {
      case "data": data += (data.isEmpty ? "" : "\n") + value
      case "event": name = value
      case "error":
        name = "error"
        data += (data.isEmpty ? "" : "\n") + value
      default: break
      }
    }
    return events
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
