/// What must not appear in a message: the endpoint's key, secret headers, pictures.
struct Secrets: Sendable {
  private let values: [String]

  init(of endpoint: Endpoint) {
    var values: [String] = []
    if let key = endpoint.apiKey { values.append(key.trimmingASCIIWhitespace()) }
    for (name, value) in endpoint.headers {
      let name = name.lowercased()
      let marks = ["key", "token", "auth", "secret", "cookie", "password"]
      guard marks.contains(where: { ByteText(name).range(of: $0) != nil }) else { continue }
      values.append(value)
      if let space = value.firstIndex(of: " ") {
        values.append(String(value[value.index(after: space)...]))
      }
    }
    // Shorter ones would hide ordinary words.
    self.values = values.filter { $0.utf8.count >= 4 }.sorted { $0.utf8.count > $1.utf8.count }
  }

  /// `text` with every secret and every picture's base64 replaced.
  func removed(from text: String) -> String {
    var result = text
    for value in values { result = Self.replace(value, by: "[secret]", in: ByteText(result)) }
    return Self.withoutData(ByteText(result))
  }

  private static func replace(_ value: String, by other: String, in text: ByteText) -> String {
    var result: [UInt8] = []
    var start = 0
    while let range = text.range(of: value, from: start) {
      result += text.bytes[start..<range.lowerBound]
      result += other.utf8
      start = range.upperBound
    }
    return String(decoding: result + text.bytes[start...], as: UTF8.self)
  }

  /// More base64 than a word's worth becomes dots.
  private static func withoutData(_ text: ByteText) -> String {
    var result: [UInt8] = []
    var start = 0
    while let range = text.range(of: ";base64,", from: start) {
      result += text.bytes[start..<range.upperBound]
      start = range.upperBound
      let data = text.bytes[start...].prefix { byte in
        switch byte {
        case 48...57, 65...90, 97...122, UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "="):
          true
        default: false
        }
      }
      if data.count > 32 {
        result += "...".utf8
        start = data.endIndex
      }
    }
    return String(decoding: result + text.bytes[start...], as: UTF8.self)
  }
}
