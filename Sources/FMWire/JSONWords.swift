/// Eight bytes of JSON text at once.
enum JSONWords {
  private static let ones: UInt64 = 0x0101_0101_0101_0101
  private static let highs: UInt64 = 0x8080_8080_8080_8080

  /// How many of the bytes come before the first that is a quote, a backslash, a control character
  /// or not ASCII; 8 where none is.
  ///
  /// - Parameter word: with the first byte as its lowest.
  static func plainCount(_ word: UInt64) -> Int {
    // (x - 1) & ~x has a byte's high bit set where the byte is 0; exact for the lowest such byte,
    // and false alarms are only above it.
    let quotes = word ^ (ones &* UInt64(UInt8(ascii: "\"")))
    let slashes = word ^ (ones &* UInt64(UInt8(ascii: "\\")))
    let found =
      ((quotes &- ones) & ~quotes) | ((slashes &- ones) & ~slashes)
      | ((word &- ones &* 0x20) & ~word) | word
    return (found & highs).trailingZeroBitCount / 8
  }
}
