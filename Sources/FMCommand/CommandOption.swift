/// The options of one command: the table that parsing and `--help` both read. The raw value is the
/// long name, without its dashes.
protocol CommandOption: CaseIterable, RawRepresentable, Equatable, Sendable
where RawValue == String {
  var form: OptionForm { get }
}

/// How an option is written and explained.
struct OptionForm {
  var short: Character?
  /// Stands for the value in the help; nil for an option without one.
  var value: String?
  /// Lines for the help.
  var help: [String]

  init(short: Character? = nil, value: String? = nil, _ help: String...) {
    self.short = short
    self.value = value
    self.help = help
  }
}

extension CommandOption {
  /// The option as it is written on a command line.
  var written: String { "--" + rawValue }
}
