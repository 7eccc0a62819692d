import Glibc

/// Turns the bytes of an event stream (WHATWG HTML, section 9.2) into events, however the bytes
/// are cut into chunks.
///
/// Lenient where servers are sloppy: any mix of CR, LF and CRLF, a missing final blank line, the
/// field `error` in place of `event: error`. Events without data are dropped, as the standard says.
/// Costs one pass; an event that arrives in one chunk is handed on where it lies.
struct SSEParser {
  /// Bytes of a line, and of an event's data.
  let maxLength: Int
  private let url: String

  /// The part of a line that came with earlier chunks.
  private var line: [UInt8] = []
  /// The `event` field so far; "error" for llama.cpp's old `error:` field.
  private var name = ""
  /// The data lines so far, joined by line feeds, but for the one in `held`.
  private var data: [UInt8] = []
  private var hasData = false
  /// An event's only data line so far: its place in the chunk at hand.
  private var held: Range<Int>?
  private var lastWasCR = false
  private var isFirstLine = true

  init(url: String, maxLength: Int = 8 << 20) {
    self.url = url
    self.maxLength = maxLength
  }

  /// Hands each event that `chunk` completes to `take`: its name ("" where it has none) and its data,
  /// valid during the call.
  mutating func feed(
    _ chunk: UnsafeBufferPointer<UInt8>,
    _ take: (_ name: String, _ data: UnsafeBufferPointer<UInt8>) throws(WireError) -> Void
  ) throws(WireError) {
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
        break
      }
      if line.isEmpty {
        try checkLength(end - start)
        try read(chunk, start..<end, isCarried: false, take)
      } else {
        try checkLength(line.count + end - start)
        line.append(contentsOf: chunk[start..<end])
        try readCarriedLine(chunk, take)
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
    keepHeld(of: chunk)
  }

  /// The stream is over: what is left counts as a line and an event.
  mutating func finish(
    _ take: (_ name: String, _ data: UnsafeBufferPointer<UInt8>) throws(WireError) -> Void
  ) throws(WireError) {
    let nothing = UnsafeBufferPointer<UInt8>(start: nil, count: 0)
    if !line.isEmpty { try readCarriedLine(nothing, take) }
    try dispatch(nothing, take)
  }

  /// Where the line that starts at `start` ends: the index of its CR or LF.
  private static func lineEnd(in chunk: UnsafeBufferPointer<UInt8>, from start: Int) -> Int? {
    guard let base = chunk.baseAddress else { return nil }
    func find(_ byte: UInt8, upTo end: Int) -> Int? {
      guard let found = memchr(base + start, Int32(byte), end - start) else { return nil }
      return UnsafeRawPointer(base).distance(to: UnsafeRawPointer(found))
    }
    let feed = find(UInt8(ascii: "\n"), upTo: chunk.count)
    return find(UInt8(ascii: "\r"), upTo: feed ?? chunk.count) ?? feed
  }

  private mutating func readCarriedLine(
    _ chunk: UnsafeBufferPointer<UInt8>,
    _ take: (String, UnsafeBufferPointer<UInt8>) throws(WireError) -> Void
  ) throws(WireError) {
    // Taken out, so that it is not copied while `self` changes.
    var whole: [UInt8] = []
    swap(&whole, &line)
    let result = whole.withUnsafeBufferPointer { bytes in
      Result { () throws(WireError) in
        // A blank line is never carried, so nothing is dispatched out of this buffer.
        try read(bytes, 0..<bytes.count, isCarried: true, take)
      }
    }
    whole.removeAll(keepingCapacity: true)
    swap(&whole, &line)
    try result.get()
  }

  /// One line: `range` of `bytes`, which is the chunk at hand or else the carried line.
  private mutating func read(
    _ bytes: UnsafeBufferPointer<UInt8>, _ range: Range<Int>, isCarried: Bool,
    _ take: (String, UnsafeBufferPointer<UInt8>) throws(WireError) -> Void
  ) throws(WireError) {
    var range = range
    if isFirstLine {
      isFirstLine = false
      if bytes[range].starts(with: [0xEF, 0xBB, 0xBF]) {
        range = (range.lowerBound + 3)..<range.upperBound
      }
    }
    if range.isEmpty { return try dispatch(bytes, take) }
    if bytes[range.lowerBound] == UInt8(ascii: ":") { return }
    var nameEnd = range.lowerBound
    while nameEnd < range.upperBound, bytes[nameEnd] != UInt8(ascii: ":") { nameEnd += 1 }
    var valueStart = min(nameEnd + 1, range.upperBound)
    if valueStart < range.upperBound, bytes[valueStart] == UInt8(ascii: " ") { valueStart += 1 }
    let value = valueStart..<range.upperBound
    func isField(_ field: StaticString) -> Bool {
      let count = nameEnd - range.lowerBound
      return field.utf8CodeUnitCount == count
        && memcmp(field.utf8Start, bytes.baseAddress! + range.lowerBound, count) == 0
    }
    if isField("data") {
      try takeData(bytes, value, isCarried: isCarried)
    } else if isField("event") {
      name = String(decoding: bytes[value], as: UTF8.self)
    } else if isField("error") {
      name = "error"
      try takeData(bytes, value, isCarried: isCarried)
    }
  }

  private mutating func takeData(
    _ bytes: UnsafeBufferPointer<UInt8>, _ value: Range<Int>, isCarried: Bool
  ) throws(WireError) {
    if !hasData && !isCarried {
      hasData = true
      held = value
      return
    }
    if !isCarried { keepHeld(of: bytes) }
    // An empty line adds its line feed only between others, as servers mean it.
    if hasData && !data.isEmpty {
      try checkLength(data.count + value.count + 1)
      data.append(UInt8(ascii: "\n"))
    }
    hasData = true
    data.append(contentsOf: bytes[value])
  }

  /// Copies the held line before its chunk goes.
  private mutating func keepHeld(of chunk: UnsafeBufferPointer<UInt8>) {
    guard let held else { return }
    data.append(contentsOf: chunk[held])
    self.held = nil
  }

  private mutating func dispatch(
    _ chunk: UnsafeBufferPointer<UInt8>,
    _ take: (String, UnsafeBufferPointer<UInt8>) throws(WireError) -> Void
  ) throws(WireError) {
    defer {
      data.removeAll(keepingCapacity: data.capacity <= 1 << 16)
      hasData = false
      held = nil
      if !name.isEmpty { name = "" }
    }
    if let held {
      if !held.isEmpty { try take(name, UnsafeBufferPointer(rebasing: chunk[held])) }
    } else if !data.isEmpty {
      let name = name
      let result = data.withUnsafeBufferPointer { bytes in
        Result { () throws(WireError) in try take(name, bytes) }
      }
      try result.get()
    }
  }

  private func checkLength(_ length: Int) throws(WireError) {
    if length > maxLength {
      throw WireError(
        kind: .invalidResponse,
        message: "\(url) sent an event longer than \(maxLength) bytes", url: url)
    }
  }
}
