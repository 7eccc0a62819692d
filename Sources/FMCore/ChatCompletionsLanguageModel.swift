import FMImaging
import FMWire

/// A model on a server that speaks the chat-completions protocol: llama.cpp, Ollama, vLLM, LM
/// Studio, OpenAI...
///
/// A base URL with a path component like `v1` gets `/chat/completions` appended, any other
/// `/v1/chat/completions`.
public struct ChatCompletionsLanguageModel: LanguageModel {
  package var configuration: ChatConfiguration

  public init(
    name: String, url: String, additionalHeaders: [String: String] = [:],
    supportsGuidedGeneration: Bool = true
  ) {
    configuration = ChatConfiguration(
      endpoint: Endpoint(baseURL: url, headers: additionalHeaders), model: name)
    configuration.supportsGuidedGeneration = supportsGuidedGeneration
  }

  public init(baseURL: String, model: String, apiKey: String? = nil) {
    configuration = ChatConfiguration(
      endpoint: Endpoint(baseURL: baseURL, apiKey: apiKey), model: model)
  }

  package init(_ configuration: ChatConfiguration) {
    self.configuration = configuration
  }

  /// When a request that failed is sent again; by default at most twice. `.none` for callers who back
  /// off by themselves.
  public var retryPolicy: RetryPolicy {
    get { configuration.endpoint.retry }
    set { configuration.endpoint.retry = newValue }
  }

  public var timeouts: HTTPTimeouts {
    get { configuration.endpoint.timeouts }
    set { configuration.endpoint.timeouts = newValue }
  }

  public func imageTokenEstimate(width: Int, height: Int) -> ImageTokenEstimate {
    ImageTokenEstimate(width: width, height: height, model: configuration.model)
  }

  /// What pictures this model is sent: what suits the family that its name tells
  /// (`ImageModelFamily`), else the default; setting it replaces that.
  public var imagePolicy: ImagePolicy {
    get { configuration.imagePolicy }
    set { configuration.imagePolicy = newValue }
  }

  /// Vision, tools and levels of reasoning are declared unless the model was said to have none; whether the server really
  /// has them is asked when the first of them is sent, and `confirmedCapabilities` tells.
  public var capabilities: LanguageModelCapabilities {
    var all: [LanguageModelCapabilities.Capability] = []
    if configuration.supportsImages != false { all.append(.vision) }
    if configuration.supportsGuidedGeneration { all.append(.guidedGeneration) }
    if configuration.supportsTools != false { all.append(.toolCalling) }
    if configuration.takesReasoningLevels { all.append(.reasoning) }
    return LanguageModelCapabilities(all)
  }

  public var contextTokenLimit: Int? {
    get async {
      if let size = configuration.contextSize { return size }
      return await configuration.describe().contextSize
    }
  }

  public var confirmedCapabilities: LanguageModelCapabilities {
    get async throws { await configuration.confirm(capabilities) }
  }

  public func exactTokenCount(
    of request: LanguageModelExecutorGenerationRequest
  ) async throws -> Int? {
    try await ChatTokenCounter(configuration: configuration).count(request)
  }

  public var executorConfiguration: Executor.Configuration {
    Executor.Configuration(chat: configuration)
  }

  public struct Executor: LanguageModelExecutor {
    public typealias Model = ChatCompletionsLanguageModel
    public struct Configuration: Hashable, Sendable {
      let chat: ChatConfiguration
    }

    private let exchange: ChatExchange

    public init(configuration: Configuration) throws {
      try configuration.chat.endpoint.validate()
      exchange = ChatExchange(configuration: configuration.chat)
    }

    public nonisolated(nonsending) func prewarm(
      model: ChatCompletionsLanguageModel, transcript: Transcript
    ) async {
      await exchange.prewarm(transcript)
    }

    public nonisolated(nonsending) func respond(
      to request: LanguageModelExecutorGenerationRequest, model: ChatCompletionsLanguageModel,
      streamingInto channel: LanguageModelExecutorGenerationChannel
    ) async throws {
      try await exchange.respond(to: request, streamingInto: channel)
    }
  }
}
