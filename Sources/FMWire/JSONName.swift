import Glibc

/// A member's name as it stands in the text, valid while the text is.
struct JSONName {
  /// Between the quotes, escapes and all.
  private let bytes: UnsafeBufferPointer<UInt8>

  init(_ bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

  /// Whether the name is that one, which is plain ASCII; a name that is written with escapes is read
  /// first, as it means the same.
  static func == (name: JSONName, other: StaticString) -> Bool {
    let bytes = name.bytes
    guard let base = bytes.baseAddress else { return other.utf8CodeUnitCount == 0 }
    if bytes.count == other.utf8CodeUnitCount,
      memcmp(base, other.utf8Start, bytes.count) == 0
    {
      return true
    }
    guard memchr(base, Int32(UInt8(ascii: "\\")), bytes.count) != nil else { return false }
    return name.text == other.description
  }

  var text: String {
    let quote = UInt8(ascii: "\"")
    // The reader has been over it: it parses.
    let value = try? JSONValue(parsing: [quote] + bytes + [quote])
    return value?.stringValue ?? ""
  }
}
