/// How a response is sampled. A nil member leaves the choice to the model's server.
public struct GenerationOptions: Sendable, Equatable {
  public var samplingMode: SamplingMode?
  /// 0 is deterministic; larger is more varied.
  public var temperature: Double?
  /// Tokens after which the response is cut off, quietly.
  public var maximumResponseTokens: Int?
  /// How often a model whose guided answer is not valid is told why and asked again, within the same
  /// request. Such answers stay out of the transcript; their tokens count.
  public var repairAttempts = 0
  /// Whether the model calls tools; nil = it may.
  public var toolCallingMode: ToolCallingMode?

  public init(
    samplingMode: SamplingMode? = nil, temperature: Double? = nil,
    maximumResponseTokens: Int? = nil
  ) {
    self.samplingMode = samplingMode
    self.temperature = temperature
    self.maximumResponseTokens = maximumResponseTokens
  }

  public init(
    samplingMode: SamplingMode? = nil, temperature: Double? = nil,
    maximumResponseTokens: Int? = nil, toolCallingMode: ToolCallingMode?
  ) {
    self.init(
      samplingMode: samplingMode, temperature: temperature,
      maximumResponseTokens: maximumResponseTokens)
    self.toolCallingMode = toolCallingMode
  }

  public struct ToolCallingMode: Sendable, Equatable {
    public enum Kind: String, Sendable, CaseIterable {
      case allowed
      /// The model calls a tool first; once it has, it may answer.
      case required
      case disallowed
    }

    public var kind: Kind
    public static let allowed = ToolCallingMode(kind: .allowed)
    public static let required = ToolCallingMode(kind: .required)
    public static let disallowed = ToolCallingMode(kind: .disallowed)
  }

  public struct SamplingMode: Sendable, Equatable {
    public enum Kind: Sendable, Equatable {
      case greedy
      case randomTopK(Int, seed: UInt64?)
      case randomProbabilityThreshold(Double, seed: UInt64?)
      /// Random with the server's own bounds, from a seed.
      case random(seed: UInt64?)
    }

    public let kind: Kind

    public static var greedy: SamplingMode { SamplingMode(kind: .greedy) }

    public static func random(top k: Int, seed: UInt64? = nil) -> SamplingMode {
      SamplingMode(kind: .randomTopK(k, seed: seed))
    }

    public static func random(probabilityThreshold: Double, seed: UInt64? = nil) -> SamplingMode {
      SamplingMode(kind: .randomProbabilityThreshold(probabilityThreshold, seed: seed))
    }

    public static func random(seed: UInt64?) -> SamplingMode {
      SamplingMode(kind: .random(seed: seed))
    }
  }
}
