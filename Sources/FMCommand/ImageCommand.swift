import FMCore
import FMImaging
import FMWire
import Glibc

/// `fm image`: what a picture file is, and what a model would be sent for it. Connects to nothing.
struct ImageCommand {
  private var path: String
  private var output: String?
  private var asksJSON = false
  private var model: String?
  private var orientation: ImageOrientation?
  /// Members of the policy as OpenFM.h has them.
  private var policy = JSONObject()
  let console: Console

  init(_ arguments: [Argument<ImageOption>], console: Console) throws(UsageError) {
    self.console = console
    var path: String?
    for argument in arguments {
      switch argument {
      case .positional(let text):
        guard path == nil else {
          throw UsageError(message: "image takes one picture, and then came \(typed(text))")
        }
        path = text
      case .option(.json): asksJSON = true
      case .option(.keepMetadata): policy["metadata"] = "keep"
      case .option(.noVerify): policy["verify"] = false
      case .option: break
      case .value(.output, let value): output = value
      case .value(.model, let value): model = value
      case .value(.orientation, let value):
        guard let number = UInt32(value), let known = ImageOrientation(rawValue: number) else {
          throw UsageError(message: "--orientation takes a number from 1 to 8, not \(typed(value))")
        }
        orientation = known
      case .value(.formats, let value):
        let formats = JSONValue.array(value.split(separator: ",").map { .string(String($0)) })
        policy["formats"] = formats
        try Self.check(.formats, "formats", formats, typedAs: value)
      case .value(let option, let value):
        guard let member = option.policyMember else { continue }
        // Numbers are read from text where a number is due.
        policy[member] = .string(value)
        try Self.check(option, member, .string(value), typedAs: value)
      }
    }
    guard let path else { throw UsageError(message: "no picture given; try fm image photo.jpg") }
    self.path = path
    guard output == "-" else { return }
    guard !asksJSON else {
      throw UsageError(message: "--json and --output - both want stdout; give --output a file")
    }
    guard !console.outputIsTerminal else {
      throw UsageError(
        message: "stdout is a terminal, which shows no picture; write fm image ... -o - > FILE")
    }
  }

  /// The library says what is wrong with a member of a policy; here it has the option's name.
  private static func check(
    _ option: ImageOption, _ member: String, _ value: JSONValue, typedAs text: String
  ) throws(UsageError) {
    do throws(Failure) {
      _ = try ImagePolicyChanges(json: JSONValue.object(JSONObject([(member, value)])).jsonText)
    } catch {
      throw UsageError(
        message: option.takes.map { "\(option.written) takes \($0), not \(typed(text))" }
          ?? error.message.trimmingFinalStop)
    }
  }

  /// - Throws: a `Failure`, `Stop` or `UsageError`; a failure is on stdout as JSON by then where that
  ///   was asked for.
  func run() throws {
    try console.tellingFailure(asJSON: asksJSON) { try tell() }
  }

  private func tell() throws {
    if let output, output != "-", Self.isSameFile(output, path) {
      throw UsageError(
        message: "--output is the picture itself, which would be lost; give it another file")
    }
    var base = ImagePolicy.default
    if let model { base = ImageModelFamily(ofModel: model)?.policy ?? base }
    let changes = try ImagePolicyChanges(json: JSONValue.object(policy).jsonText)
    let source = try SourceImage(contentsOfFile: path)
    let image = try ImagePreparer.shared.prepare(
      source, orientation: orientation, policy: changes.applied(to: base))
    if output == "-" { return try console.write(image.bytes) }
    if let output { try OutputFile(path: output, console: console).write(image.bytes) }
    let facts = facts(source, image)
    try console.write(
      (asksJSON ? JSONValue.object(facts).jsonText : lines(facts).joined(separator: "\n")) + "\n")
  }

  /// Whether both paths lead to one file, however they are written.
  private static func isSameFile(_ left: String, _ right: String) -> Bool {
    var first = stat()
    var second = stat()
    return stat(left, &first) == 0 && stat(right, &second) == 0
      && first.st_dev == second.st_dev && first.st_ino == second.st_ino
  }

  private func facts(_ source: SourceImage, _ image: PreparedImage) -> JSONObject {
    func number(_ value: Int) -> JSONValue { .number(JSONNumber(value)) }
    var facts = JSONObject([
      ("path", .string(path)),
      (
        "file",
        [
          "mime_type": .string(source.info.format.mediaType),
          "width": number(source.info.storedWidth), "height": number(source.info.storedHeight),
          "orientation": number(Int(source.info.orientation.rawValue)),
          "byte_count": number(source.bytes.count), "sha256": .string(source.sha256Text),
        ]
      ),
    ])
    var sent = SentImage(label: nil, prepared: image).json.objectValue ?? JSONObject()
    sent.members.removeAll { $0.name == "label" }
    sent["sha256"] = .string(image.sha256Text)
    sent["warning_count"] = number(image.warningCount)
    facts["sent"] = .object(sent)
    if let model {
      let estimate = ImageTokenEstimate(width: image.width, height: image.height, model: model)
      facts["tokens"] = [
        "count": number(estimate.tokenCount), "is_exact": .bool(estimate.isExact),
        "family": estimate.family.map(JSONValue.string) ?? .null,
      ]
    }
    return facts
  }

  private func lines(_ facts: JSONObject) -> [String] {
    func line(_ part: String, _ facts: JSONValue) -> (_ members: String...) -> String {
      { members in
        members.map { member in facts[member].map { $0.stringValue ?? $0.jsonText } ?? "?" }
          .joined(separator: part)
      }
    }
    var lines: [String] = []
    if let file = facts["file"] {
      let text = line("x", file)
      lines.append(
        "file:    \(text("width", "height")) \(text("mime_type")), \(text("byte_count")) bytes,"
          + " orientation \(text("orientation"))")
    }
    if let sent = facts["sent"] {
      let text = line("x", sent)
      lines.append(
        "sent:    \(text("width", "height")) \(text("mime_type")), \(text("byte_count")) bytes,"
          + " scale \(text("scale")), \(text("action"))")
      lines.append("sha256:  \(text("sha256"))")
      if let count = sent["warning_count"]?.jsonText, count != "0" {
        lines.append("odd:     \(count), harmless and passed over")
      }
    }
    if let tokens = facts["tokens"] {
      let isExact = tokens["is_exact"]?.boolValue == true
      let family = tokens["family"]?.stringValue ?? "unknown model"
      lines.append(
        "tokens:  \(isExact ? "" : "about ")\(tokens["count"]?.jsonText ?? "?") (\(family))")
    }
    if let output { lines.append("written: \(output)") }
    return lines
  }
}
