/// Token counts as the server gave them.
///
/// The plain properties read 0 where nobody counted; the `reported...` ones tell the difference.
public struct Usage: Sendable, Equatable {
  public var input: Input
  public var output: Output
  /// What else the model tells of its costs, in its own words.
  public var metadata: [String: GeneratedContent]

  public init(
    input: Input = Input(), output: Output = Output(),
    metadata: [String: any ConvertibleToGeneratedContent] = [:]
  ) {
    self.input = input
    self.output = output
    self.metadata = metadata.mapValues(\.generatedContent)
  }

  public var totalTokenCount: Int { input.totalTokenCount + output.totalTokenCount }

  public struct Input: Sendable, Equatable {
    public var reportedTotalTokenCount: Int?
    /// The part of the total that came out of the server's prefix cache.
    public var reportedCachedTokenCount: Int?
    public var totalTokenCount: Int { reportedTotalTokenCount ?? 0 }
    public var cachedTokenCount: Int { reportedCachedTokenCount ?? 0 }

    public init(totalTokenCount: Int? = nil, cachedTokenCount: Int? = nil) {
      reportedTotalTokenCount = totalTokenCount
      reportedCachedTokenCount = cachedTokenCount
    }
  }

  public struct Output: Sendable, Equatable {
    public var reportedTotalTokenCount: Int?
    /// The part of the total that the model spent on reasoning.
    public var reportedReasoningTokenCount: Int?
    public var totalTokenCount: Int { reportedTotalTokenCount ?? 0 }
    public var reasoningTokenCount: Int { reportedReasoningTokenCount ?? 0 }

    public init(totalTokenCount: Int? = nil, reasoningTokenCount: Int? = nil) {
      reportedTotalTokenCount = totalTokenCount
      reportedReasoningTokenCount = reasoningTokenCount
    }
  }

  /// Counts add up; of metadata the newest stays.
  static func += (total: inout Usage, one: Usage) {
    func sum(_ left: Int?, _ right: Int?) -> Int? {
      left == nil && right == nil ? nil : (left ?? 0) + (right ?? 0)
    }
    total = Usage(
      input: Input(
        totalTokenCount: sum(
          total.input.reportedTotalTokenCount, one.input.reportedTotalTokenCount),
        cachedTokenCount: sum(
          total.input.reportedCachedTokenCount, one.input.reportedCachedTokenCount)),
      output: Output(
        totalTokenCount: sum(
          total.output.reportedTotalTokenCount, one.output.reportedTotalTokenCount),
        reasoningTokenCount: sum(
          total.output.reportedReasoningTokenCount, one.output.reportedReasoningTokenCount)),
      metadata: total.metadata.merging(one.metadata) { _, newer in newer })
  }
}
