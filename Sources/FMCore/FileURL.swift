import Glibc

/// `file:` URLs (RFC 8089) and the paths they stand for.
enum FileURL {
  /// The URL of a path; a relative one counts from the working directory of this moment.
  static func text(of path: String) -> String {
    var absolute = path
    if !path.hasPrefix("/"), let folder = getcwd(nil, 0) {
      absolute = String(cString: folder) + "/" + path
      free(folder)
    }
    var result = "file://"
    let digits = Array("0123456789ABCDEF".utf8)
    for byte in absolute.utf8 {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "/"), UInt8(ascii: "."),
        UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "~"):
        result.unicodeScalars.append(UnicodeScalar(byte))
      default:
        result += "%"
        result.unicodeScalars.append(UnicodeScalar(digits[Int(byte >> 4)]))
        result.unicodeScalars.append(UnicodeScalar(digits[Int(byte & 15)]))
      }
    }
    return result
  }

  /// The path of a `file:` URL on this machine, or of a text that is a path itself; nil for others.
  static func path(of text: String) -> String? {
    if text.hasPrefix("/") { return text }
    for prefix in ["file:///", "file://localhost/", "file:/"] where text.hasPrefix(prefix) {
      return decoded("/" + text.dropFirst(prefix.count))
    }
    return nil
  }

  private static func decoded(_ text: String) -> String? {
    guard text.utf8.contains(UInt8(ascii: "%")) else { return text }
    var bytes: [UInt8] = []
    var rest = Array(text.utf8)[...]
    while let byte = rest.popFirst() {
      guard byte == UInt8(ascii: "%") else {
        bytes.append(byte)
        continue
      }
      let digits = String(decoding: rest.prefix(2), as: UTF8.self)
      guard digits.utf8.count == 2, let value = UInt8(digits, radix: 16) else { return nil }
      bytes.append(value)
      rest = rest.dropFirst(2)
    }
    return String(validating: bytes, as: UTF8.self)
  }
}
