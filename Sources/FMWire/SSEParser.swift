import Glibc

/// One event of a server-sent event stream.
struct SSEEvent: Sendable, Equatable {
  /// The `event` field; "" where there was none, "error" for llama.cpp's old `error:` field.
  var name = ""
  /// The `data` lines, joined by line feeds.
  var data: [UInt8] = []
  var id = ""
}

/// Turns the bytes of an event stream (WHATWG HTML, section 9.2) into events, however the bytes
/// are cut into chunks.
///
/// Lenient where servers are sloppy: any mix of CR, LF and CRLF, a missing final blank line, the
/// field `error` in place of `event: error`. Events without data are dropped, as the standard says.
/// Costs one pass; a line that arrives in one chunk is not copied before it is read.
struct SSEParser {
  /// Bytes of a line, and of an event's data.
  let maxLength: Int
  private let url: String

  /// The part of a line that came with earlier chunks.
  private var line: [UInt8] = []
  private var event = SSEEvent()
  private var lastWasCR = false
  private var isFirstLine = true

  init(url: String, maxLength: Int = 8 << 20) {
    self.url = url
    self.maxLength = maxLength
  }

  /// Appends the events that `chunk` completes.
  mutating func feed(_ chunk: [UInt8], into events: inout [SSEEvent]) throws(WireError) {
    // A CR ended the previous line; a LF right after it belongs to that line end.
    var start = 0
    if lastWasCR, let first = chunk.first {
      lastWasCR = false
      if first == UInt8(ascii: "\n") { start = 1 }
    }
    while start < chunk.count {
      guard let end = Self.lineEnd(in: chunk, from: start) else {
        try checkLength(line.count + chunk.count - start)
        line.append(contentsOf: chunk[start...])
        return
      }
      if line.isEmpty {
        try checkLength(end - start)
        try take(chunk[start..<end], into: &events)
      } else {
        try checkLength(line.count + end - start)
        line.append(contentsOf: chunk[start..<end])
        let whole = line
        line.removeAll(keepingCapacity: true)
        try take(whole[...], into: &events)
      }
      start = end + 1
      if chunk[end] == UInt8(ascii: "\r") {
        if start == chunk.count {
          lastWasCR = true
        } else if chunk[start] == UInt8(ascii: "\n") {
          start += 1
        }
      }
    }
  }

  /// The stream is over: what is left counts as a line and an event.
  mutating func finish(into events: inout [SSEEvent]) throws(WireError) {
    if !line.isEmpty {
      let whole = line
      line = []
      try take(whole[...], into: &events)
    }
    dispatch(into: &events)
  }

  /// Where the line that starts at `start` ends: the index of its CR or LF.
  private static func lineEnd(in chunk: [UInt8], from start: Int) -> Int? {
    chunk.withUnsafeBufferPointer { buffer in
      let base = buffer.baseAddress!
      func find(_ byte: UInt8, upTo end: Int) -> Int? {
        guard let found = memchr(base + start, Int32(byte), end - start) else { return nil }
        return UnsafeRawPointer(base).distance(to: UnsafeRawPointer(found))
      }
      let feed = find(UInt8(ascii: "\n"), upTo: buffer.count)
      return find(UInt8(ascii: "\r"), upTo: feed ?? buffer.count) ?? feed
    }
  }

  private mutating func take(
    _ whole: ArraySlice<UInt8>, into events: inout [SSEEvent]
  ) throws(WireError) {
    var line = whole
    if isFirstLine {
      isFirstLine = false
      if line.starts(with: [0xEF, 0xBB, 0xBF]) { line = line.dropFirst(3) }
    }
    guard let first = line.first else {
      dispatch(into: &events)
      return
    }
    if first == UInt8(ascii: ":") { return }
    let colon = line.firstIndex(of: UInt8(ascii: ":"))
    let name = line[line.startIndex..<(colon ?? line.endIndex)]
    var value = colon.map { line[($0 + 1)...] } ?? []
    if value.first == UInt8(ascii: " ") { value = value.dropFirst() }
    if name.elementsEqual("data".utf8) {
      try appendData(value)
    } else if name.elementsEqual("event".utf8) {
      event.name = String(decoding: value, as: UTF8.self)
    } else if name.elementsEqual("id".utf8) {
      event.id = String(decoding: value, as: UTF8.self)
    } else if name.elementsEqual("error".utf8) {
      event.name = "error"
      try appendData(value)
    }
  }

  private mutating func appendData(_ value: ArraySlice<UInt8>) throws(WireError) {
    if !event.data.isEmpty {
      try checkLength(event.data.count + value.count + 1)
      event.data.append(UInt8(ascii: "\n"))
    }
    event.data.append(contentsOf: value)
  }

  private mutating func dispatch(into events: inout [SSEEvent]) {
    if !event.data.isEmpty { events.append(event) }
    event = SSEEvent()
  }

  private func checkLength(_ length: Int) throws(WireError) {
    if length > maxLength {
      throw WireError(
        kind: .invalidResponse,
        message: "\(url) sent an event longer than \(maxLength) bytes", url: url)
    }
  }
}
