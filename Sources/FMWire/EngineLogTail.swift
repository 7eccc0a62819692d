/// The last lines of what a child wrote, bounded in lines and bytes.
struct EngineLogTail {
  static let maximumLines = 40
  static let maximumLineBytes = 500

  private var lines: [[UInt8]] = []
  private var partial: [UInt8] = []

  /// Costs a pass over the bytes; keeps at most 20 KB.
  mutating func append(_ bytes: some Sequence<UInt8>) {
    for byte in bytes {
      if byte == UInt8(ascii: "\n") {
        endLine()
      } else if partial.count < Self.maximumLineBytes {
        partial.append(byte)
      }
    }
  }

  private mutating func endLine() {
    if partial.contains(where: { $0 > 0x20 }) {
      if lines.count == Self.maximumLines { lines.removeFirst() }
      lines.append(partial)
    }
    partial = []
  }

  /// Lines joined by "\n", without control characters.
  var text: String { printable.joined(separator: "\n") }

  /// The line that says most of why a program ended: its last one; nil when it said nothing.
  var lastLine: String? { printable.last }

  private var printable: [String] {
    (partial.isEmpty ? lines : lines + [partial]).suffix(Self.maximumLines).map { line in
      String(
        String.UnicodeScalarView(
          String(decoding: line, as: UTF8.self).unicodeScalars.filter {
            $0 == "\t" || ($0.value >= 0x20 && !(0x7F...0x9F).contains($0.value))
          }))
    }
  }
}
