extension String {
  /// Without spaces, tabs and line ends at both sides.
  package func trimmingASCIIWhitespace() -> String {
    let isSpace: (UInt8) -> Bool = { $0 == 32 || 9...13 ~= $0 }
    let bytes = utf8.drop(while: isSpace)
    guard let last = bytes.lastIndex(where: { !isSpace($0) }) else { return "" }
    return String(bytes[...last]) ?? self
  }
}
