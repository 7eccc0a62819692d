/// Splits a command line into words as POSIX sh does (2.2 Quoting, 2.6.5 Field Splitting), without
/// expanding anything.
enum ShellWords {
  /// - Returns: nil for an unclosed quote or a backslash at the end.
  static func split(_ text: String) -> [String]? {
    var words: [String] = []
    var word: String?
    var quote: Character?
    var characters = text.makeIterator()
    while let character = characters.next() {
      switch (quote, character) {
      case ("'", "'"), ("\"", "\""):
        quote = nil
      case ("'", _):
        word?.append(character)
      case ("\"", "\\"):
        guard let next = characters.next() else { return nil }
        if !"\\\"$`".contains(next) { word?.append("\\") }
        word?.append(next)
      case ("\"", _):
        word?.append(character)
      case (nil, "'"), (nil, "\""):
        quote = character
        word = word ?? ""
      case (nil, "\\"):
        guard let next = characters.next() else { return nil }
        word = (word ?? "") + String(next)
      case (nil, " "), (nil, "\t"), (nil, "\n"):
        if let finished = word { words.append(finished) }
        word = nil
      default:
        word = (word ?? "") + String(character)
      }
    }
    guard quote == nil else { return nil }
    if let word { words.append(word) }
    return words
  }
}
