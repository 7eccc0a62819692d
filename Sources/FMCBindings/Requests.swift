import FMCore
import FMWire
import Synchronization

/// Where the parts of an answer go: callbacks or an event queue. `finish` is called exactly once,
/// last.
protocol AnswerSink: Sendable {
  /// Held while more waits to be delivered than may.
  var flow: AnswerFlow { get }
  /// Called on the I/O thread, for one: it must not block.
  func update(_ update: TextUpdate)
  /// Returns when everything is delivered.
  func finish(_ result: Result<CompletedResponse, Failure>) async
}

final class SessionObject: LiveObject, @unchecked Sendable {
  let session: LanguageModelSession
  /// Kept for as long as the session lives, as the reference promises.
  private let model: ModelObject
  private let tools: [ToolObject]

  init(model: ModelObject, instructions: String?, tools: [ToolObject]) {
    self.model = model
    self.tools = tools
    session = model.makeSession(tools: tools.map(\.tool), instructions: instructions)
    super.init(.session)
  }

  init(model: ModelObject, transcript: Transcript, tools: [ToolObject]) {
    self.model = model
    self.tools = tools
    session = model.makeSession(tools: tools.map(\.tool), transcript: transcript)
    super.init(.session)
  }

  static func from(_ handle: UnsafeRawPointer?) throws(Failure) -> SessionObject {
    try HandleTable.shared.object(handle, as: SessionObject.self, "session")
  }
}

/// A request under way, for FMTaskCancel.
final class TaskObject: LiveObject, @unchecked Sendable {
  private let request: RunningRequest
  private let answer: AnswerBox

  init(_ request: RunningRequest, answer: AnswerBox = AnswerBox()) {
    self.request = request
    self.answer = answer
    super.init(.task)
  }

  /// What is known about the answer; nil until it is complete, and for a failed request.
  var response: CompletedResponse? { answer.response.withLock { $0 } }

  func cancel() { request.cancel() }

  func setPaused(_ isPaused: Bool) {
    if isPaused { request.flow?.hold(.caller) } else { request.flow?.release(.caller) }
  }
}

/// What runs, and how to stop it.
struct RunningRequest: Sendable {
  let task: Task<Void, Never>
  var flow: AnswerFlow?
  var reservation: LanguageModelSession.Reservation?

  /// The session is free when this returns; the end is still delivered.
  func cancel() {
    task.cancel()
    reservation?.cancel()
  }
}

/// The complete answer of a task, put there before its callback is called.
final class AnswerBox: Sendable {
  let response = Mutex<CompletedResponse?>(nil)
}

/// Keeps the answer for those who hold the task, then passes it on.
private struct KeepingSink<Sink: AnswerSink>: AnswerSink {
  let sink: Sink
  let answer: AnswerBox
  var flow: AnswerFlow { sink.flow }

  func update(_ update: TextUpdate) { sink.update(update) }

  func finish(_ result: Result<CompletedResponse, Failure>) async {
    if case .success(let response) = result { answer.response.withLock { $0 = response } }
    await sink.finish(result)
  }
}

/// A request with everything it needs, captured when the C call was made.
struct PendingRequest: Sendable {
  let object: SessionObject
  let request: LanguageModelSession.Request

  init(
    _ session: SessionObject, prompt: UnsafeRawPointer?, schema: GenerationSchema?,
    optionsJSON: String?
  ) throws {
    object = session
    let prompt = try PromptObject.from(prompt).snapshot()
    request = LanguageModelSession.Request(
      prompt: prompt, schema: schema, options: try GenerationOptions(json: optionsJSON),
      contextOptions: try ContextOptions(json: optionsJSON))
  }

  /// Starts the request, or delivers why it cannot start. The session counts as responding when
  /// this returns.
  static func start(
    _ pending: Result<PendingRequest, any Error>, into sink: any AnswerSink,
    address: QueueAddress? = nil
  ) -> RunningRequest {
    let reserved = Result { () throws -> (PendingRequest, LanguageModelSession.Reservation) in
      let pending = try pending.get()
      return (pending, try pending.object.session.reserve())
    }
    let task = RunningRequests.shared.start { isShutDown in
      do {
        let (pending, reservation) = try reserved.get()
        guard !isShutDown else {
          reservation.end()
          throw shutDownFailure
        }
        let outcome = await QueueAddress.$current.withValue(address) {
          await pending.object.session.perform(pending.request, reservation, flow: sink.flow) {
            sink.update($0)
          }
        }
        await sink.finish(
          outcome.result.mapError { Failure($0, partialText: outcome.partialText) })
      } catch {
        await sink.finish(.failure(Failure(error)))
      }
    }
    return RunningRequest(task: task, flow: sink.flow, reservation: try? reserved.get().1)
  }
}

let shutDownFailure = Failure(
  .shutDown, "The library was shut down; start no requests after FMShutdown.")

// MARK: - Callbacks

public typealias ResponseCallback =
  @convention(c) @Sendable (Int32, UnsafePointer<CChar>?, Int, UnsafeMutableRawPointer?) -> Void
public typealias StructuredCallback =
  @convention(c) @Sendable (Int32, UnsafeRawPointer?, UnsafeMutableRawPointer?) -> Void

/// The caller's pointer, passed through untouched.
struct UserInfo: @unchecked Sendable {
  let pointer: UnsafeMutableRawPointer?
}

private func call(
  _ callback: ResponseCallback, _ status: StatusCode, _ text: String, _ userInfo: UserInfo
) {
  var text = text
  text.withUTF8 { utf8 in
    // A copy with the NUL that C readers look for; `length` counts without it.
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: utf8.count + 1) { buffer in
      for (index, byte) in utf8.enumerated() { buffer[index] = CChar(bitPattern: byte) }
      buffer[utf8.count] = 0
      callback(status.rawValue, buffer.baseAddress, utf8.count, userInfo.pointer)
    }
  }
}

private struct ResponseSink: AnswerSink {
  let callback: ResponseCallback
  let userInfo: UserInfo
  let flow = AnswerFlow()

  func update(_ update: TextUpdate) {}

  func finish(_ result: Result<CompletedResponse, Failure>) {
    switch result {
    case .success(let response): call(callback, .success, response.text, userInfo)
    case .failure(let failure): call(callback, failure.status, failure.message, userInfo)
    }
  }
}

private struct StructuredSink: AnswerSink {
  let callback: StructuredCallback
  let userInfo: UserInfo
  let flow = AnswerFlow()

  func update(_ update: TextUpdate) {}

  func finish(_ result: Result<CompletedResponse, Failure>) {
    let (status, content): (StatusCode, GeneratedContent) =
      switch result {
      case .success(let response):
        (.success, response.content ?? GeneratedContent(response.text))
      case .failure(let failure): (failure.status, GeneratedContent(failure.message))
      }
    callback(
      status.rawValue, HandleTable.shared.insert(ContentObject(content)), userInfo.pointer)
  }
}

@_cdecl("FMLanguageModelSessionCreateDefault")
public func fmLanguageModelSessionCreateDefault() -> UnsafeRawPointer? {
  fmLanguageModelSessionCreateFromSystemLanguageModel(nil, nil, nil, 0)
}

@_cdecl("FMLanguageModelSessionCreateFromSystemLanguageModel")
public func fmLanguageModelSessionCreateFromSystemLanguageModel(
  _ model: UnsafeRawPointer?, _ instructions: UnsafePointer<CChar>?,
  _ tools: UnsafeMutablePointer<UnsafeRawPointer?>?, _ toolCount: Int32
) -> UnsafeRawPointer? {
  enter(else: nil) {
    HandleTable.shared.insert(
      SessionObject(
        model: try ModelObject.optional(model),
        instructions: try nonEmptyText(instructions, "instructions"),
        tools: try ToolObject.list(tools, toolCount)))
  }
}

@_cdecl("FMLanguageModelSessionIsResponding")
public func fmLanguageModelSessionIsResponding(_ session: UnsafeRawPointer?) -> Bool {
  enter(else: false) { try SessionObject.from(session).session.isResponding }
}

@_cdecl("FMLanguageModelSessionReset")
public func fmLanguageModelSessionReset(_ session: UnsafeRawPointer?) {
  enter(else: ()) { _ = try SessionObject.from(session) }
}

@_cdecl("FMLanguageModelSessionCopyUsageJSON")
public func fmLanguageModelSessionCopyUsageJSON(_ session: UnsafeRawPointer?)
  -> UnsafeMutablePointer<CChar>?
{
  enter(else: nil) { copyString(try SessionObject.from(session).session.usageJSON) }
}

@_cdecl("FMLanguageModelSessionRespond")
public func fmLanguageModelSessionRespond(
  _ session: UnsafeRawPointer?, _ prompt: UnsafeRawPointer?, _ optionsJSON: UnsafePointer<CChar>?,
  _ userInfo: UnsafeMutableRawPointer?, _ callback: ResponseCallback?
) -> UnsafeRawPointer? {
  enterCalling(
    callback,
    refuse: { call($0, usedAfterFork.status, usedAfterFork.message, UserInfo(pointer: userInfo)) },
    else: nil,
    body: { callback in
      startTask(
        session, prompt, schema: .none, optionsJSON,
        into: ResponseSink(callback: callback, userInfo: UserInfo(pointer: userInfo)))
    })
}

@_cdecl("FMLanguageModelSessionRespondWithSchemaFromJSON")
public func fmLanguageModelSessionRespondWithSchemaFromJSON(
  _ session: UnsafeRawPointer?, _ prompt: UnsafeRawPointer?, _ schemaJSON: UnsafePointer<CChar>?,
  _ optionsJSON: UnsafePointer<CChar>?, _ userInfo: UnsafeMutableRawPointer?,
  _ callback: StructuredCallback?
) -> UnsafeRawPointer? {
  enterCalling(
    callback, refuse: { $0(usedAfterFork.status.rawValue, nil, userInfo) }, else: nil,
    body: { callback in
      startTask(
        session, prompt, schema: .required(schemaJSON), optionsJSON,
        into: StructuredSink(callback: callback, userInfo: UserInfo(pointer: userInfo)))
    })
}

@_cdecl("FMLanguageModelSessionRespondWithSchema")
public func fmLanguageModelSessionRespondWithSchema(
  _ session: UnsafeRawPointer?, _ prompt: UnsafeRawPointer?, _ schema: UnsafeRawPointer?,
  _ optionsJSON: UnsafePointer<CChar>?, _ userInfo: UnsafeMutableRawPointer?,
  _ callback: StructuredCallback?
) -> UnsafeRawPointer? {
  enterCalling(
    callback, refuse: { $0(usedAfterFork.status.rawValue, nil, userInfo) }, else: nil,
    body: { callback in
      startTask(
        session, prompt, schema: .reference(schema), optionsJSON,
        into: StructuredSink(callback: callback, userInfo: UserInfo(pointer: userInfo)))
    })
}

/// `enter` for a function whose caller waits for a callback. In a child of fork() there is no worker
/// thread to call it on, so it is called here: a caller who waits must not wait for ever.
func enterCalling<Callback, Result>(
  _ callback: Callback?, refuse: (Callback) -> Void, else fallback: Result,
  body: (Callback) throws -> Result
) -> Result {
  enter(else: fallback) {
    guard let callback else { throw Failure(.invalidArgument, "The callback is NULL.") }
    return try body(callback)
  } onFork: {
    if let callback { refuse(callback) }
  }
}

private enum SchemaArgument {
  case none
  case optional(UnsafePointer<CChar>?)
  case required(UnsafePointer<CChar>?)
  case reference(UnsafeRawPointer?)

  var schema: GenerationSchema? {
    get throws {
      switch self {
      case .none: nil
      case .optional(let pointer):
        try nonEmptyText(pointer, "schema").map { try GenerationSchema(json: $0) }
      case .required(let pointer):
        try GenerationSchema(json: try requiredText(pointer, "schema"))
      case .reference(let reference): try SchemaObject.from(reference).schema()
      }
    }
  }
}

/// Whatever is wrong with the arguments comes through the sink, so that it is called exactly once
/// for every request.
private func startTask(
  _ session: UnsafeRawPointer?, _ prompt: UnsafeRawPointer?, schema: SchemaArgument,
  _ optionsJSON: UnsafePointer<CChar>?, into sink: some AnswerSink, address: QueueAddress? = nil
) -> UnsafeRawPointer {
  let pending = Result {
    try PendingRequest(
      try SessionObject.from(session), prompt: prompt, schema: try schema.schema,
      optionsJSON: try nonEmptyText(optionsJSON, "options text", status: .unknown))
  }
  let answer = AnswerBox()
  let task = PendingRequest.start(
    pending, into: KeepingSink(sink: sink, answer: answer), address: address)
  return HandleTable.shared.insert(TaskObject(task, answer: answer))
}

@_cdecl("FMTaskCopyResponseJSON")
public func fmTaskCopyResponseJSON(_ task: UnsafeRawPointer?) -> UnsafeMutablePointer<CChar>? {
  enter(else: nil) {
    let task = try HandleTable.shared.object(task, as: TaskObject.self, "task")
    return task.response.map { copyString($0.json.jsonText) }
  }
}

@_cdecl("FMTaskCancel")
public func fmTaskCancel(_ task: UnsafeRawPointer?) {
  enter(else: ()) {
    try HandleTable.shared.object(task, as: TaskObject.self, "task").cancel()
  }
}

@_cdecl("FMTaskSetPaused")
public func fmTaskSetPaused(_ task: UnsafeRawPointer?, _ isPaused: Bool) {
  enter(else: ()) {
    try HandleTable.shared.object(task, as: TaskObject.self, "task").setPaused(isPaused)
  }
}

// MARK: - Streams

/// A stream that starts when it is iterated and is cancelled when its last reference goes.
final class StreamObject: LiveObject, @unchecked Sendable {
  private enum State {
    case ready(PendingRequest)
    case started(RunningRequest)
  }

  private let state: Mutex<State>

  init(_ pending: PendingRequest) {
    state = Mutex(.ready(pending))
    super.init(.responseStream)
  }

  func start(into sink: any AnswerSink) {
    state.withLock { state in
      switch state {
      case .ready(let pending):
        state = .started(PendingRequest.start(.success(pending), into: sink))
      case .started:
        _ = PendingRequest.start(
          .failure(
            Failure(.invalidArgument, "A stream is iterated once; make another for more.")),
          into: sink)
      }
    }
  }

  deinit {
    state.withLock { if case .started(let request) = $0 { request.cancel() } }
  }
}

@_cdecl("FMLanguageModelSessionStreamResponse")
public func fmLanguageModelSessionStreamResponse(
  _ session: UnsafeRawPointer?, _ prompt: UnsafeRawPointer?, _ optionsJSON: UnsafePointer<CChar>?
) -> UnsafeRawPointer? {
  enter(else: nil) {
    HandleTable.shared.insert(
      StreamObject(
        try PendingRequest(
          try SessionObject.from(session), prompt: prompt, schema: nil,
          optionsJSON: try nonEmptyText(optionsJSON, "options text", status: .unknown))))
  }
}

@_cdecl("FMLanguageModelSessionResponseStreamIterate")
public func fmLanguageModelSessionResponseStreamIterate(
  _ stream: UnsafeRawPointer?, _ userInfo: UnsafeMutableRawPointer?, _ callback: ResponseCallback?
) {
  enterCalling(
    callback,
    refuse: { call($0, usedAfterFork.status, usedAfterFork.message, UserInfo(pointer: userInfo)) },
    else: (),
    body: { callback in
      try start(
        stream, into: StreamSink(callback: callback, userInfo: UserInfo(pointer: userInfo)))
    })
}

@_cdecl("FMLanguageModelSessionStreamResponseWithSchema")
public func fmLanguageModelSessionStreamResponseWithSchema(
  _ session: UnsafeRawPointer?, _ prompt: UnsafeRawPointer?, _ schema: UnsafeRawPointer?,
  _ optionsJSON: UnsafePointer<CChar>?, _ code: ErrorCode, _ description: ErrorDescription
) -> UnsafeRawPointer? {
  enter(code, description, else: nil) {
    HandleTable.shared.insert(
      StreamObject(
        try PendingRequest(
          try SessionObject.from(session), prompt: prompt,
          schema: try SchemaArgument.reference(schema).schema,
          optionsJSON: try nonEmptyText(optionsJSON, "options text", status: .unknown))))
  }
}

@_cdecl("FMLanguageModelSessionResponseStreamIterateStructured")
public func fmLanguageModelSessionResponseStreamIterateStructured(
  _ stream: UnsafeRawPointer?, _ userInfo: UnsafeMutableRawPointer?,
  _ callback: StructuredCallback?
) {
  enterCalling(
    callback, refuse: { $0(usedAfterFork.status.rawValue, nil, userInfo) }, else: (),
    body: { callback in
      try start(
        stream,
        into: StructuredStreamSink(callback: callback, userInfo: UserInfo(pointer: userInfo)))
    })
}

/// Starts a stream. A reference that is none is told to the sink as well, which waits for an end.
private func start(_ stream: UnsafeRawPointer?, into sink: some AnswerSink) throws {
  do {
    let object = try HandleTable.shared.object(stream, as: StreamObject.self, "stream")
    object.start(into: sink)
  } catch {
    _ = PendingRequest.start(.failure(error), into: sink)
    throw error
  }
}

// MARK: - Image references

@_cdecl("FMLanguageModelSessionCopyAttachmentJSON")
public func fmLanguageModelSessionCopyAttachmentJSON(
  _ session: UnsafeRawPointer?, _ label: UnsafePointer<CChar>?, _ code: ErrorCode,
  _ description: ErrorDescription
) -> UnsafeMutablePointer<CChar>? {
  enter(code, description, else: nil) {
    let transcript = try SessionObject.from(session).session.transcript
    let reference = ImageReference(attachmentLabel: try requiredText(label, "label"))
    return copyString(try reference.attachment(in: transcript).descriptionJSON(label: reference))
  }
}

// MARK: - Event queues

@_cdecl("FMLanguageModelSessionRespondOnQueue")
public func fmLanguageModelSessionRespondOnQueue(
  _ session: UnsafeRawPointer?, _ prompt: UnsafeRawPointer?, _ schemaJSON: UnsafePointer<CChar>?,
  _ optionsJSON: UnsafePointer<CChar>?, _ queue: UnsafeRawPointer?, _ token: UInt64,
  _ code: ErrorCode, _ description: ErrorDescription
) -> UnsafeRawPointer? {
  startOnQueue(
    session, prompt, schemaJSON, optionsJSON, queue, token, streams: false, code, description)
}

@_cdecl("FMLanguageModelSessionStreamOnQueue")
public func fmLanguageModelSessionStreamOnQueue(
  _ session: UnsafeRawPointer?, _ prompt: UnsafeRawPointer?, _ schemaJSON: UnsafePointer<CChar>?,
  _ optionsJSON: UnsafePointer<CChar>?, _ queue: UnsafeRawPointer?, _ token: UInt64,
  _ code: ErrorCode, _ description: ErrorDescription
) -> UnsafeRawPointer? {
  startOnQueue(
    session, prompt, schemaJSON, optionsJSON, queue, token, streams: true, code, description)
}

private func startOnQueue(
  _ session: UnsafeRawPointer?, _ prompt: UnsafeRawPointer?, _ schemaJSON: UnsafePointer<CChar>?,
  _ optionsJSON: UnsafePointer<CChar>?, _ queue: UnsafeRawPointer?, _ token: UInt64,
  streams: Bool, _ code: ErrorCode, _ description: ErrorDescription
) -> UnsafeRawPointer? {
  enter(code, description, else: nil) {
    // Without these there is nothing that an event could be sent about, or to.
    _ = try SessionObject.from(session)
    _ = try PromptObject.from(prompt)
    let queue = try HandleTable.shared.object(queue, as: EventQueueObject.self, "event queue")
    return startTask(
      session, prompt, schema: .optional(schemaJSON), optionsJSON,
      into: QueueSink(
        queue: queue, token: token, streams: streams, isStructured: schemaJSON != nil),
      address: QueueAddress(queue: queue, token: token))
  }
}
