/// Eight bytes of JSON text at once.
enum JSONWords {
  private static let ones: UInt64 = 0x0101_0101_0101_0101
  private static let highs: UInt64 = 0x8080_8080_8080_8080

  /// Whether one of the bytes is a quote, a backslash or a control character: what ends a run of
  /// plain text. Other bytes may look so too beside one that does, never alone.
  static func holdsEscaped(_ word: UInt64) -> Bool {
    // (x - 1) & ~x has a byte's high bit set where the byte is 0; exact for the lowest such byte,
    // and a false alarm above it only sends the caller down the byte-by-byte path.
    let quotes = word ^ (ones &* UInt64(UInt8(ascii: "\"")))
    let slashes = word ^ (ones &* UInt64(UInt8(ascii: "\\")))
    let found =
      ((quotes &- ones) & ~quotes) | ((slashes &- ones) & ~slashes)
      | ((word &- ones &* 0x20) & ~word)
    return found & highs != 0
  }

  /// Whether one of the bytes is not ASCII.
  static func holdsNonASCII(_ word: UInt64) -> Bool { word & highs != 0 }
}
