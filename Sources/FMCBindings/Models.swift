import FMCore
import FMWire
import Glibc

/// A model as C callers hold it.
final class ModelObject: LiveObject, @unchecked Sendable {
  enum Model {
    case system(SystemLanguageModel)
    case chatCompletions(ChatCompletionsLanguageModel)

    /// The same with changes to the policy that suits it, in place of those it has.
    func with(_ changes: ImagePolicyChanges) -> Model {
      switch self {
      case .system(let model): return .system(SystemLanguageModel(model, imageChanges: changes))
      case .chatCompletions(var model):
        model.configuration.imageChanges = changes
        return .chatCompletions(model)
      }
    }
  }

  let model: Model

  init(_ model: Model) {
    self.model = model
    super.init(.model)
  }

  /// The model of a reference; NULL stands for the default model.
  static func optional(_ handle: UnsafeRawPointer?) throws(Failure) -> ModelObject {
    guard let handle else { return ModelObject(.system(.default)) }
    return try HandleTable.shared.object(handle, as: ModelObject.self, "model")
  }

  func makeSession(tools: [any Tool], instructions: String?) -> LanguageModelSession {
    switch model {
    case .system(let model):
      LanguageModelSession(model: model, tools: tools, instructions: instructions)
    case .chatCompletions(let model):
      LanguageModelSession(model: model, tools: tools, instructions: instructions)
    }
  }

  func makeSession(tools: [any Tool], transcript: Transcript) -> LanguageModelSession {
    switch model {
    case .system(let model):
      LanguageModelSession(model: model, tools: tools, transcript: transcript)
    case .chatCompletions(let model):
      LanguageModelSession(model: model, tools: tools, transcript: transcript)
    }
  }

  /// What is known, or comes within half a second.
  var contextSize: Int? {
    get async {
      await firstResult(within: 0.5) { [model] in
        switch model {
        case .system(let model): await model.contextTokenLimit
        case .chatCompletions(let model): await model.contextTokenLimit
        }
      }
    }
  }

  /// Asks, or starts, whatever runs the model, and tells what it is and can do.
  func confirmedDescription() async throws -> JSONValue {
    switch model {
    case .system(let model): try await model.confirmedDescription()
    case .chatCompletions(let model): try await model.confirmedDescription()
    }
  }

  var capabilitiesJSON: JSONValue {
    switch model {
    case .system(let model): model.capabilities.json
    case .chatCompletions(let model): model.capabilities.json
    }
  }

  var description: ModelDescription {
    switch model {
    case .system(let model): ModelDescription(model)
    case .chatCompletions(let model): ModelDescription(model)
    }
  }
}

private func makeSystemModel(
  _ useCase: SystemLanguageModel.UseCase = .general,
  _ guardrails: SystemLanguageModel.Guardrails = .default
) -> UnsafeRawPointer? {
  enter(else: nil) {
    HandleTable.shared.insert(
      ModelObject(.system(SystemLanguageModel(useCase: useCase, guardrails: guardrails))))
  }
}

@_cdecl("FMSystemLanguageModelGetDefault")
public func fmSystemLanguageModelGetDefault() -> UnsafeRawPointer? { makeSystemModel() }

@_cdecl("FMSystemLanguageModelCreate")
public func fmSystemLanguageModelCreate(_ useCase: UInt32, _ guardrails: UInt32)
  -> UnsafeRawPointer?
{
  if useCase > 1 {
    let warning = "OpenFM: \(useCase) is no use case; the general one is used.\n"
    _ = warning.withCString { write(STDERR_FILENO, $0, strlen($0)) }
  }
  return makeSystemModel(
    useCase == 1 ? .contentTagging : .general,
    guardrails == 1 ? .permissiveContentTransformations : .default)
}

@_cdecl("FMSystemLanguageModelIsAvailable")
public func fmSystemLanguageModelIsAvailable(
  _ model: UnsafeRawPointer?, _ reason: UnsafeMutablePointer<UInt32>?
) -> Bool {
  enter(else: false) {
    // Written first, so that a bad reference leaves "unknown" and not what was there before.
    let object: ModelObject
    do {
      object = try HandleTable.shared.object(model, as: ModelObject.self, "model")
    } catch {
      reason?.pointee = 0xFF
      throw error
    }
    guard object.description.unavailableExplanation != nil else { return true }
    reason?.pointee = 2
    return false
  }
}

@_cdecl("FMSystemLanguageModelGetContextSize")
public func fmSystemLanguageModelGetContextSize(_ model: UnsafeRawPointer?) -> Int32 {
  enter(else: 0) {
    let object = try HandleTable.shared.object(model, as: ModelObject.self, "model")
    return Int32(clamping: waitFor { await object.contextSize } ?? 0)
  }
}

@_cdecl("FMLanguageModelCreateChatCompletions")
public func fmLanguageModelCreateChatCompletions(
  _ baseURL: UnsafePointer<CChar>?, _ model: UnsafePointer<CChar>?,
  _ apiKey: UnsafePointer<CChar>?, _ optionsJSON: UnsafePointer<CChar>?, _ code: ErrorCode,
  _ description: ErrorDescription
) -> UnsafeRawPointer? {
  enter(code, description, else: nil) {
    let configuration = try ChatConfiguration(
      baseURL: try requiredText(baseURL, "base URL"),
      model: try requiredText(model, "model's name"),
      apiKey: try nonEmptyText(apiKey, "API key"),
      optionsJSON: try nonEmptyText(optionsJSON, "options"))
    return HandleTable.shared.insert(
      ModelObject(.chatCompletions(ChatCompletionsLanguageModel(configuration))))
  }
}

@_cdecl("FMLanguageModelCreateWithImagePolicy")
public func fmLanguageModelCreateWithImagePolicy(
  _ model: UnsafeRawPointer?, _ policyJSON: UnsafePointer<CChar>?, _ code: ErrorCode,
  _ description: ErrorDescription
) -> UnsafeRawPointer? {
  enter(code, description, else: nil) {
    let object = try ModelObject.optional(model)
    let changes = try ImagePolicyChanges(json: try nonEmptyText(policyJSON, "image policy"))
    return HandleTable.shared.insert(ModelObject(object.model.with(changes)))
  }
}

@_cdecl("FMLanguageModelCopyUnavailableExplanation")
public func fmLanguageModelCopyUnavailableExplanation(_ model: UnsafeRawPointer?)
  -> UnsafeMutablePointer<CChar>?
{
  enter(else: nil) {
    let object = try HandleTable.shared.object(model, as: ModelObject.self, "model")
    return object.description.unavailableExplanation.map(copyString)
  }
}

@_cdecl("FMLanguageModelCopyDescriptionJSON")
public func fmLanguageModelCopyDescriptionJSON(_ model: UnsafeRawPointer?) -> UnsafeMutablePointer<
  CChar
>? {
  enter(else: nil) {
    let object = try HandleTable.shared.object(model, as: ModelObject.self, "model")
    return copyString(object.description.json.jsonText)
  }
}

@_cdecl("FMLanguageModelCopyCapabilitiesJSON")
public func fmLanguageModelCopyCapabilitiesJSON(_ model: UnsafeRawPointer?) -> UnsafeMutablePointer<
  CChar
>? {
  enter(else: nil) {
    let object = try HandleTable.shared.object(model, as: ModelObject.self, "model")
    return copyString(object.capabilitiesJSON.jsonText)
  }
}

@_cdecl("FMEngineSetDefaults")
public func fmEngineSetDefaults(
  _ json: UnsafePointer<CChar>?, _ code: ErrorCode, _ description: ErrorDescription
) -> Bool {
  enter(code, description, else: false) {
    try EngineDefaults.set(json: try requiredText(json, "engine defaults"))
    return true
  }
}
