/// A regular expression, parsed.
indirect enum PatternNode: Sendable, Equatable {
  case set(ScalarSet)
  /// No node is the empty text.
  case sequence([PatternNode])
  case choice([PatternNode])
  case repetition(PatternNode, least: Int, most: Int?)
  case start, end
  case wordBoundary(isNegated: Bool)
  case look(PatternNode, isAhead: Bool, isNegated: Bool)
}

/// Why a text is no pattern of the kind `Pattern` takes.
struct PatternError: Error, Equatable {
  /// Counted in Unicode scalars from the pattern's start.
  var offset: Int
  var reason: String
}

/// Reads the syntax of ECMA-262, 22.2.1, with the flag `u`, a little more kindly: `{` and `]` stand
/// for themselves where they can mean nothing else, and any ASCII punctuation may be escaped.
struct PatternParser {
  private let scalars: [Unicode.Scalar]
  private var position = 0
  private var depth = 0

  private static let maximumDepth = 100
  private static let maximumCount = 10_000

  private init(_ text: String) { scalars = Array(text.unicodeScalars) }

  static func parse(_ text: String) throws(PatternError) -> PatternNode {
    var parser = PatternParser(text)
    let node = try parser.parseChoice()
    if parser.position < parser.scalars.count { throw parser.error("a \")\" closes no group") }
    return node
  }

  private func error(_ reason: String) -> PatternError {
    PatternError(offset: position, reason: reason)
  }

  private var next: Unicode.Scalar? { position < scalars.count ? scalars[position] : nil }

  private mutating func take(_ text: String) -> Bool {
    var end = position
    for scalar in text.unicodeScalars {
      guard end < scalars.count, scalars[end] == scalar else { return false }
      end += 1
    }
    position = end
    return true
  }

  private mutating func parseChoice() throws(PatternError) -> PatternNode {
    depth += 1
    defer { depth -= 1 }
    guard depth <= Self.maximumDepth else { throw error("groups are nested too deeply") }
    var branches = [try parseSequence()]
    while take("|") { branches.append(try parseSequence()) }
    return branches.count == 1 ? branches[0] : .choice(branches)
  }

  private mutating func parseSequence() throws(PatternError) -> PatternNode {
    var nodes: [PatternNode] = []
    while let scalar = next, scalar != "|", scalar != ")" {
      let (node, canRepeat) = try parseTerm()
      nodes.append(try parseQuantifier(of: node, isAllowed: canRepeat))
    }
    return nodes.count == 1 ? nodes[0] : .sequence(nodes)
  }

  private mutating func parseTerm() throws(PatternError) -> (PatternNode, canRepeat: Bool) {
    let scalar = scalars[position]
    switch scalar {
    case "^":
      position += 1
      return (.start, false)
    case "$":
      position += 1
      return (.end, false)
    case "(": return try parseGroup()
    case ".":
      position += 1
      return (.set(ScalarSet.lineTerminators.inverted), true)
    case "[":
      position += 1
      return (.set(try parseClass()), true)
    case "\\":
      if take("\\b") { return (.wordBoundary(isNegated: false), false) }
      if take("\\B") { return (.wordBoundary(isNegated: true), false) }
      return (.set(try parseEscape(inClass: false)), true)
    case "*", "+", "?": throw error("there is nothing that \(quoted(String(scalar))) could repeat")
    default:
      position += 1
      return (.set(ScalarSet(scalar.value)), true)
    }
  }

  private mutating func parseGroup() throws(PatternError) -> (PatternNode, canRepeat: Bool) {
    let start = position
    var look: (isAhead: Bool, isNegated: Bool)?
    if take("(?=") {
      look = (true, false)
    } else if take("(?!") {
      look = (true, true)
    } else if take("(?<=") {
      look = (false, false)
    } else if take("(?<!") {
      look = (false, true)
    } else if take("(?<") {
      try skipGroupName()
    } else if !take("(?:") {
      if take("(?") { throw error("this kind of group is not known") }
      position += 1
    }
    let node = try parseChoice()
    guard take(")") else {
      position = start
      throw error("the group is not closed")
    }
    guard let look else { return (node, true) }
    return (.look(node, isAhead: look.isAhead, isNegated: look.isNegated), false)
  }

  private mutating func skipGroupName() throws(PatternError) {
    let start = position
    while let scalar = next, scalar != ">" {
      let isNamePart = scalar == "_" || scalar == "$" || scalar.properties.isIDContinue
      guard isNamePart else { throw error("a group's name holds letters, digits and _") }
      position += 1
    }
    guard position > start, take(">") else { throw error("the group has no name") }
  }

  private mutating func parseQuantifier(
    of node: PatternNode, isAllowed: Bool
  ) throws(PatternError) -> PatternNode {
    let start = position
    var bounds: (least: Int, most: Int?)?
    if take("*") {
      bounds = (0, nil)
    } else if take("+") {
      bounds = (1, nil)
    } else if take("?") {
      bounds = (0, 1)
    } else if next == "{" {
      bounds = try parseBraces()
    }
    guard let bounds else { return node }
    guard isAllowed else {
      position = start
      throw error("an assertion cannot be repeated")
    }
    // Lazy or greedy: the same texts match.
    _ = take("?")
    if let again = next, "*+?".unicodeScalars.contains(again) {
      throw error("there is nothing that \(quoted(String(again))) could repeat")
    }
    return .repetition(node, least: bounds.least, most: bounds.most)
  }

  /// `{2}`, `{2,}` or `{2,3}`; nil, and nothing taken, for a brace that is none of these.
  private mutating func parseBraces() throws(PatternError) -> (least: Int, most: Int?)? {
    let start = position
    position += 1
    guard let least = try parseNumber() else {
      // A brace alone stands for itself and is read as the next term.
      position = start
      return nil
    }
    var most: Int? = least
    if take(",") { most = try parseNumber() }
    guard take("}") else {
      position = start
      return nil
    }
    if let most, most < least { throw error("the least count is above the most") }
    return (least, most)
  }

  private mutating func parseNumber() throws(PatternError) -> Int? {
    var number: Int?
    while let scalar = next, let digit = Int(String(scalar)), scalar.isASCII {
      number = (number ?? 0) * 10 + digit
      guard number! <= Self.maximumCount else {
        throw error("a count is at most \(Self.maximumCount)")
      }
      position += 1
    }
    return number
  }

  // MARK: - Classes and escapes

  /// After the opening bracket.
  private mutating func parseClass() throws(PatternError) -> ScalarSet {
    let start = position
    let isInverted = take("^")
    var set = ScalarSet()
    while !take("]") {
      guard next != nil else {
        position = start
        throw error("the class is not closed")
      }
      let low = try parseClassAtom()
      // A hyphen is a range only between two atoms.
      guard next == "-", position + 1 < scalars.count, scalars[position + 1] != "]" else {
        set.formUnion(low.set)
        continue
      }
      position += 1
      let high = try parseClassAtom()
      guard let from = low.scalar, let to = high.scalar else {
        throw error("a range of a class goes from one character to another")
      }
      guard from <= to else { throw error("a range of a class goes backwards") }
      set.formUnion(ScalarSet([from...to]))
    }
    return isInverted ? set.inverted : set
  }

  private mutating func parseClassAtom() throws(PatternError) -> (set: ScalarSet, scalar: UInt32?) {
    guard let scalar = next else { throw error("the class is not closed") }
    guard scalar == "\\" else {
      position += 1
      return (ScalarSet(scalar.value), scalar.value)
    }
    if take("\\b") { return (ScalarSet(0x08), 0x08) }
    let start = position
    let set = try parseEscape(inClass: true)
    guard let value = escapedScalar(from: start) else { return (set, nil) }
    return (set, value)
  }

  /// The one scalar that the escape just read stands for; nil where it stands for several.
  private func escapedScalar(from start: Int) -> UInt32? {
    switch scalars[start + 1] {
    case "d", "D", "w", "W", "s", "S", "p", "P": return nil
    default:
      var copy = self
      copy.position = start
      return try? copy.parseOneScalar()
    }
  }

  private mutating func parseEscape(inClass: Bool) throws(PatternError) -> ScalarSet {
    guard position + 1 < scalars.count else { throw error("a backslash escapes nothing") }
    let letter = scalars[position + 1]
    let set: ScalarSet? =
      switch letter {
      case "d": .digits
      case "D": ScalarSet.digits.inverted
      case "w": .word
      case "W": ScalarSet.word.inverted
      case "s": .space
      case "S": ScalarSet.space.inverted
      default: nil
      }
    if let set {
      position += 2
      return set
    }
    if letter == "p" || letter == "P" {
      position += 2
      let set = ScalarSet(try parseProperty())
      return letter == "P" ? set.inverted : set
    }
    if letter == "k" || (!inClass && "123456789".unicodeScalars.contains(letter)) {
      throw error("references back to a group are not supported")
    }
    return ScalarSet(try parseOneScalar())
  }

  private mutating func parseProperty() throws(PatternError) -> ScalarProperty {
    guard take("{") else { throw error("a property is written \\p{NAME}") }
    let start = position
    while position < scalars.count, scalars[position] != "}" { position += 1 }
    var name = String.UnicodeScalarView()
    name.append(contentsOf: scalars[start..<position])
    guard take("}") else { throw error("the property's name is not closed") }
    guard let property = ScalarProperty(name: String(name)) else {
      throw error("the property \(quoted(String(name))) is not known here (scripts are not)")
    }
    return property
  }

  /// An escape for one scalar, at its backslash.
  private mutating func parseOneScalar() throws(PatternError) -> UInt32 {
    let letter = scalars[position + 1]
    position += 2
    switch letter {
    case "t": return 0x09
    case "n": return 0x0A
    case "v": return 0x0B
    case "f": return 0x0C
    case "r": return 0x0D
    case "0":
      if let digit = next, "0123456789".unicodeScalars.contains(digit) {
        throw error("octal escapes are not supported")
      }
      return 0
    case "c":
      guard let control = next, control.isASCII, control.properties.isAlphabetic else {
        throw error("\\c is followed by a letter")
      }
      position += 1
      return control.value % 32
    case "x": return try parseHex(digits: 2)
    case "u":
      if take("{") {
        let value = try parseHex(atMost: 6)
        guard take("}"), value <= 0x10FFFF else { throw error("\\u{...} holds a code point") }
        return value
      }
      let high = try parseHex(digits: 4)
      guard 0xD800...0xDBFF ~= high, take("\\u") else { return high }
      let low = try parseHex(digits: 4)
      guard 0xDC00...0xDFFF ~= low else { throw error("half of a surrogate pair") }
      return 0x10000 + (high - 0xD800) << 10 + (low - 0xDC00)
    default:
      let isNameLike =
        letter.properties.isAlphabetic || "0123456789_".unicodeScalars.contains(letter)
      guard !isNameLike else {
        throw error("the escape \\\(letter) is not known")
      }
      return letter.value
    }
  }

  private mutating func parseHex(digits: Int) throws(PatternError) -> UInt32 {
    let start = position
    let value = try parseHex(atMost: digits)
    guard position - start == digits else { throw error("\(digits) hexadecimal digits are needed") }
    return value
  }

  private mutating func parseHex(atMost digits: Int) throws(PatternError) -> UInt32 {
    var value: UInt32 = 0
    var count = 0
    while count < digits, let scalar = next, scalar.isASCII,
      let digit = Character(scalar).hexDigitValue
    {
      value = value << 4 | UInt32(digit)
      position += 1
      count += 1
    }
    guard count > 0 else { throw error("a hexadecimal digit is needed") }
    return value
  }
}
