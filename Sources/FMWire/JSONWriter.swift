import CText

/// Writes JSON text straight into bytes.
///
/// The caller opens and closes objects and arrays and the writer sets the commas, so that a request
/// with tens of megabytes of pictures is written once, without a tree of values in between.
public struct JSONWriter: Sendable {
  private static let blockSize = 32 << 10

  public private(set) var bytes: [UInt8] = []
  /// Whether another value must be parted from what was written last.
  private var needsComma = false

  public init(reservingCapacity capacity: Int = 0) { bytes.reserveCapacity(capacity) }

  public mutating func beginObject() { open(UInt8(ascii: "{")) }
  public mutating func endObject() { close(UInt8(ascii: "}")) }
  public mutating func beginArray() { open(UInt8(ascii: "[")) }
  public mutating func endArray() { close(UInt8(ascii: "]")) }

  /// A member's name; the next call writes its value.
  public mutating func name(_ name: String) {
    separate()
    append(quoted: name)
    bytes.append(UInt8(ascii: ":"))
    needsComma = false
  }

  public mutating func value(_ value: JSONValue) {
    switch value {
    case .null: append(literal: "null")
    case .bool(let flag): append(literal: flag ? "true" : "false")
    case .number(let number): append(literal: number.literal)
    case .string(let text): self.value(text)
    case .array(let elements):
      beginArray()
      for element in elements { self.value(element) }
      endArray()
    case .object(let object):
      beginObject()
      for member in object.members {
        name(member.name)
        self.value(member.value)
      }
      endObject()
    }
  }

  public mutating func value(_ value: String) {
    separate()
    append(quoted: value)
  }

  /// The string `data:MEDIATYPE;base64,...`, encoded from the bytes in place.
  public mutating func dataURL(mediaType: String, bytes data: [UInt8]) {
    separate()
    bytes.append(UInt8(ascii: "\""))
    append(escaped: "data:")
    append(escaped: mediaType)
    append(escaped: ";base64,")
    Base64.append(data, to: &bytes)
    bytes.append(UInt8(ascii: "\""))
  }

  // MARK: - Parts

  private mutating func open(_ byte: UInt8) {
    separate()
    bytes.append(byte)
    needsComma = false
  }

  private mutating func close(_ byte: UInt8) {
    bytes.append(byte)
    needsComma = true
  }

  private mutating func separate() {
    if needsComma { bytes.append(UInt8(ascii: ",")) }
    needsComma = true
  }

  private mutating func append(literal: String) {
    separate()
    bytes.append(contentsOf: literal.utf8)
  }

  private mutating func append(quoted text: String) {
    bytes.append(UInt8(ascii: "\""))
    append(escaped: text)
    bytes.append(UInt8(ascii: "\""))
  }

  /// Only what RFC 8259 section 7 demands is escaped.
  private mutating func append(escaped text: String) {
    var text = text
    text.withUTF8 { buffer in
      guard let base = buffer.baseAddress else { return }
      var start = 0
      while start < buffer.count {
        // Copied while it is still in the processor's cache.
        let block = min(buffer.count - start, Self.blockSize)
        let length = ctext_plain_length(base + start, block)
        bytes.append(contentsOf: UnsafeBufferPointer(start: base + start, count: length))
        start += length
        if length < block {
          append(escapeOf: buffer[start])
          start += 1
        }
      }
    }
  }

  private mutating func append(escapeOf byte: UInt8) {
    bytes.append(UInt8(ascii: "\\"))
    switch byte {
    case 0x08: bytes.append(UInt8(ascii: "b"))
    case 0x09: bytes.append(UInt8(ascii: "t"))
    case 0x0A: bytes.append(UInt8(ascii: "n"))
    case 0x0C: bytes.append(UInt8(ascii: "f"))
    case 0x0D: bytes.append(UInt8(ascii: "r"))
    case 0..<0x20:
      let hex = Array("0123456789abcdef".utf8)
      bytes.append(contentsOf: "u00".utf8)
      bytes.append(hex[Int(byte >> 4)])
      bytes.append(hex[Int(byte & 15)])
    default: bytes.append(byte)
    }
  }
}

extension JSONValue {
  /// Compact JSON text.
  public var jsonText: String {
    var writer = JSONWriter()
    writer.value(self)
    return String(decoding: writer.bytes, as: UTF8.self)
  }
}
