/// What a picture is likely to cost in tokens of context. The server's own count, where it gives one,
/// always holds over this.
public struct ImageTokenEstimate: Sendable, Hashable {
  public var tokenCount: Int
  /// Whether the model's own rule was followed to the token; otherwise it is an approximation.
  public var isExact: Bool
  /// The family whose rule it is; nil when the model's name told nothing.
  public var family: String?

  public init(tokenCount: Int, isExact: Bool, family: String?) {
    self.tokenCount = tokenCount
    self.isExact = isExact
    self.family = family
  }

  /// The cost of a picture as it is sent: upright, in pixels.
  ///
  /// - Parameter model: the model's name as its server knows it, such as "qwen2.5vl:7b".
  public init(width: Int, height: Int, model: String) {
    if let family = ImageModelFamily(ofModel: model) {
      self = family.tokenEstimate(width: width, height: height)
    } else {
      // The most common cell of today's models.
      let count = ImageTokenRule.cells(side: 28, cap: nil).tokenCount(width: width, height: height)
      self.init(tokenCount: count, isExact: false, family: nil)
    }
  }
}
