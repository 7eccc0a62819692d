import FMWire

/// Comparison of numbers as they were written, without rounding where 128 bits hold them.
extension JSONNumber {
  /// The number as digits times a power of ten; nil where the digits do not fit.
  private var decimal: (digits: Int128, exponent: Int)? {
    if let value = Int(literal) { return (Int128(value), 0) }
    var digits: Int128 = 0
    var exponent = 0
    var isNegative = false
    var isFraction = false
    var rest = literal.utf8[...]
    if rest.first == UInt8(ascii: "-") {
      isNegative = true
      rest.removeFirst()
    }
    while let byte = rest.first {
      rest.removeFirst()
      switch byte {
      case UInt8(ascii: "."): isFraction = true
      case UInt8(ascii: "e"), UInt8(ascii: "E"):
        guard let power = Int(String(decoding: rest, as: UTF8.self)), abs(power) < 10_000 else {
          return nil
        }
        exponent += power
        rest = rest.suffix(0)
      default:
        let (product, overflows) = digits.multipliedReportingOverflow(by: 10)
        let (sum, overflowsToo) = product.addingReportingOverflow(
          Int128(byte - UInt8(ascii: "0")))
        guard !overflows, !overflowsToo else { return nil }
        digits = sum
        if isFraction { exponent -= 1 }
      }
    }
    return (isNegative ? -digits : digits, exponent)
  }

  /// Both as multiples of the same power of ten; nil where that does not fit.
  private static func scaled(_ left: JSONNumber, _ right: JSONNumber) -> (Int128, Int128)? {
    guard let left = left.decimal, let right = right.decimal else { return nil }
    let exponent = min(left.exponent, right.exponent)
    func scale(_ number: (digits: Int128, exponent: Int)) -> Int128? {
      guard number.digits != 0 else { return 0 }
      var digits = number.digits
      for _ in exponent..<number.exponent {
        let (product, overflows) = digits.multipliedReportingOverflow(by: 10)
        guard !overflows else { return nil }
        digits = product
      }
      return digits
    }
    guard let first = scale(left), let second = scale(right) else { return nil }
    return (first, second)
  }

  func isAbove(_ other: JSONNumber) -> Bool {
    if let left = Int(literal), let right = Int(other.literal) { return left > right }
    if let (left, right) = Self.scaled(self, other) { return left > right }
    return doubleValue > other.doubleValue
  }

  var isWhole: Bool {
    if isPlainInteger { return true }
    let value = doubleValue
    return value.isFinite && value.rounded() == value
  }

  /// Written without a fraction and an exponent.
  private var isPlainInteger: Bool {
    !literal.utf8.contains { $0 == UInt8(ascii: ".") || $0 | 0x20 == UInt8(ascii: "e") }
  }

  /// Whether a double holds it, if rounded. JSON writes larger ones; who reads them gets infinity.
  var isInRange: Bool {
    // The largest double has 309 digits.
    if literal.utf8.count < 309, isPlainInteger { return true }
    return doubleValue.isFinite
  }

  /// - Precondition: `step` is above 0.
  func isMultiple(of step: JSONNumber) -> Bool {
    if let (value, step) = Self.scaled(self, step) { return value % step == 0 }
    let quotient = doubleValue / step.doubleValue
    return quotient.isFinite && quotient.rounded() == quotient
  }

  /// The same text for the same number, however it was written.
  var canonicalLiteral: String {
    guard var (digits, exponent) = decimal else { return String(doubleValue) }
    guard digits != 0 else { return "0" }
    while digits % 10 == 0 {
      digits /= 10
      exponent += 1
    }
    return "\(digits)e\(exponent)"
  }
}
