extension Base64 {
  /// The encoding of `bytes` as text.
  package static func text(of bytes: [UInt8]) -> String {
    var output: [UInt8] = []
    append(bytes, to: &output)
    return String(decoding: output, as: UTF8.self)
  }

  /// The bytes that a text stands for; nil where it is no base64 with padding. White space, which
  /// tools break long lines with, is skipped.
  package static func bytes(of text: String) -> [UInt8]? {
    var output: [UInt8] = []
    output.reserveCapacity(text.utf8.count / 4 * 3)
    var group: UInt32 = 0
    var digits = 0
    var padding = 0
    for byte in text.utf8 {
      let value: UInt32
      switch byte {
      case UInt8(ascii: "A")...UInt8(ascii: "Z"): value = UInt32(byte) - 65
      case UInt8(ascii: "a")...UInt8(ascii: "z"): value = UInt32(byte) - 71
      case UInt8(ascii: "0")...UInt8(ascii: "9"): value = UInt32(byte) + 4
      case UInt8(ascii: "+"): value = 62
      case UInt8(ascii: "/"): value = 63
      case UInt8(ascii: "="):
        padding += 1
        continue
      case 9, 10, 13, 32: continue
      default: return nil
      }
      // Nothing comes after padding.
      guard padding == 0 else { return nil }
      group = group << 6 | value
      digits += 1
      guard digits == 4 else { continue }
      output.append(UInt8(truncatingIfNeeded: group >> 16))
      output.append(UInt8(truncatingIfNeeded: group >> 8))
      output.append(UInt8(truncatingIfNeeded: group))
      group = 0
      digits = 0
    }
    switch (digits, padding) {
    case (0, 0): break
    case (2, 2): output.append(UInt8(truncatingIfNeeded: group >> 4))
    case (3, 1):
      output.append(UInt8(truncatingIfNeeded: group >> 10))
      output.append(UInt8(truncatingIfNeeded: group >> 2))
    default: return nil
    }
    return output
  }
}
