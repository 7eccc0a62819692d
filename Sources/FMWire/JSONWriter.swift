import CText

/// Writes JSON text straight into bytes.
///
/// The caller opens and closes objects and arrays and the writer sets the commas, so that a request
/// with tens of megabytes of pictures is written once, without a tree of values in between.
public struct JSONWriter: Sendable {
  /// Bytes of a text or picture that is left where it is until it is sent.
  private static let largeCount = 16 << 10
  private static let blockSize = 4 << 10

  /// What was written, where nothing large is left out.
  public private(set) var bytes: [UInt8] = []
  /// What came before `bytes`.
  private var before = RequestBody()
  private let leavesLarge: Bool
  /// Whether another value must be parted from what was written last.
  private var needsComma = false

  public init() { leavesLarge = false }

  /// A writer of a `body`, into which long texts and pictures are not copied.
  package init(leavingLarge: Bool) { leavesLarge = leavingLarge }

  package var body: RequestBody {
    var body = before
    body.append(.bytes(bytes))
    return body
  }

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
    if leavesLarge, data.count >= Self.largeCount {
      leave(.base64(data))
    } else {
      Base64.append(data, to: &bytes)
    }
    bytes.append(UInt8(ascii: "\""))
  }

  // MARK: - Parts

  private mutating func leave(_ piece: RequestBody.Piece) {
    before.append(.bytes(bytes))
    before.append(piece)
    bytes = []
  }

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

  private mutating func append(escaped text: String) {
    if leavesLarge, text.utf8.count >= Self.largeCount { return leave(.escaped(text)) }
    var text = text
    text.withUTF8 { source in
      guard let base = source.baseAddress else { return }
      withUnsafeTemporaryAllocation(of: UInt8.self, capacity: min(6 * source.count, Self.blockSize))
      { block in
        var start = 0
        while start < source.count {
          var written = 0
          start += ctext_escape(
            base + start, source.count - start, block.baseAddress, block.count, &written)
          bytes.append(contentsOf: block[..<written])
        }
      }
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
