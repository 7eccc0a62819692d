import FMImaging

/// A model that sessions can use. Everything a session does goes through a model and its executor,
/// so that a third party's model serves as ours do.
public protocol LanguageModel: Sendable {
  associatedtype Executor: LanguageModelExecutor where Self == Executor.Model
  var capabilities: LanguageModelCapabilities { get }
  var executorConfiguration: Executor.Configuration { get }

  /// What pictures this model may be sent.
  var imagePolicy: ImagePolicy { get }
  /// Tokens of context one request has; nil = unknown.
  var contextTokenLimit: Int? { get async }
}

extension LanguageModel {
  public var imagePolicy: ImagePolicy { .default }
  public var contextTokenLimit: Int? { get async { nil } }
}

/// Sends a request to where the model runs and streams the answer into a channel.
public protocol LanguageModelExecutor: Sendable {
  associatedtype Configuration: Hashable, Sendable
  associatedtype Model: LanguageModel
  init(configuration: Configuration) throws

  /// Returns or throws when the answer is over; the channel ends with it. Events are deltas; usage
  /// and metadata are totals that replace the ones before.
  nonisolated(nonsending) func respond(
    to request: LanguageModelExecutorGenerationRequest, model: Model,
    streamingInto channel: LanguageModelExecutorGenerationChannel
  ) async throws
}

/// What a model can do. A request that needs more is refused before anything is sent.
public struct LanguageModelCapabilities: Sendable, Equatable {
  private var capabilities: Set<Capability>

  public init(_ capabilities: [Capability]) {
    self.capabilities = Set(capabilities)
  }

  public func contains(_ capability: Capability) -> Bool {
    capabilities.contains(capability)
  }

  public struct Capability: Sendable, Hashable {
    public let name: String
    public static let vision = Capability(name: "vision")
    public static let guidedGeneration = Capability(name: "guidedGeneration")
  }
}

/// One request as an executor gets it.
public struct LanguageModelExecutorGenerationRequest: Sendable {
  public var requestID: String
  /// Everything said so far; the last entry is the prompt to answer.
  public var transcript: Transcript
  /// What the answer must be valid by; nil = text.
  public var schema: GenerationSchema?
  public var generationOptions: GenerationOptions

  public init(
    requestID: String = makeUUID(), transcript: Transcript, schema: GenerationSchema? = nil,
    generationOptions: GenerationOptions = GenerationOptions()
  ) {
    self.requestID = requestID
    self.transcript = transcript
    self.schema = schema
    self.generationOptions = generationOptions
  }
}
