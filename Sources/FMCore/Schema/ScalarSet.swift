/// A set of Unicode scalars, as a character class of a pattern writes it.
struct ScalarSet: Sendable, Equatable {
  private var ranges: [ClosedRange<UInt32>] = []
  private var properties: [ScalarProperty] = []
  private var isInverted = false

  init() {}

  init(_ scalar: UInt32) { ranges = [scalar...scalar] }

  init(_ ranges: [ClosedRange<UInt32>]) { self.ranges = ranges }

  init(_ property: ScalarProperty) { properties = [property] }

  mutating func formUnion(_ other: ScalarSet) {
    if other.isInverted {
      properties.append(.set(other))
    } else {
      ranges += other.ranges
      properties += other.properties
    }
  }

  var inverted: ScalarSet {
    var copy = self
    copy.isInverted.toggle()
    return copy
  }

  /// The set without properties: its ranges, and whether it is all but them; nil with properties.
  var plainRanges: (ranges: [ClosedRange<UInt32>], isInverted: Bool)? {
    properties.isEmpty && !(ranges.isEmpty && !isInverted) ? (ranges, isInverted) : nil
  }

  /// Costs a look at each range and property: classes are short.
  func contains(_ scalar: UInt32) -> Bool {
    for range in ranges where range.contains(scalar) { return !isInverted }
    for property in properties where property.contains(scalar) { return !isInverted }
    return isInverted
  }

  static let digits = ScalarSet([0x30...0x39])
  static let word = ScalarSet([0x30...0x39, 0x41...0x5A, 0x5F...0x5F, 0x61...0x7A])
  /// WhiteSpace and LineTerminator of ECMA-262.
  static let space = ScalarSet([
    0x09...0x0D, 0x20...0x20, 0xA0...0xA0, 0x1680...0x1680, 0x2000...0x200A, 0x2028...0x2029,
    0x202F...0x202F, 0x205F...0x205F, 0x3000...0x3000, 0xFEFF...0xFEFF,
  ])
  static let lineTerminators = ScalarSet([0x0A...0x0A, 0x0D...0x0D, 0x2028...0x2029])
}

/// What `\p{...}` names.
indirect enum ScalarProperty: Sendable, Equatable {
  case category(Set<Unicode.GeneralCategory>)
  case any, ascii, alphabetic, lowercase, uppercase, whiteSpace, emoji
  /// A class within a class, such as `\D` in `[\Da]`.
  case set(ScalarSet)

  /// nil for a property that is not known here; scripts are none of the standard library's.
  init?(name: String) {
    let parts = name.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
    if parts.count == 2 {
      guard parts[0] == "gc" || parts[0] == "General_Category",
        let categories = Self.categories[String(parts[1])]
      else { return nil }
      self = .category(categories)
      return
    }
    switch name {
    case "Any": self = .any
    case "ASCII": self = .ascii
    case "Alphabetic", "Alpha": self = .alphabetic
    case "Lowercase", "Lower": self = .lowercase
    case "Uppercase", "Upper": self = .uppercase
    case "White_Space", "space": self = .whiteSpace
    case "Emoji": self = .emoji
    default:
      guard let categories = Self.categories[name] else { return nil }
      self = .category(categories)
    }
  }

  func contains(_ value: UInt32) -> Bool {
    if case .set(let set) = self { return set.contains(value) }
    guard let scalar = Unicode.Scalar(value) else { return false }
    switch self {
    case .category(let categories): return categories.contains(scalar.properties.generalCategory)
    case .any: return true
    case .ascii: return value < 0x80
    case .alphabetic: return scalar.properties.isAlphabetic
    case .lowercase: return scalar.properties.isLowercase
    case .uppercase: return scalar.properties.isUppercase
    case .whiteSpace: return scalar.properties.isWhitespace
    case .emoji: return scalar.properties.isEmoji
    case .set(let set): return set.contains(value)
    }
  }

  private static let categories: [String: Set<Unicode.GeneralCategory>] = {
    let single: [(String, String, Unicode.GeneralCategory)] = [
      ("Lu", "Uppercase_Letter", .uppercaseLetter), ("Ll", "Lowercase_Letter", .lowercaseLetter),
      ("Lt", "Titlecase_Letter", .titlecaseLetter), ("Lm", "Modifier_Letter", .modifierLetter),
      ("Lo", "Other_Letter", .otherLetter), ("Mn", "Nonspacing_Mark", .nonspacingMark),
      ("Mc", "Spacing_Mark", .spacingMark), ("Me", "Enclosing_Mark", .enclosingMark),
      ("Nd", "Decimal_Number", .decimalNumber), ("Nl", "Letter_Number", .letterNumber),
      ("No", "Other_Number", .otherNumber), ("Pc", "Connector_Punctuation", .connectorPunctuation),
      ("Pd", "Dash_Punctuation", .dashPunctuation), ("Ps", "Open_Punctuation", .openPunctuation),
      ("Pe", "Close_Punctuation", .closePunctuation),
      ("Pi", "Initial_Punctuation", .initialPunctuation),
      ("Pf", "Final_Punctuation", .finalPunctuation),
      ("Po", "Other_Punctuation", .otherPunctuation),
      ("Sm", "Math_Symbol", .mathSymbol), ("Sc", "Currency_Symbol", .currencySymbol),
      ("Sk", "Modifier_Symbol", .modifierSymbol), ("So", "Other_Symbol", .otherSymbol),
      ("Zs", "Space_Separator", .spaceSeparator), ("Zl", "Line_Separator", .lineSeparator),
      ("Zp", "Paragraph_Separator", .paragraphSeparator), ("Cc", "Control", .control),
      ("Cf", "Format", .format), ("Cs", "Surrogate", .surrogate),
      ("Co", "Private_Use", .privateUse), ("Cn", "Unassigned", .unassigned),
    ]
    let groups = [
      ("L", "Letter"), ("M", "Mark"), ("N", "Number"), ("P", "Punctuation"), ("S", "Symbol"),
      ("Z", "Separator"), ("C", "Other"),
    ]
    var table: [String: Set<Unicode.GeneralCategory>] = [:]
    for (short, long, category) in single {
      table[short] = [category]
      table[long] = [category]
      table[String(short.prefix(1)), default: []].insert(category)
    }
    for (short, long) in groups { table[long] = table[short] }
    return table
  }()
}
