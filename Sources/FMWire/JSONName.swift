import Glibc

/// A member's name, or another short string, as it stands in the text, valid while the text is.
struct JSONName {
  /// Between the quotes, escapes and all.
  private let bytes: UnsafeBufferPointer<UInt8>
  private let hasEscapes: Bool

  init(_ bytes: UnsafeBufferPointer<UInt8>, hasEscapes: Bool) {
    self.bytes = bytes
    self.hasEscapes = hasEscapes
  }

  /// Whether the name is that one, which is plain ASCII; a name that is written with escapes is read
  /// first, as it means the same.
  @inline(__always)
  static func == (name: JSONName, other: StaticString) -> Bool {
    if name.hasEscapes { return name.text == other.description }
    guard name.bytes.count == other.utf8CodeUnitCount else { return false }
    guard let base = name.bytes.baseAddress else { return true }
    return memcmp(base, other.utf8Start, name.bytes.count) == 0
  }

  var text: String {
    let quote = UInt8(ascii: "\"")
    // The reader has been over it: it parses.
    let value = try? JSONValue(parsing: [quote] + bytes + [quote])
    return value?.stringValue ?? ""
  }
}
