import FMWire
import Synchronization

/// Where an executor streams an answer and a session reads it.
///
/// A session takes each event while it is sent. A channel that is iterated instead holds at most
/// `capacity` events. Either way `send` waits while its reader lags behind, so that a slow one bounds
/// the memory. Once nobody reads any more, events are dropped.
public struct LanguageModelExecutorGenerationChannel: AsyncSequence, Sendable {
  public typealias Element = any Event

  public protocol Event: Sendable {
    var kind: EventKind { get }
  }

  public enum EventKind: Sendable, Hashable {
    case response
    case reasoning
    case toolCalls
  }

  /// Something that happened to the response entry.
  public struct ResponseEvent: Event {
    public var kind: EventKind { .response }
    public var entryID: String?
    public var action: Action
  }

  /// Something that happened to the reasoning entry.
  public struct ReasoningEvent: Event {
    public var kind: EventKind { .reasoning }
    public var entryID: String?
    public var action: ReasoningAction
  }

  /// Something that happened to the entry of tool calls.
  public struct ToolCallsEvent: Event {
    public var kind: EventKind { .toolCalls }
    public var entryID: String?
    public var action: ToolCallsAction
  }

  public typealias Metadata = [String: any ConvertibleToGeneratedContent & Sendable]

  public enum Action: Sendable {
    case appendText(String, segmentID: String? = nil, tokenCount: Int)
    case replaceTextSegment(String, segmentID: String? = nil, tokenCount: Int)
    /// Never replaces one, even of the same id: remove that first.
    case addAttachmentSegment(Transcript.AttachmentSegment)
    case removeAttachmentSegment(id: String)
    case updateMetadata(Metadata)
    case updateUsage(input: Usage.Input, output: Usage.Output, metadata: Metadata = [:])
  }

  public enum ReasoningAction: Sendable {
    case appendText(String, segmentID: String? = nil, tokenCount: Int)
    case replaceTextSegment(String, segmentID: String? = nil, tokenCount: Int)
    case updateSignature([UInt8], tokenCount: Int)
    case updateMetadata(Metadata)
    case updateUsage(input: Usage.Input, output: Usage.Output, metadata: Metadata = [:])
  }

  public enum ToolCallsAction: Sendable {
    /// Every event of a call repeats its id and the tool's name.
    case toolCall(id: String, name: String, action: ToolCallAction)
    case removeToolCall(id: String)
    case updateMetadata(Metadata)
    case updateUsage(input: Usage.Input, output: Usage.Output, metadata: Metadata = [:])
  }

  public enum ToolCallAction: Sendable {
    /// More of the arguments' JSON text; an empty piece opens a call.
    case appendArguments(String, tokenCount: Int)
    case updateMetadata(Metadata)
  }

  private let state: ChannelState
  private let relay: EventRelay?
  /// How the reader of the answer holds up a sender that must not wait in `deliver`.
  let flow: AnswerFlow?

  public init() {
    state = ChannelState(capacity: 256)
    relay = nil
    flow = nil
  }

  /// A channel whose events go to a session directly.
  init(_ relay: EventRelay, flow: AnswerFlow? = nil) {
    state = ChannelState(capacity: 256)
    self.relay = relay
    self.flow = flow
  }

  public func send(_ event: some Event) async {
    guard let relay else { return await state.send(event) }
    await flow?.wait()
    relay.send(event)
  }

  /// `send` without waiting, whatever is in the channel: for a sender that must not block.
  func deliver(_ event: some Event) {
    if let relay { relay.send(event) } else { state.deliver(event) }
  }

  /// Ends the channel: the reader gets what is left, then the error or the end.
  func finish(throwing error: (any Error)? = nil) {
    state.finish(error)
  }

  public struct AsyncIterator: AsyncIteratorProtocol {
    fileprivate let state: ChannelState
    public mutating func next() async throws -> (any Event)? {
      try await state.next()
    }
  }

  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(state: state) }
}

extension LanguageModelExecutorGenerationChannel.Event
where Self == LanguageModelExecutorGenerationChannel.ResponseEvent {
  public static func response(
    entryID: String? = nil, action: LanguageModelExecutorGenerationChannel.Action
  ) -> Self {
    Self(entryID: entryID, action: action)
  }
}

extension LanguageModelExecutorGenerationChannel.Event
where Self == LanguageModelExecutorGenerationChannel.ReasoningEvent {
  public static func reasoning(
    entryID: String? = nil, action: LanguageModelExecutorGenerationChannel.ReasoningAction
  ) -> Self {
    Self(entryID: entryID, action: action)
  }
}

extension LanguageModelExecutorGenerationChannel.Event
where Self == LanguageModelExecutorGenerationChannel.ToolCallsEvent {
  public static func toolCalls(
    entryID: String? = nil, action: LanguageModelExecutorGenerationChannel.ToolCallsAction
  ) -> Self {
    Self(entryID: entryID, action: action)
  }
}

/// One reader, any number of writers. Neither waits on a cancelled task: both sides are ended by
/// `finish`, which the session calls on every path.
private final class ChannelState: Sendable {
  typealias Event = any LanguageModelExecutorGenerationChannel.Event

  private struct Storage {
    var events: [Event] = []
    /// Read position in `events`, so that taking one does not move the rest.
    var head = 0
    var reader: CheckedContinuation<Event?, any Error>?
    var writers: [CheckedContinuation<Void, Never>] = []
    var end: Result<Void, any Error>?
    var waiting: Int { events.count - head }
  }

  private let capacity: Int
  private let storage = Mutex(Storage())

  init(capacity: Int) {
    self.capacity = capacity
  }

  /// Whether there is room for more.
  @discardableResult
  func deliver(_ event: Event) -> Bool {
    storage.withLock { storage in
      guard storage.end == nil else { return true }
      if let reader = storage.reader {
        storage.reader = nil
        reader.resume(returning: event)
        return true
      }
      storage.events.append(event)
      return storage.waiting < capacity
    }
  }

  func send(_ event: Event) async {
    guard !deliver(event) else { return }
    await withCheckedContinuation { continuation in
      let resumesNow = storage.withLock { storage in
        if storage.end != nil || storage.waiting < capacity { return true }
        storage.writers.append(continuation)
        return false
      }
      if resumesNow { continuation.resume() }
    }
  }

  func next() async throws -> Event? {
    try await withCheckedThrowingContinuation { continuation in
      storage.withLock { storage in
        if storage.waiting > 0 {
          let event = storage.events[storage.head]
          storage.head += 1
          if storage.head == storage.events.count {
            storage.events.removeAll(keepingCapacity: true)
            storage.head = 0
          }
          if storage.waiting < capacity / 2, !storage.writers.isEmpty {
            for writer in storage.writers { writer.resume() }
            storage.writers.removeAll()
          }
          continuation.resume(returning: event)
        } else if let end = storage.end {
          continuation.resume(with: end.map { nil })
        } else {
          storage.reader = continuation
        }
      }
    }
  }

  func finish(_ error: (any Error)?) {
    storage.withLock { storage in
      guard storage.end == nil else { return }
      let end: Result<Void, any Error> = error.map { .failure($0) } ?? .success(())
      storage.end = end
      storage.reader?.resume(with: end.map { nil })
      storage.reader = nil
      for writer in storage.writers { writer.resume() }
      storage.writers.removeAll()
    }
  }
}
