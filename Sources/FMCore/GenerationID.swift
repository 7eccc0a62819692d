/// Identifies one generated value; the same in every snapshot of one response.
public struct GenerationID: Sendable, Hashable {
  private let value: String

  public init() {
    value = makeUUID()
  }
}

/// A random UUID (RFC 9562, version 4) in upper case.
public func makeUUID() -> String {
  var generator = SystemRandomNumberGenerator()
  var high: UInt64 = generator.next()
  var low: UInt64 = generator.next()
  high = high & 0xFFFF_FFFF_FFFF_0FFF | 0x4000
  low = low & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000
  func hex(_ value: UInt64, _ digits: Int) -> String {
    let text = String(value, radix: 16, uppercase: true)
    return String(repeating: "0", count: digits - text.count) + text
  }
  return [
    hex(high >> 32, 8), hex(high >> 16 & 0xFFFF, 4), hex(high & 0xFFFF, 4), hex(low >> 48, 4),
    hex(low & 0xFFFF_FFFF_FFFF, 12),
  ].joined(separator: "-")
}
