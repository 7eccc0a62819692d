import FMImaging
import FMWire

/// The machine's default model.
///
/// Found in this order: the server of `OPENFM_BASE_URL` (with `OPENFM_API_KEY` and `OPENFM_MODEL`);
/// the embedded engine with `OPENFM_MODEL_PATH` (and `OPENFM_MMPROJ_PATH`) or an installed model;
/// else it is unavailable. `OPENAI_*` variables are never read: a key that lies around must not send
/// pictures anywhere.
///
/// The environment is read once, when the model is made; files are looked at on every use, so that
/// a model installed meanwhile is found.
public final class SystemLanguageModel: LanguageModel {
  /// What the model is used for. Kept for the caller; both answer alike here.
  public enum UseCase: Sendable, Equatable {
    case general
    case contentTagging
  }

  /// Kept for the caller; the models that OpenFM runs have no guardrails of their own.
  public enum Guardrails: Sendable, Equatable {
    case `default`
    case permissiveContentTransformations
  }

  public enum Availability: Sendable, Equatable {
    case available
    case unavailable(UnavailableReason)

    public enum UnavailableReason: Sendable, Equatable {
      case deviceNotEligible
      case appleIntelligenceNotEnabled
      case modelNotReady
    }
  }

  public enum Error: Swift.Error, Sendable {
    case assetsUnavailable(AssetsUnavailable)

    public struct AssetsUnavailable: Sendable {
      public var debugDescription: String
    }
  }

  public static var `default`: SystemLanguageModel { SystemLanguageModel() }

  public let useCase: UseCase
  public let guardrails: Guardrails
  private let environment: [String: String]
  private let imageChanges: ImagePolicyChanges

  public convenience init(useCase: UseCase = .general, guardrails: Guardrails = .default) {
    self.init(
      useCase: useCase, guardrails: guardrails, environment: ProcessEnvironment.current)
  }

  /// The same model with another policy for pictures than the one that suits its family.
  public convenience init(_ model: SystemLanguageModel, imagePolicy: ImagePolicy) {
    self.init(model, imageChanges: ImagePolicyChanges(imagePolicy))
  }

  package convenience init(_ model: SystemLanguageModel, imageChanges: ImagePolicyChanges) {
    self.init(
      useCase: model.useCase, guardrails: model.guardrails, environment: model.environment,
      imageChanges: imageChanges)
  }

  package init(
    useCase: UseCase = .general, guardrails: Guardrails = .default,
    environment: [String: String], imageChanges: ImagePolicyChanges = ImagePolicyChanges()
  ) {
    self.useCase = useCase
    self.guardrails = guardrails
    self.environment = environment
    self.imageChanges = imageChanges
  }

  /// Where requests go, decided anew on every use.
  package enum Backend: Sendable {
    case server(ChatConfiguration)
    case engine(EngineConfiguration)
    /// A sentence that says what to do.
    case unavailable(String)
  }

  /// As far as files and settings tell: an engine that was found may prove unable to run when it is
  /// asked for the first time.
  package var backend: Backend { backend(.files) }

  /// - Parameter look: whether programs that may be engines are asked what they are, which takes as
  ///   long as they take to start.
  package func backend(_ look: EngineDiscovery.Look) -> Backend {
    if let baseURL = environment["OPENFM_BASE_URL"], !baseURL.isEmpty {
      do {
        try Endpoint(baseURL: baseURL).validate()
      } catch {
        return .unavailable("OPENFM_BASE_URL: \(error.message)")
      }
      let key: String?
      do {
        key = try Endpoint.apiKey(in: environment)
      } catch {
        return .unavailable(error.message)
      }
      var chat = ChatConfiguration(
        endpoint: Endpoint(baseURL: baseURL, apiKey: key),
        model: environment["OPENFM_MODEL"] ?? "")
      chat.imageChanges = imageChanges
      return .server(chat)
    }
    switch EngineDiscovery.resolve(environment: environment, look) {
    case .success(let configuration): return .engine(configuration)
    case .failure(let error): return .unavailable("No model is ready: \(error.message).")
    }
  }

  /// Whether a request has a chance; starts nothing and connects to nothing.
  public var availability: Availability {
    if case .unavailable = backend { .unavailable(.modelNotReady) } else { .available }
  }

  public var isAvailable: Bool { availability == .available }

  public var capabilities: LanguageModelCapabilities {
    switch backend {
    case .engine(let configuration) where configuration.projectorPath == nil:
      LanguageModelCapabilities([.guidedGeneration, .toolCalling])
    case .server(let chat): ChatCompletionsLanguageModel(chat).capabilities
    case .engine, .unavailable:
      LanguageModelCapabilities([.vision, .guidedGeneration, .toolCalling])
    }
  }

  public func imageTokenEstimate(width: Int, height: Int) -> ImageTokenEstimate {
    let model =
      switch backend {
      case .server(let chat): chat.model
      case .engine(let engine): engine.modelName
      case .unavailable: ""
      }
    return ImageTokenEstimate(width: width, height: height, model: model)
  }

  public var imagePolicy: ImagePolicy {
    switch backend {
    case .server(let chat): chat.imagePolicy
    case .engine(let engine): .forModel(engine.modelName, changes: imageChanges)
    case .unavailable: imageChanges.applied(to: .default)
    }
  }

  public var contextTokenLimit: Int? {
    get async {
      switch backend {
      case .server(let chat): await ChatCompletionsLanguageModel(chat).contextTokenLimit
      case .engine(let configuration): configuration.contextSize
      case .unavailable: nil
      }
    }
  }

  public var confirmedCapabilities: LanguageModelCapabilities {
    get async throws {
      try await withServer { [capabilities] chat in await chat.confirm(capabilities) }
    }
  }

  public func exactTokenCount(
    of request: LanguageModelExecutorGenerationRequest
  ) async throws -> Int? {
    try await withServer { try await ChatTokenCounter(configuration: $0).count(request) }
  }

  /// Runs `body` with the server that answers for this model; starts the engine where it is one.
  package nonisolated(nonsending) func withServer<Result: Sendable>(
    _ body: @Sendable (ChatConfiguration) async throws -> Result
  ) async throws -> Result {
    switch backend(.programs) {
    case .unavailable(let message):
      throw Error.assetsUnavailable(.init(debugDescription: message))
    case .server(var chat):
      if chat.model.isEmpty {
        chat.model = try await ChatCompletionsClient(endpoint: chat.endpoint).firstModelID()
      }
      return try await body(chat)
    case .engine(let configuration):
      return try await Engine.shared(configuration).withEndpoint { endpoint in
        var chat = ChatConfiguration(endpoint: endpoint, model: configuration.modelName)
        chat.supportsImages = configuration.projectorPath != nil
        chat.contextSize = configuration.contextSize
        chat.server = .llamaCpp
        chat.imageChanges = imageChanges
        // The engine is new enough; older servers of its kind refuse them inside of arrays.
        chat.patterns = .anchored
        return try await body(chat)
      }
    }
  }

  public var executorConfiguration: Executor.Configuration {
    Executor.Configuration(environment: environment)
  }

  public struct Executor: LanguageModelExecutor {
    public typealias Model = SystemLanguageModel
    public struct Configuration: Hashable, Sendable {
      let environment: [String: String]
    }

    public init(configuration: Configuration) {}

    public nonisolated(nonsending) func respond(
      to request: LanguageModelExecutorGenerationRequest, model: SystemLanguageModel,
      streamingInto channel: LanguageModelExecutorGenerationChannel
    ) async throws {
      try await model.withServer { chat in
        try await ChatExchange(configuration: chat).respond(to: request, streamingInto: channel)
      }
    }

    public nonisolated(nonsending) func prewarm(
      model: SystemLanguageModel, transcript: Transcript
    ) async {
      try? await model.withServer { await ChatExchange(configuration: $0).prewarm(transcript) }
    }
  }
}

extension EngineConfiguration {
  /// The model file's name without its folder, as the engine calls the model.
  package var modelName: String {
    String(modelPath.split(separator: "/").last ?? "model")
  }
}
