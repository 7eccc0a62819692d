/// A text as bytes, for plain searches that need no Unicode tables and no regular expressions.
package struct ByteText {
  let bytes: [UInt8]

  package init(_ text: String) { bytes = Array(text.utf8) }

  init(bytes: [UInt8]) { self.bytes = bytes }

  /// Where `needle` comes first at or after `start`. Costs the product of both lengths at worst.
  func range(of needle: String, from start: Int = 0) -> Range<Int>? {
    let needle = Array(needle.utf8)
    guard let first = needle.first else { return nil }
    var index = start
    while index + needle.count <= bytes.count {
      if bytes[index] == first && bytes[index..<(index + needle.count)].elementsEqual(needle) {
        return index..<(index + needle.count)
      }
      index += 1
    }
    return nil
  }

  package func contains(_ needle: String) -> Bool { range(of: needle) != nil }

  /// The whole number right after the first `before` that one follows; digits may be grouped by
  /// commas.
  func number(after before: String) -> Int? {
    var start = 0
    while let range = range(of: before, from: start) {
      start = range.upperBound
      var value: Int?
      for byte in bytes[range.upperBound...] {
        if 48...57 ~= byte {
          let (product, isTooLarge) = (value ?? 0).multipliedReportingOverflow(by: 10)
          if isTooLarge || product > Int.max - 9 { return nil }
          value = product + Int(byte - 48)
        } else if byte != UInt8(ascii: ",") || value == nil {
          break
        }
      }
      if let value { return value }
    }
    return nil
  }
}
