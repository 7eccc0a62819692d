import FMCore
import FMWire

public typealias TokenCountCallback =
  @convention(c) @Sendable (Int32, Int32, UnsafePointer<CChar>?, UnsafeMutableRawPointer?) -> Void

extension ModelObject {
  func tokenCount(of subject: TokenCountSubject) async throws -> TokenCount {
    switch model {
    case .system(let model): try await model.tokenCount(of: subject)
    case .chatCompletions(let model): try await model.tokenCount(of: subject)
    }
  }
}

/// Starts a count; what is wrong with the arguments comes through the callback too.
private func startCount(
  _ model: UnsafeRawPointer?, _ userInfo: UnsafeMutableRawPointer?,
  _ callback: TokenCountCallback?, _ subject: () throws -> TokenCountSubject
) -> UnsafeRawPointer? {
  let info = UserInfo(pointer: userInfo)
  return enterCalling(
    callback,
    refuse: { refuse in
      usedAfterFork.message.withCString {
        refuse(usedAfterFork.status.rawValue, 0, $0, userInfo)
      }
    }, else: nil,
    body: { callback in
      let pending = Result {
        (try HandleTable.shared.object(model, as: ModelObject.self, "model"), try subject())
      }
      let task = RunningRequests.shared.start { isShutDown in
        do {
          let (model, subject) = try pending.get()
          guard !isShutDown else { throw shutDownFailure }
          let count = try await model.tokenCount(of: subject)
          try Task.checkCancellation()
          callback(0, Int32(clamping: count.value), nil, info.pointer)
        } catch {
          let failure = Failure(error)
          failure.message.withCString { callback(failure.status.rawValue, 0, $0, info.pointer) }
        }
      }
      return HandleTable.shared.insert(TaskObject(RunningRequest(task: task)))
    })
}

@_cdecl("FMSystemLanguageModelTokenCountForPrompt")
public func fmSystemLanguageModelTokenCountForPrompt(
  _ model: UnsafeRawPointer?, _ prompt: UnsafeRawPointer?, _ userInfo: UnsafeMutableRawPointer?,
  _ callback: TokenCountCallback?
) -> UnsafeRawPointer? {
  startCount(model, userInfo, callback) { .prompt(try PromptObject.from(prompt).snapshot()) }
}

@_cdecl("FMSystemLanguageModelTokenCountForInstructions")
public func fmSystemLanguageModelTokenCountForInstructions(
  _ model: UnsafeRawPointer?, _ instructions: UnsafePointer<CChar>?,
  _ userInfo: UnsafeMutableRawPointer?, _ callback: TokenCountCallback?
) -> UnsafeRawPointer? {
  startCount(model, userInfo, callback) {
    let text = try requiredText(instructions, "text of the instructions")
    return .instructions(Instructions { if !text.isEmpty { text } })
  }
}

@_cdecl("FMSystemLanguageModelTokenCountForTools")
public func fmSystemLanguageModelTokenCountForTools(
  _ model: UnsafeRawPointer?, _ tools: UnsafeMutablePointer<UnsafeRawPointer?>?,
  _ toolCount: Int32, _ userInfo: UnsafeMutableRawPointer?, _ callback: TokenCountCallback?
) -> UnsafeRawPointer? {
  startCount(model, userInfo, callback) {
    .tools(try ToolObject.list(tools, toolCount).map { .init(tool: $0.tool) })
  }
}

@_cdecl("FMSystemLanguageModelTokenCountForSchema")
public func fmSystemLanguageModelTokenCountForSchema(
  _ model: UnsafeRawPointer?, _ schema: UnsafeRawPointer?, _ userInfo: UnsafeMutableRawPointer?,
  _ callback: TokenCountCallback?
) -> UnsafeRawPointer? {
  startCount(model, userInfo, callback) { .schema(try SchemaObject.from(schema).schema()) }
}

@_cdecl("FMSystemLanguageModelTokenCountForTranscript")
public func fmSystemLanguageModelTokenCountForTranscript(
  _ model: UnsafeRawPointer?, _ transcript: UnsafeRawPointer?,
  _ userInfo: UnsafeMutableRawPointer?, _ callback: TokenCountCallback?
) -> UnsafeRawPointer? {
  startCount(model, userInfo, callback) {
    .transcript(try SessionObject.from(transcript).session.transcript)
  }
}

// MARK: - On an event queue

/// Runs `body` and puts its JSON, or its failure, on the queue.
private func startOnQueue(
  _ queue: UnsafeRawPointer?, _ token: UInt64,
  _ body: @escaping @Sendable () async throws -> JSONValue
) throws(Failure) -> UnsafeRawPointer {
  let queue = try HandleTable.shared.object(queue, as: EventQueueObject.self, "event queue")
  let task = RunningRequests.shared.start { isShutDown in
    do {
      guard !isShutDown else { throw shutDownFailure }
      let value = try await body()
      try Task.checkCancellation()
      queue.put(.content, token: token, value.jsonText.utf8)
      queue.put(.end, token: token, [])
    } catch {
      let failure = Failure(error)
      queue.put(.end, token: token, status: failure.status, failure.json.utf8)
    }
  }
  return HandleTable.shared.insert(TaskObject(RunningRequest(task: task)))
}

@_cdecl("FMLanguageModelCountTokensOnQueue")
public func fmLanguageModelCountTokensOnQueue(
  _ model: UnsafeRawPointer?, _ kind: Int32, _ object: UnsafeRawPointer?,
  _ textArgument: UnsafePointer<CChar>?, _ tools: UnsafeMutablePointer<UnsafeRawPointer?>?,
  _ toolCount: Int32, _ queue: UnsafeRawPointer?, _ token: UInt64, _ code: ErrorCode,
  _ description: ErrorDescription
) -> UnsafeRawPointer? {
  enter(code, description, else: nil) {
    let model = try HandleTable.shared.object(model, as: ModelObject.self, "model")
    let subject: TokenCountSubject
    switch kind {
    case 0: subject = .prompt(try PromptObject.from(object).snapshot())
    case 1:
      let text = try requiredText(textArgument, "text of the instructions")
      subject = .instructions(Instructions { if !text.isEmpty { text } })
    case 2:
      subject = .tools(try ToolObject.list(tools, toolCount).map { .init(tool: $0.tool) })
    case 3: subject = .schema(try GenerationSchema(json: try requiredText(textArgument, "schema")))
    case 4: subject = .transcript(try SessionObject.from(object).session.transcript)
    default: throw Failure(.invalidArgument, "\(kind) is no FMTokenCountKind.")
    }
    return try startOnQueue(queue, token) { try await model.tokenCount(of: subject).json }
  }
}

@_cdecl("FMLanguageModelLoadOnQueue")
public func fmLanguageModelLoadOnQueue(
  _ model: UnsafeRawPointer?, _ queue: UnsafeRawPointer?, _ token: UInt64, _ code: ErrorCode,
  _ description: ErrorDescription
) -> UnsafeRawPointer? {
  enter(code, description, else: nil) {
    let model = try HandleTable.shared.object(model, as: ModelObject.self, "model")
    return try startOnQueue(queue, token) { try await model.confirmedDescription() }
  }
}
