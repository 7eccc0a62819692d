import FMImaging

/// A model that sessions can use. Everything a session does goes through a model and its executor,
/// so that a third party's model serves as ours do.
public protocol LanguageModel: Sendable {
  associatedtype Executor: LanguageModelExecutor where Self == Executor.Model
  var capabilities: LanguageModelCapabilities { get }
  var executorConfiguration: Executor.Configuration { get }

  /// What pictures this model may be sent.
  var imagePolicy: ImagePolicy { get }
  /// What a picture costs, of its upright size as it is sent, where nobody counts.
  func imageTokenEstimate(width: Int, height: Int) -> ImageTokenEstimate
  /// Tokens of context one request has; nil = unknown.
  var contextTokenLimit: Int? { get async }
  /// `capabilities` as far as they are known after asking whatever runs the model; may start it.
  /// - Throws: what a request would throw that cannot reach it.
  var confirmedCapabilities: LanguageModelCapabilities { get async throws }
  /// Counts the tokens of a request's input; nil where only an estimate is to be had.
  func exactTokenCount(
    of request: LanguageModelExecutorGenerationRequest
  ) async throws -> Int?
}

extension LanguageModel {
  public var imagePolicy: ImagePolicy { .default }
  public func imageTokenEstimate(width: Int, height: Int) -> ImageTokenEstimate {
    ImageTokenEstimate(width: width, height: height, model: "")
  }
  public var contextTokenLimit: Int? { get async { nil } }
  public var confirmedCapabilities: LanguageModelCapabilities { get async throws { capabilities } }
  public func exactTokenCount(
    of request: LanguageModelExecutorGenerationRequest
  ) async throws -> Int? { nil }
}

/// Sends a request to where the model runs and streams the answer into a channel.
public protocol LanguageModelExecutor: Sendable {
  associatedtype Configuration: Hashable, Sendable
  associatedtype Model: LanguageModel
  init(configuration: Configuration) throws

  /// Makes a request with that transcript faster that comes soon. Does nothing unless implemented;
  /// never fails.
  nonisolated(nonsending) func prewarm(model: Model, transcript: Transcript) async

  /// Returns or throws when the answer is over; the channel ends with it. Events are deltas; usage
  /// and metadata are totals that replace the ones before.
  nonisolated(nonsending) func respond(
    to request: LanguageModelExecutorGenerationRequest, model: Model,
    streamingInto channel: LanguageModelExecutorGenerationChannel
  ) async throws
}

extension LanguageModelExecutor {
  public nonisolated(nonsending) func prewarm(model: Model, transcript: Transcript) async {}
}

/// What a model can do. A request that needs more is refused before anything is sent.
public struct LanguageModelCapabilities: Sendable, Equatable {
  private var capabilities: Set<Capability>

  public init(_ capabilities: [Capability]) {
    self.capabilities = Set(capabilities)
  }

  mutating func remove(_ capability: Capability) { capabilities.remove(capability) }

  public func contains(_ capability: Capability) -> Bool {
    capabilities.contains(capability)
  }

  public struct Capability: Sendable, Hashable {
    public let name: String
    public static let vision = Capability(name: "vision")
    public static let guidedGeneration = Capability(name: "guidedGeneration")
    /// Without it a session lets the model choose its calls by guided generation.
    public static let toolCalling = Capability(name: "toolCalling")
    public static let reasoning = Capability(name: "reasoning")
  }
}

/// One request as an executor gets it.
public struct LanguageModelExecutorGenerationRequest: Sendable {
  public var requestID: String
  /// Everything said so far; the last entry is the prompt to answer.
  public var transcript: Transcript
  /// The tools that the model may call in this turn.
  public var enabledToolDefinitions: [Transcript.ToolDefinition]
  /// What the answer must be valid by; nil = text.
  public var schema: GenerationSchema?
  public var generationOptions: GenerationOptions
  public var contextOptions: ContextOptions
  /// What the caller of `respond` gave along; of use to executors that know what to do with it.
  public var metadata: [String: GeneratedContent]

  public init(
    requestID: String = makeUUID(), transcript: Transcript,
    enabledTools: [Transcript.ToolDefinition] = [], schema: GenerationSchema? = nil,
    generationOptions: GenerationOptions = GenerationOptions(),
    contextOptions: ContextOptions = ContextOptions(),
    metadata: [String: any ConvertibleToGeneratedContent] = [:]
  ) {
    self.requestID = requestID
    self.transcript = transcript
    enabledToolDefinitions = enabledTools
    self.schema = schema
    self.generationOptions = generationOptions
    self.contextOptions = contextOptions
    self.metadata = metadata.mapValues(\.generatedContent)
  }
}
