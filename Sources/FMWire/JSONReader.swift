import Glibc

/// Reads JSON text out of a buffer that outlives it: the parser's only unsafe part.
///
/// Every read is checked against the buffer's count. Costs one pass; strings without escapes are
/// copied in one piece.
struct JSONReader {
  private let bytes: UnsafeBufferPointer<UInt8>
  private let maxDepth: Int
  private var position = 0
  private var depth = 0

  init(_ bytes: UnsafeBufferPointer<UInt8>, maxDepth: Int) {
    self.bytes = bytes
    self.maxDepth = maxDepth
  }

  /// The one value that the text holds.
  mutating func readText() throws(JSONError) -> JSONValue {
    skipWhitespace()
    let value = try readValue()
    skipWhitespace()
    if position < bytes.count {
      throw JSONError(offset: position, message: "something follows the JSON value")
    }
    return value
  }

  // MARK: - Reading what is wanted

  /// Reads an object that is the whole text, member by member: `take` gets each name and must read
  /// or skip its value. False when the text is no object; nothing is read then.
  mutating func readTextMembers(
    _ take: (inout JSONReader, JSONName) throws(JSONError) -> Void
  ) throws(JSONError) -> Bool {
    skipWhitespace()
    guard peek() == UInt8(ascii: "{") else { return false }
    try readMembers(take)
    skipWhitespace()
    if position < bytes.count {
      throw JSONError(offset: position, message: "something follows the JSON value")
    }
    return true
  }

  /// The same for an object inside. False when the value is none; it is still to be read then.
  mutating func readMembersIfObject(
    _ take: (inout JSONReader, JSONName) throws(JSONError) -> Void
  ) throws(JSONError) -> Bool {
    guard peek() == UInt8(ascii: "{") else { return false }
    try readMembers(take)
    return true
  }

  /// Reads a list: `take` must read or skip each element. False as for an object.
  mutating func readElementsIfArray(
    _ take: (inout JSONReader) throws(JSONError) -> Void
  ) throws(JSONError) -> Bool {
    guard peek() == UInt8(ascii: "[") else { return false }
    try enter()
    skipWhitespace()
    if peek() == UInt8(ascii: "]") {
      leave()
      return true
    }
    while true {
      try take(&self)
      if try endsAfterElement() { return true }
    }
  }

  /// The string at hand; nil when the value is none, which is still to be read then.
  mutating func readIfString() throws(JSONError) -> String? {
    peek() == UInt8(ascii: "\"") ? try readString() : nil
  }

  /// The string at hand, to be compared and not kept; nil as `readIfString`.
  mutating func readIfName() throws(JSONError) -> JSONName? {
    peek() == UInt8(ascii: "\"") ? try readNameText() : nil
  }

  /// Moves past `null`; false when the value is another, which is still to be read then.
  mutating func readIfNull() throws(JSONError) -> Bool {
    guard peek() == UInt8(ascii: "n") else { return false }
    try readWord("null")
    return true
  }

  /// Moves past a value of any kind, which is checked as any other and costs no memory.
  mutating func skipValue() throws(JSONError) {
    guard let byte = peek() else { throw endError() }
    switch byte {
    case UInt8(ascii: "{"):
      try readMembers { (reader, _) throws(JSONError) in try reader.skipValue() }
    case UInt8(ascii: "["):
      _ = try readElementsIfArray { (reader) throws(JSONError) in try reader.skipValue() }
    case UInt8(ascii: "\""): _ = try skipString()
    case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): try skipNumber()
    default: _ = try readValue()
    }
  }

  private mutating func readMembers(
    _ take: (inout JSONReader, JSONName) throws(JSONError) -> Void
  ) throws(JSONError) {
    try enter()
    skipWhitespace()
    if peek() == UInt8(ascii: "}") {
      leave()
      return
    }
    while true {
      let name = try readName()
      try take(&self, name)
      if try endsAfterMember() { return }
    }
  }

  private mutating func readName() throws(JSONError) -> JSONName {
    guard let byte = peek() else { throw endError() }
    guard byte == UInt8(ascii: "\"") else {
      throw JSONError(
        offset: position, message: "expected a member's name in quotes, not \(Self.name(byte))")
    }
    let name = try readNameText()
    skipWhitespace()
    try expect(UInt8(ascii: ":"), "':' after a member's name")
    skipWhitespace()
    return name
  }

  /// The string at hand as it stands in the text.
  private mutating func readNameText() throws(JSONError) -> JSONName {
    let start = position + 1
    let hasEscapes = try skipString()
    return JSONName(
      UnsafeBufferPointer(rebasing: bytes[start..<(position - 1)]), hasEscapes: hasEscapes)
  }

  /// Moves past what follows a member: true at the object's end.
  private mutating func endsAfterMember() throws(JSONError) -> Bool {
    skipWhitespace()
    guard let next = peek() else { throw endError() }
    if next == UInt8(ascii: "}") {
      leave()
      return true
    }
    try expect(UInt8(ascii: ","), "',' or '}' after a member")
    skipWhitespace()
    return false
  }

  private mutating func endsAfterElement() throws(JSONError) -> Bool {
    skipWhitespace()
    guard let next = peek() else { throw endError() }
    if next == UInt8(ascii: "]") {
      leave()
      return true
    }
    try expect(UInt8(ascii: ","), "',' or ']' after an element")
    skipWhitespace()
    return false
  }

  // MARK: - Values

  mutating func readValue() throws(JSONError) -> JSONValue {
    guard let byte = peek() else { throw endError() }
    switch byte {
    case UInt8(ascii: "{"): return try readObject()
    case UInt8(ascii: "["): return try readArray()
    case UInt8(ascii: "\""): return .string(try readString())
    case UInt8(ascii: "t"):
      try readWord("true")
      return .bool(true)
    case UInt8(ascii: "f"):
      try readWord("false")
      return .bool(false)
    case UInt8(ascii: "n"):
      try readWord("null")
      return .null
    case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"):
      return .number(try readNumber())
    default:
      throw JSONError(offset: position, message: "no JSON value starts with \(Self.name(byte))")
    }
  }

  private mutating func readObject() throws(JSONError) -> JSONValue {
    try enter()
    var object = JSONObject()
    skipWhitespace()
    if peek() == UInt8(ascii: "}") {
      leave()
      return .object(object)
    }
    while true {
      guard let byte = peek() else { throw endError() }
      guard byte == UInt8(ascii: "\"") else {
        throw JSONError(
          offset: position, message: "expected a member's name in quotes, not \(Self.name(byte))")
      }
      let name = try readString()
      skipWhitespace()
      try expect(UInt8(ascii: ":"), "':' after a member's name")
      skipWhitespace()
      object.members.append((name: name, value: try readValue()))
      if try endsAfterMember() { return .object(object) }
    }
  }

  private mutating func readArray() throws(JSONError) -> JSONValue {
    try enter()
    var elements: [JSONValue] = []
    skipWhitespace()
    if peek() == UInt8(ascii: "]") {
      leave()
      return .array(elements)
    }
    while true {
      elements.append(try readValue())
      if try endsAfterElement() { return .array(elements) }
    }
  }

  private mutating func readWord(_ word: StaticString) throws(JSONError) {
    for index in 0..<word.utf8CodeUnitCount {
      guard let byte = peek() else { throw endError() }
      guard byte == word.utf8Start[index] else {
        throw JSONError(
          offset: position, message: "expected '\(word)', found \(Self.name(byte))")
      }
      position += 1
    }
  }

  private mutating func readNumber() throws(JSONError) -> JSONNumber {
    let start = position
    try skipNumber()
    return JSONNumber(
      uncheckedLiteral: String(decoding: bytes[start..<position], as: UTF8.self))
  }

  private mutating func skipNumber() throws(JSONError) {
    if peek() == UInt8(ascii: "-") { position += 1 }
    if peek() == UInt8(ascii: "0") {
      position += 1
      if let byte = peek(), Self.isDigit(byte) {
        throw JSONError(offset: position, message: "a number has no leading zeros")
      }
    } else {
      try readDigits()
    }
    if peek() == UInt8(ascii: ".") {
      position += 1
      try readDigits()
    }
    if peek() == UInt8(ascii: "e") || peek() == UInt8(ascii: "E") {
      position += 1
      if peek() == UInt8(ascii: "+") || peek() == UInt8(ascii: "-") { position += 1 }
      try readDigits()
    }
  }

  private mutating func readDigits() throws(JSONError) {
    guard let first = peek() else { throw endError() }
    guard Self.isDigit(first) else {
      throw JSONError(offset: position, message: "expected a digit, found \(Self.name(first))")
    }
    while let byte = peek(), Self.isDigit(byte) { position += 1 }
  }

  // MARK: - Strings

  private mutating func readString() throws(JSONError) -> String {
    position += 1
    let start = position
    try skipPlain()
    if bytes[position] == UInt8(ascii: "\"") {
      defer { position += 1 }
      return String(decoding: bytes[start..<position], as: UTF8.self)
    }
    var text = [UInt8](bytes[start..<position])
    while bytes[position] == UInt8(ascii: "\\") {
      let scalar = try readEscape()
      if scalar.isASCII {
        text.append(UInt8(scalar.value))
      } else {
        text.append(contentsOf: UTF8.encode(scalar)!)
      }
      let runStart = position
      try skipPlain()
      text.append(contentsOf: bytes[runStart..<position])
    }
    position += 1
    return String(decoding: text, as: UTF8.self)
  }

  /// Whether it holds escapes.
  private mutating func skipString() throws(JSONError) -> Bool {
    position += 1
    try skipPlain()
    var hasEscapes = false
    while bytes[position] == UInt8(ascii: "\\") {
      hasEscapes = true
      _ = try readEscape()
      try skipPlain()
    }
    position += 1
    return hasEscapes
  }

  /// Moves to the quote or backslash that ends a run of plain, valid UTF-8.
  private mutating func skipPlain() throws(JSONError) {
    while position < bytes.count {
      while position + 8 <= bytes.count {
        let word = UnsafeRawPointer(bytes.baseAddress! + position).loadUnaligned(as: UInt64.self)
        let count = JSONWords.plainCount(UInt64(littleEndian: word))
        position += count
        if count < 8 { break }
      }
      guard position < bytes.count else { break }
      let byte = bytes[position]
      if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { return }
      if byte < 0x20 {
        throw JSONError(
          offset: position, message: "a string holds the control character \(Self.name(byte))")
      }
      position += byte < 0x80 ? 1 : try sequenceLength(byte)
    }
    throw endError()
  }

  /// How long the UTF-8 sequence at `position` is (Unicode 15, table 3-7).
  private func sequenceLength(_ lead: UInt8) throws(JSONError) -> Int {
    let length: Int
    var second: ClosedRange<UInt8> = 0x80...0xBF
    switch lead {
    case 0xC2...0xDF: length = 2
    case 0xE0: (length, second) = (3, 0xA0...0xBF)
    case 0xED: (length, second) = (3, 0x80...0x9F)
    case 0xE1...0xEF: length = 3
    case 0xF0: (length, second) = (4, 0x90...0xBF)
    case 0xF1...0xF3: length = 4
    case 0xF4: (length, second) = (4, 0x80...0x8F)
    default: throw JSONError(offset: position, message: "the text is no valid UTF-8")
    }
    for index in 1..<length {
      guard position + index < bytes.count else {
        throw JSONError(offset: bytes.count, message: "the text ends inside a character")
      }
      let byte = bytes[position + index]
      guard index == 1 ? second.contains(byte) : byte & 0xC0 == 0x80 else {
        throw JSONError(offset: position + index, message: "the text is no valid UTF-8")
      }
    }
    return length
  }

  private mutating func readEscape() throws(JSONError) -> Unicode.Scalar {
    let start = position
    position += 1
    guard let byte = peek() else { throw endError() }
    position += 1
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"):
      return Unicode.Scalar(byte)
    case UInt8(ascii: "b"): return "\u{8}"
    case UInt8(ascii: "f"): return "\u{C}"
    case UInt8(ascii: "n"): return "\u{A}"
    case UInt8(ascii: "r"): return "\u{D}"
    case UInt8(ascii: "t"): return "\u{9}"
    case UInt8(ascii: "u"):
      var code = try readHex()
      if 0xD800...0xDBFF ~= code {
        guard peek() == UInt8(ascii: "\\"), peek(1) == UInt8(ascii: "u") else {
          throw JSONError(offset: start, message: "half of a surrogate pair")
        }
        position += 2
        let low = try readHex()
        guard 0xDC00...0xDFFF ~= low else {
          throw JSONError(offset: start, message: "half of a surrogate pair")
        }
        code = 0x10000 + (code - 0xD800) << 10 + (low - 0xDC00)
      }
      guard let scalar = Unicode.Scalar(code) else {
        throw JSONError(offset: start, message: "half of a surrogate pair")
      }
      return scalar
    default:
      throw JSONError(
        offset: position - 1, message: "no escape is written as a backslash and \(Self.name(byte))")
    }
  }

  private mutating func readHex() throws(JSONError) -> UInt32 {
    var code: UInt32 = 0
    for _ in 0..<4 {
      guard let byte = peek() else { throw endError() }
      let digit: UInt8
      switch byte {
      case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = byte - UInt8(ascii: "0")
      case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = byte - UInt8(ascii: "a") + 10
      case UInt8(ascii: "A")...UInt8(ascii: "F"): digit = byte - UInt8(ascii: "A") + 10
      default:
        throw JSONError(
          offset: position, message: "expected a hexadecimal digit, found \(Self.name(byte))")
      }
      code = code << 4 | UInt32(digit)
      position += 1
    }
    return code
  }

  // MARK: - Bytes

  private func peek(_ ahead: Int = 0) -> UInt8? {
    position + ahead < bytes.count ? bytes[position + ahead] : nil
  }

  private mutating func skipWhitespace() {
    while position < bytes.count {
      switch bytes[position] {
      case 0x20, 0x0A, 0x0D, 0x09: position += 1
      default: return
      }
    }
  }

  private mutating func expect(_ byte: UInt8, _ what: String) throws(JSONError) {
    guard let found = peek() else { throw endError() }
    guard found == byte else {
      throw JSONError(offset: position, message: "expected \(what), found \(Self.name(found))")
    }
    position += 1
  }

  private mutating func enter() throws(JSONError) {
    if depth == maxDepth {
      throw JSONError(offset: position, message: "nested deeper than \(maxDepth) levels")
    }
    depth += 1
    position += 1
  }

  private mutating func leave() {
    depth -= 1
    position += 1
  }

  private func endError() -> JSONError {
    JSONError(offset: bytes.count, message: "the text ends too early")
  }

  private static func isDigit(_ byte: UInt8) -> Bool {
    UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte
  }

  private static func name(_ byte: UInt8) -> String {
    if 0x20...0x7E ~= byte { return "'\(Character(Unicode.Scalar(byte)))'" }
    let hex = String(byte, radix: 16, uppercase: true)
    return "byte 0x\(hex.count == 1 ? "0" : "")\(hex)"
  }
}
