/// One thing on a command line.
enum Argument<Option: CommandOption>: Equatable {
  case option(Option)
  case value(Option, String)
  case positional(String)
}

/// Reads a command line by a table of options.
///
/// `--name value` and `--name=value` are alike, as are `-n value` and `-n=value`. A value that begins
/// with a dash must come after `=`, unless it is a number or the lone dash for stdin: a missing value
/// is an error, never the next option. `--` ends the options.
enum ArgumentParser<Option: CommandOption> {
  static func parse(_ arguments: [String]) throws(UsageError) -> [Argument<Option>] {
    var result: [Argument<Option>] = []
    var rest = arguments[...]
    while let word = rest.popFirst() {
      if word == "--" {
        result += rest.map(Argument.positional)
        break
      }
      guard word.hasPrefix("-"), word != "-" else {
        result.append(.positional(word))
        continue
      }
      let equals = word.firstIndex(of: "=")
      let name = String(word[..<(equals ?? word.endIndex)])
      guard let option = option(named: name) else { throw unknown(name) }
      guard let placeholder = option.form.value else {
        guard equals == nil else {
          throw UsageError(message: "\(name) takes no value; write \(name) alone")
        }
        result.append(.option(option))
        continue
      }
      if let equals {
        result.append(.value(option, String(word[word.index(after: equals)...])))
      } else if let next = rest.first, isValue(next) {
        result.append(.value(option, next))
        rest.removeFirst()
      } else {
        let hint =
          rest.first.map { "; a value that begins with a dash is written \(name)=\($0)" } ?? ""
        throw UsageError(message: "\(name) needs a value: \(name) \(placeholder)\(hint)")
      }
    }
    return result
  }

  private static func option(named name: String) -> Option? {
    Option.allCases.first { option in
      name == option.written || option.form.short.map { name == "-\($0)" } == true
    }
  }

  private static func isValue(_ word: String) -> Bool {
    guard word.hasPrefix("-"), word != "-" else { return true }
    guard let second = word.dropFirst().first, second == "." || ("0"..."9").contains(second) else {
      return false
    }
    return Double(word) != nil
  }

  private static func unknown(_ name: String) -> UsageError {
    let near = nearest(to: name, among: Option.allCases.map(\.written))
    let hint =
      if let near {
        "did you mean \(near)?"
      } else if name.hasPrefix("--") {
        "a text that begins with a dash comes after a lone --"
      } else {
        "short options are given one by one; a text that begins with a dash comes after a lone --"
      }
    return UsageError(message: "unknown option \(typed(name)); \(hint)")
  }
}
