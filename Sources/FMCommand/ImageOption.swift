/// The options of `fm image`.
enum ImageOption: String, CommandOption {
  case output
  case json
  case model
  case preset
  case orientation
  case maxLongEdge = "max-long-edge"
  case maxShortEdge = "max-short-edge"
  case maxPixels = "max-pixels"
  case maxBytes = "max-bytes"
  case formats
  case quality
  case background
  case keepMetadata = "keep-metadata"
  case noVerify = "no-verify"
  case help

  var form: OptionForm {
    switch self {
    case .output:
      OptionForm(
        short: "o", value: "FILE", "write what would be sent to FILE; - is stdout, which then",
        "gets nothing else")
    case .json: OptionForm("print one JSON object, see below")
    case .model:
      OptionForm(
        short: "m", value: "NAME", "as it is sent to a model of that name; tells the tokens too")
    case .preset:
      OptionForm(
        value: "NAME", "as it is sent to a family of models: openai-tiles, claude,",
        "qwen2-vl, gemma-3 ...; a wrong name lists them all")
    case .orientation:
      OptionForm(value: "N", "1 to 8 in place of the file's EXIF orientation")
    case .maxLongEdge:
      OptionForm(value: "PIXELS", "of the longer side; 0 is no limit, here as below")
    case .maxShortEdge: OptionForm(value: "PIXELS", "of the shorter side")
    case .maxPixels: OptionForm(value: "PIXELS", "width times height")
    case .maxBytes:
      OptionForm(
        value: "BYTES", "of the encoded file; quality gives way as far as it must, then",
        "size")
    case .formats: OptionForm(value: "NAMES", "what may be sent: jpeg, png or jpeg,png")
    case .quality: OptionForm(value: "N", "of JPEG, 1 to 100")
    case .background: OptionForm(value: "COLOUR", "under transparency, such as #FFFFFF")
    case .keepMetadata: OptionForm("send EXIF, XMP, IPTC and comments along")
    case .noVerify: OptionForm("do not look through a picture that can be sent as it is")
    case .help: OptionForm(short: "h", "print this help")
    }
  }

  /// What a value that is a member of the policy has to be; nil where the library's own words say
  /// it better.
  var takes: String? {
    switch self {
    case .maxLongEdge, .maxShortEdge, .maxPixels: "a whole number of pixels, 0 for no limit"
    case .maxBytes: "a whole number of bytes, 0 for no limit"
    case .formats: "jpeg, png or jpeg,png"
    case .quality: "a whole number from 1 to 100"
    case .background: "a colour such as #FFFFFF"
    default: nil
    }
  }

  /// The member of the policy that a value is for.
  var policyMember: String? {
    switch self {
    case .preset, .maxLongEdge, .maxShortEdge, .maxPixels, .maxBytes, .formats, .quality,
      .background:
      String(rawValue.map { $0 == "-" ? "_" : $0 })
    default: nil
    }
  }
}
