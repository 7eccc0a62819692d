import FMImaging
import FMWire

/// Everything that decides how one chat-completions server is asked.
package struct ChatConfiguration: Sendable, Hashable {
  package var endpoint: Endpoint
  package var model: String
  /// nil = the server is asked; one that does not tell is taken to see.
  package var supportsImages: Bool?
  package var supportsGuidedGeneration = true
  /// nil = the server is asked; one that does not tell is taken to have tools.
  package var supportsTools: Bool?
  /// Which row of the dialect table applies; nil = the server is asked where it matters.
  package var server: ServerKind?
  /// Tokens of context of one request; nil = the server is asked.
  package var contextSize: Int?
  /// Where this server takes patterns, in place of what the table says of its kind.
  package var patterns: ServerDialect.Patterns?
  /// What was set over the policy that goes with the model's name.
  package var imageChanges = ImagePolicyChanges()
  /// Members added to every request's body, in place of ours of the same name.
  package var extraBody = JSONObject()

  package var imagePolicy: ImagePolicy {
    get { .forModel(model, changes: imageChanges) }
    set { imageChanges = ImagePolicyChanges(newValue) }
  }

  package init(endpoint: Endpoint, model: String) {
    self.endpoint = endpoint
    self.model = model
  }

  package static func == (left: ChatConfiguration, right: ChatConfiguration) -> Bool {
    left.endpoint == right.endpoint && left.model == right.model
      && left.supportsImages == right.supportsImages
      && left.supportsGuidedGeneration == right.supportsGuidedGeneration
      && left.supportsTools == right.supportsTools && left.server == right.server
      && left.contextSize == right.contextSize && left.imageChanges == right.imageChanges
      && left.patterns == right.patterns && left.extraBody == right.extraBody
  }

  package func hash(into hasher: inout Hasher) {
    hasher.combine(endpoint)
    hasher.combine(model)
    hasher.combine(imageChanges)
  }

  /// The server and its model as configured, and where that leaves something open, as the server
  /// says: the first such question takes a round trip or a few, at most five seconds.
  package func describe() async -> ServerDescription {
    if let server, let supportsImages, let supportsTools, let contextSize {
      return ServerDescription(
        dialect: .of(server), acceptsImages: supportsImages, supportsTools: supportsTools,
        contextSize: contextSize)
    }
    var description = await ChatCompletionsClient(endpoint: endpoint).describe(model: model)
    if let server { description.dialect = .of(server) }
    if let supportsImages { description.acceptsImages = supportsImages }
    if let supportsTools { description.supportsTools = supportsTools }
    if let contextSize { description.contextSize = contextSize }
    return description
  }

  /// What is left of the capabilities that are declared, after asking the server.
  func confirm(_ declared: LanguageModelCapabilities) async -> LanguageModelCapabilities {
    let server = await describe()
    var confirmed = declared
    if server.acceptsImages == false { confirmed.remove(.vision) }
    if server.supportsTools == false || server.dialect.tools == .never {
      confirmed.remove(.toolCalling)
    }
    if server.dialect.reasoningEffort == .none { confirmed.remove(.reasoning) }
    return confirmed
  }

  /// As far as it is known without asking.
  var takesReasoningLevels: Bool { knownDialect.map { $0.reasoningEffort != .none } ?? true }

  /// The row that applies as far as it is known without asking; nil = unknown.
  package var knownDialect: ServerDialect? {
    server.map { .of($0) } ?? .known(baseURL: endpoint.baseURL)
  }
}
