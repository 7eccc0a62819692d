/// The options of `fm available`.
enum AvailableOption: String, CommandOption {
  case json
  case help

  var form: OptionForm {
    switch self {
    case .json: OptionForm("print one JSON object")
    case .help: OptionForm(short: "h", "print this help")
    }
  }
}
