import FMImaging
import FMWire

/// Models that prepare pictures alike: what they are best sent, and what a picture costs them.
///
/// ```swift
/// let family = ImageModelFamily(ofModel: "qwen2.5vl:7b")
/// print(family?.name ?? "unknown", family?.policy.sideMultiple ?? 1)  // qwen2-vl 28
/// ```
public struct ImageModelFamily: Sendable, Hashable {
  /// The name by which the family's policy is asked for, such as "qwen2-vl".
  public let name: String
  /// What such a model is sent when the caller sets nothing: all that it can see, and no more.
  public let policy: ImagePolicy
  public let tokenRule: ImageTokenRule
  /// Whether the rule is the models' own to the token.
  public let isExact: Bool
  /// Parts of model names, lower case and without punctuation. One that begins with "^" must stand
  /// at the beginning of the name.
  let patterns: [String]

  /// The family of that name, nil for none.
  public init?(named name: String) {
    guard let family = Self.all.first(where: { $0.name == name }) else { return nil }
    self = family
  }

  /// The family that a model belongs to by its name, nil when the name tells nothing.
  ///
  /// Case and punctuation do not matter, nor what stands before the last slash:
  /// "Qwen/Qwen2.5-VL-7B-Instruct", "qwen2.5vl:7b" and "qwen2_5-vl-7b-q4.gguf" are the same.
  public init?(ofModel model: String) {
    let last = model.split(separator: "/").last ?? ""
    let plain = String(last.lowercased().filter { $0.isASCII && ($0.isLetter || $0.isNumber) })
    let bytes = ByteText(plain)
    let family = Self.all.first { family in
      family.patterns.contains { pattern in
        pattern.hasPrefix("^") ? plain.hasPrefix(pattern.dropFirst()) : bytes.contains(pattern)
      }
    }
    guard let family else { return nil }
    self = family
  }

  /// What a picture of that size, upright and as it is sent, costs such a model.
  public func tokenEstimate(width: Int, height: Int) -> ImageTokenEstimate {
    ImageTokenEstimate(
      tokenCount: tokenRule.tokenCount(width: width, height: height), isExact: isExact,
      family: name)
  }

  init(
    _ name: String, _ policy: ImagePolicy, _ tokenRule: ImageTokenRule, isExact: Bool = false,
    _ patterns: String...
  ) {
    self.name = name
    self.policy = policy
    self.tokenRule = tokenRule
    self.isExact = isExact
    self.patterns = patterns
  }
}
