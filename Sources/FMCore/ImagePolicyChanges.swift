import FMImaging
import FMWire

/// Members of a policy that somebody set; the others stay those of the policy beneath: an
/// attachment's over its model's, a model's over its family's.
package struct ImagePolicyChanges: Sendable, Hashable {
  /// In place of the policy beneath.
  private var base: ImagePolicy?
  private var maxLongEdge: Int??
  private var maxShortEdge: Int??
  private var maxPixels: Int??
  private var maxBytes: Int??
  private var sideMultiple: Int?
  private var formats: ImagePolicy.Formats?
  private var quality: Int?
  private var background: UInt32?
  private var metadata: ImagePolicy.Metadata?
  private var verify: Bool?

  /// Nothing is changed.
  package init() {}

  /// Everything is: a whole policy.
  package init(_ policy: ImagePolicy) { base = policy }

  package func applied(to policy: ImagePolicy) -> ImagePolicy {
    var result = base ?? policy
    func set<Value>(_ member: WritableKeyPath<ImagePolicy, Value>, _ value: Value?) {
      if let value { result[keyPath: member] = value }
    }
    set(\.maxLongEdge, maxLongEdge)
    set(\.maxShortEdge, maxShortEdge)
    set(\.maxPixels, maxPixels)
    set(\.maxBytes, maxBytes)
    set(\.sideMultiple, sideMultiple)
    set(\.formats, formats)
    set(\.quality, quality)
    set(\.background, background)
    set(\.metadata, metadata)
    set(\.verify, verify)
    return result
  }

  // MARK: JSON

  /// The policy JSON of OpenFM.h; nil changes nothing.
  package init(json text: String?) throws(Failure) {
    self.init()
    guard let text else { return }
    try self.init(try parseObject(text, "image policy", .invalidArgument))
  }

  init(_ object: JSONObject) throws(Failure) {
    let members = MemberReader(object: object, name: "image policy", status: .invalidArgument)
    try members.requireOnly([
      "preset", "max_long_edge", "max_short_edge", "max_pixels", "max_bytes", "side_multiple",
      "formats", "quality", "background", "metadata", "verify",
    ])
    if let name = try members.value("preset", "text", \.stringValue) {
      base = try Self.preset(name)
    }
    maxLongEdge = try members.limit("max_long_edge", "pixels")
    maxShortEdge = try members.limit("max_short_edge", "pixels")
    maxPixels = try members.limit("max_pixels", "pixels")
    maxBytes = try members.limit("max_bytes", "bytes")
    sideMultiple = try members.integer("side_multiple", in: 1...1024)
    quality = try members.integer("quality", in: 1...100)
    formats = try members.value("formats", "list of \"jpeg\" and \"png\"") { json in
      guard let names = json.arrayValue, !names.isEmpty else { return nil }
      var formats: ImagePolicy.Formats = []
      for name in names {
        switch name.stringValue {
        case "jpeg": formats.insert(.jpeg)
        case "png": formats.insert(.png)
        default: return nil
        }
      }
      return formats
    }
    background = try members.value("background", "colour like \"#FFFFFF\"") { json in
      guard let text = json.stringValue, text.utf8.count == 7, text.hasPrefix("#"),
        text.utf8.dropFirst().allSatisfy({ Character(UnicodeScalar($0)).isHexDigit })
      else { return nil }
      return UInt32(text.dropFirst(), radix: 16)
    }
    metadata = try members.value("metadata", "choice of \"strip\" and \"keep\"") {
      $0.stringValue.flatMap(ImagePolicy.Metadata.init)
    }
    verify = try members.value("verify", "boolean", \.boolValue)
  }

  private static func preset(_ name: String) throws(Failure) -> ImagePolicy {
    if name == "default" { return .default }
    if let family = ImageModelFamily(named: name) { return family.policy }
    throw Failure(
      .invalidArgument,
      "There is no image preset \(quoted(name)); there are default, "
        + ImageModelFamily.all.map(\.name).joined(separator: ", ") + ".")
  }
}

extension MemberReader {
  fileprivate func integer(_ member: String, in range: ClosedRange<Int>) throws(Failure) -> Int? {
    let expected = "whole number from \(range.lowerBound) to \(range.upperBound)"
    guard let value: Int = try integer(member, expected, atLeast: range.lowerBound) else {
      return nil
    }
    guard value <= range.upperBound else { throw wrong(member, expected) }
    return value
  }

  /// A limit, 0 for none; nil when the member is not there.
  fileprivate func limit(_ member: String, _ unit: String) throws(Failure) -> Int?? {
    let expected = "number of \(unit), 0 for no limit"
    guard let value: Int = try integer(member, expected, atLeast: 0) else { return nil }
    return .some(value == 0 ? nil : value)
  }
}

extension ImagePolicy {
  /// The policy of FMImagePrepare: the default with those changes.
  package init(json text: String?) throws(Failure) {
    self = try ImagePolicyChanges(json: text).applied(to: .default)
  }

  /// What a model of that name is sent, with the changes that were asked for.
  static func forModel(_ name: String, changes: ImagePolicyChanges) -> ImagePolicy {
    changes.applied(to: ImageModelFamily(ofModel: name)?.policy ?? .default)
  }

  /// All members as JSON, as they are read back; a limit that does not exist is null.
  package var json: JSONValue {
    func number(_ value: Int?) -> JSONValue { value.map { .number(JSONNumber($0)) } ?? .null }
    var formats: [JSONValue] = []
    if self.formats.contains(.jpeg) { formats.append("jpeg") }
    if self.formats.contains(.png) { formats.append("png") }
    let digits = String(background & 0xFF_FFFF, radix: 16, uppercase: true)
    let colour = "#" + String(repeating: "0", count: 6 - digits.utf8.count) + digits
    return [
      "max_long_edge": number(maxLongEdge), "max_short_edge": number(maxShortEdge),
      "max_pixels": number(maxPixels), "max_bytes": number(maxBytes),
      "side_multiple": number(sideMultiple), "formats": .array(formats),
      "quality": number(quality), "background": .string(colour),
      "metadata": .string(metadata.rawValue), "verify": .bool(verify),
    ]
  }
}
