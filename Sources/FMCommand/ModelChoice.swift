import FMCore
import FMWire

/// The model that a command line and the environment choose.
enum ModelChoice: Sendable {
  case server(ChatConfiguration)
  case system(SystemLanguageModel)

  /// - Throws: `Failure` for a bad URL or where there is no model, `UsageError` for a name that
  ///   nothing can take.
  init(url: String?, name: String?, timeout: Double?) throws {
    let environment = ProcessEnvironment.current
    // The reference's word for the default model.
    let name = name == "system" ? nil : name
    if let url {
      do throws(WireError) {
        try Endpoint(baseURL: url).validate()
        let key = try Endpoint.apiKey(in: environment)
        self = .server(
          ChatConfiguration(endpoint: Endpoint(baseURL: url, apiKey: key), model: name ?? ""))
      } catch {
        throw Failure(error)
      }
    } else {
      let system = SystemLanguageModel(environment: environment)
      switch system.backend(.programs) {
      case .server(var chat):
        chat.model = name ?? chat.model
        self = .server(chat)
      case .engine:
        guard name == nil else {
          throw UsageError(
            message: "--model names a model on a server; give --model-url or OPENFM_BASE_URL too"
              + " (the embedded engine runs the file in OPENFM_MODEL_PATH)")
        }
        self = .system(system)
      case .unavailable(let message):
        throw Failure(.assetsUnavailable, message)
      }
    }
    if let timeout, case .server(var chat) = self {
      // The deadline for the whole is the command's own; nothing shorter may come before it.
      chat.endpoint.timeouts.firstByte = max(timeout, chat.endpoint.timeouts.firstByte)
      chat.endpoint.timeouts.idle = max(timeout, chat.endpoint.timeouts.idle)
      self = .server(chat)
    }
  }

  /// The choice with the name of the server's first model where none was given.
  func resolved() async throws -> ModelChoice {
    guard case .server(var chat) = self, chat.model.isEmpty else { return self }
    chat.model = try await ChatCompletionsClient(endpoint: chat.endpoint).firstModelID()
    return .server(chat)
  }

  func makeSession(instructions: String?) -> LanguageModelSession {
    switch self {
    case .server(let chat):
      LanguageModelSession(
        model: ChatCompletionsLanguageModel(chat), instructions: instructions)
    case .system(let model): LanguageModelSession(model: model, instructions: instructions)
    }
  }

  var description: ModelDescription {
    switch self {
    case .server(let chat): ModelDescription(ChatCompletionsLanguageModel(chat))
    case .system(let model): ModelDescription(model)
    }
  }
}
