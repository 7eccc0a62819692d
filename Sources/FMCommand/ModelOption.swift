/// The options of `fm model`.
enum ModelOption: String, CommandOption {
  case mmproj
  case sha256
  case json
  case help

  var form: OptionForm {
    switch self {
    case .mmproj:
      OptionForm(value: "REFERENCE", "pull: the model's projector, which makes it see pictures")
    case .sha256:
      OptionForm(value: "DIGEST", "pull: what the model file must have as its SHA-256")
    case .json: OptionForm("print JSON")
    case .help: OptionForm(short: "h", "print this help")
    }
  }
}
