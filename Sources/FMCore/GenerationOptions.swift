/// How a response is sampled. A nil member leaves the choice to the model's server.
public struct GenerationOptions: Sendable, Equatable {
  public var samplingMode: SamplingMode?
  /// 0 is deterministic; larger is more varied.
  public var temperature: Double?
  /// Tokens after which the response is cut off, quietly.
  public var maximumResponseTokens: Int?

  public init(
    samplingMode: SamplingMode? = nil, temperature: Double? = nil,
    maximumResponseTokens: Int? = nil
  ) {
    self.samplingMode = samplingMode
    self.temperature = temperature
    self.maximumResponseTokens = maximumResponseTokens
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
