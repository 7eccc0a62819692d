import FMCore
import FMWire
import Synchronization

/// How a tool's owner hears of its calls.
enum ToolDelivery: Sendable {
  typealias Call = @convention(c) @Sendable (UnsafeRawPointer?, UInt32) -> Void
  typealias CallWithInfo =
    @convention(c) @Sendable (
      UnsafeRawPointer?, UInt32, UnsafeMutableRawPointer?
    ) -> Void
  typealias Cancel = @convention(c) @Sendable (UInt32, UnsafeMutableRawPointer?) -> Void

  case call(Call)
  case callWithInfo(CallWithInfo, cancel: Cancel?, UserInfo)
  /// Onto the event queue of the request that calls.
  case queue
}

/// Where the running request's events go; tools that are called through a queue look here.
struct QueueAddress: Sendable {
  @TaskLocal static var current: QueueAddress?

  let queue: EventQueueObject
  let token: UInt64
}

/// A tool that is called outside Swift.
final class BridgedTool: Tool, Sendable {
  private enum Entry {
    case waiting(CheckedContinuation<Prompt, any Error>)
    /// It ended before anyone could wait for it.
    case ended(Result<Prompt, any Error>)
  }

  private struct State {
    var lastCall: UInt32 = 0
    /// The calls under way; those not in here are unknown or finished.
    var calls: [UInt32: Entry?] = [:]
  }

  let name: String
  let description: String
  let parameters: GenerationSchema
  private let delivery: ToolDelivery
  private let state = Mutex(State())

  init(name: String, description: String, parameters: GenerationSchema, _ delivery: ToolDelivery)
    throws
  {
    try validateToolName(name)
    self.name = name
    self.description = description
    self.parameters = parameters
    self.delivery = delivery
  }

  func call(arguments: GeneratedContent) async throws -> Prompt {
    // Known before anyone outside hears of it: the call may be finished before `deliver` returns.
    let id = state.withLock { state in
      state.lastCall &+= 1
      state.calls.updateValue(nil, forKey: state.lastCall)
      return state.lastCall
    }
    let address = QueueAddress.current
    return try await withTaskCancellationHandler {
      try deliver(arguments, id, address)
      return try await withCheckedThrowingContinuation { continuation in
        let ended = state.withLock { state -> Result<Prompt, any Error>? in
          if case .some(.some(.ended(let result))) = state.calls[id] {
            state.calls[id] = nil
            return result
          }
          state.calls[id] = .some(.waiting(continuation))
          return nil
        }
        if let ended { continuation.resume(with: ended) }
      }
    } onCancel: {
      if finish(id, .failure(CancellationError())) { reportCancellation(of: id, address) }
    }
  }

  private func deliver(
    _ arguments: GeneratedContent, _ id: UInt32, _ address: QueueAddress?
  ) throws {
    switch delivery {
    case .call(let call): call(HandleTable.shared.insert(ContentObject(arguments)), id)
    case .callWithInfo(let call, _, let info):
      call(HandleTable.shared.insert(ContentObject(arguments)), id, info.pointer)
    case .queue:
      guard let address else {
        state.withLock { _ = $0.calls.removeValue(forKey: id) }
        throw ReportedToolError(
          message: "it is called through an event queue, and this request is on none", callID: id)
      }
      let payload: JSONValue = [
        "tool": .string(name), "call_id": .number(JSONNumber(Int(id))),
        "arguments": arguments.jsonValue,
      ]
      address.queue.put(.toolCall, token: address.token, payload.jsonText.utf8)
    }
  }

  private func reportCancellation(of id: UInt32, _ address: QueueAddress?) {
    switch delivery {
    case .call, .callWithInfo(_, nil, _): break
    case .callWithInfo(_, let cancel?, let info): cancel(id, info.pointer)
    case .queue:
      guard let address else { return }
      let payload: JSONValue = [
        "tool": .string(name), "call_id": .number(JSONNumber(Int(id))),
      ]
      address.queue.put(.toolCancelled, token: address.token, payload.jsonText.utf8)
    }
  }

  /// Ends a call; false when it is unknown or has ended already.
  @discardableResult
  func finish(_ id: UInt32, _ result: Result<Prompt, any Error>) -> Bool {
    let (isKnown, continuation) = state.withLock {
      state -> (Bool, CheckedContinuation<Prompt, any Error>?) in
      switch state.calls[id] {
      case .none, .some(.some(.ended)): return (false, nil)
      case .some(.none):
        state.calls[id] = .some(.ended(result))
        return (true, nil)
      case .some(.some(.waiting(let continuation))):
        state.calls[id] = nil
        return (true, continuation)
      }
    }
    continuation?.resume(with: result)
    return isKnown
  }
}

/// A tool as C callers hold it.
final class ToolObject: LiveObject, @unchecked Sendable {
  let tool: BridgedTool

  init(_ tool: BridgedTool) {
    self.tool = tool
    super.init(.tool)
  }

  static func from(_ handle: UnsafeRawPointer?) throws(Failure) -> ToolObject {
    try HandleTable.shared.object(handle, as: ToolObject.self, "tool")
  }

  /// The tools of an array argument.
  static func list(
    _ tools: UnsafeMutablePointer<UnsafeRawPointer?>?, _ count: Int32
  ) throws(Failure) -> [ToolObject] {
    guard count > 0 else { return [] }
    guard let tools else { throw Failure(.invalidArgument, "The array of tools is NULL.") }
    var objects: [ToolObject] = []
    var names: Set<String> = []
    for index in 0..<Int(count) {
      let object = try from(tools[index])
      guard names.insert(object.tool.name).inserted else {
        throw Failure(
          .invalidArgument,
          "Two tools are called \(quoted(object.tool.name)); give each its own name.")
      }
      objects.append(object)
    }
    return objects
  }
}

private func makeTool(
  _ name: UnsafePointer<CChar>?, _ description: UnsafePointer<CChar>?,
  _ parameters: () throws -> GenerationSchema, _ code: ErrorCode,
  _ outDescription: ErrorDescription, _ delivery: () throws -> ToolDelivery
) -> UnsafeRawPointer? {
  enter(code, outDescription, else: nil) {
    let parameters = try parameters()
    // A schema that cannot be checked is known now, and not when the model calls.
    _ = try parameters.resolved()
    return HandleTable.shared.insert(
      ToolObject(
        try BridgedTool(
          name: try requiredText(name, "tool's name"),
          description: try requiredText(description, "tool's description"),
          parameters: parameters, try delivery())))
  }
}

public typealias ToolCallable = @convention(c) @Sendable (UnsafeRawPointer?, UInt32) -> Void
public typealias ToolCallableWithInfo =
  @convention(c) @Sendable (
    UnsafeRawPointer?, UInt32, UnsafeMutableRawPointer?
  ) -> Void
public typealias ToolCancelled =
  @convention(c) @Sendable (UInt32, UnsafeMutableRawPointer?) -> Void

private func schema(_ json: UnsafePointer<CChar>?) throws -> GenerationSchema {
  try GenerationSchema(json: try requiredText(json, "parameters"))
}

@_cdecl("FMBridgedToolCreate")
public func fmBridgedToolCreate(
  _ name: UnsafePointer<CChar>?, _ description: UnsafePointer<CChar>?,
  _ parameters: UnsafeRawPointer?, _ callable: ToolCallable?, _ code: ErrorCode,
  _ outDescription: ErrorDescription
) -> UnsafeRawPointer? {
  makeTool(
    name, description,
    {
      do {
        return try SchemaObject.from(parameters).schema()
      } catch {
        // The reference has the code of an invalid schema for another function alone.
        let failure = Failure(error)
        throw failure.status == .invalidSchema ? Failure(.unknown, failure.message) : failure
      }
    }, code, outDescription,
    {
      guard let callable else { throw Failure(.invalidArgument, "The callable is NULL.") }
      return .call(callable)
    })
}

@_cdecl("FMBridgedToolCreateFromJSON")
public func fmBridgedToolCreateFromJSON(
  _ name: UnsafePointer<CChar>?, _ description: UnsafePointer<CChar>?,
  _ parametersJSON: UnsafePointer<CChar>?, _ callable: ToolCallableWithInfo?,
  _ cancelled: ToolCancelled?, _ userInfo: UnsafeMutableRawPointer?, _ code: ErrorCode,
  _ outDescription: ErrorDescription
) -> UnsafeRawPointer? {
  makeTool(
    name, description, { try schema(parametersJSON) }, code, outDescription,
    {
      guard let callable else { throw Failure(.invalidArgument, "The callable is NULL.") }
      return .callWithInfo(callable, cancel: cancelled, UserInfo(pointer: userInfo))
    })
}

@_cdecl("FMBridgedToolCreateForQueue")
public func fmBridgedToolCreateForQueue(
  _ name: UnsafePointer<CChar>?, _ description: UnsafePointer<CChar>?,
  _ parametersJSON: UnsafePointer<CChar>?, _ code: ErrorCode, _ outDescription: ErrorDescription
) -> UnsafeRawPointer? {
  makeTool(
    name, description, { try schema(parametersJSON) }, code, outDescription, { .queue })
}

@_cdecl("FMBridgedToolFinishCall")
public func fmBridgedToolFinishCall(
  _ tool: UnsafeRawPointer?, _ callID: UInt32, _ output: UnsafePointer<CChar>?
) {
  enter(else: ()) {
    let tool = try ToolObject.from(tool).tool
    // What cannot be read ends the call too: the model waits for it.
    tool.finish(callID, Result { Prompt(try requiredText(output, "tool's output")) })
  }
}

@_cdecl("FMBridgedToolFinishCallWithError")
public func fmBridgedToolFinishCallWithError(
  _ tool: UnsafeRawPointer?, _ callID: UInt32, _ message: UnsafePointer<CChar>?
) {
  enter(else: ()) {
    let tool = try ToolObject.from(tool).tool
    let message = message.map { String(cString: $0) } ?? "it failed"
    tool.finish(callID, .failure(ReportedToolError(message: message, callID: callID)))
  }
}

@_cdecl("FMBridgedToolFinishCallWithPrompt")
public func fmBridgedToolFinishCallWithPrompt(
  _ tool: UnsafeRawPointer?, _ callID: UInt32, _ prompt: UnsafeRawPointer?
) {
  enter(else: ()) {
    let tool = try ToolObject.from(tool).tool
    tool.finish(callID, Result { try PromptObject.from(prompt).snapshot() })
  }
}
