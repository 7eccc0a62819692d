import CLinux
import FMCore
import FMWire
import Glibc
import Synchronization

/// Events for a host whose event loop watches a descriptor; see OpenFM.h.
final class EventQueueObject: LiveObject, @unchecked Sendable {
  /// FMEventKind of OpenFM.h.
  enum Kind: UInt32 {
    case delta = 1
    case replace
    case content
    case metadata
    case end
    case toolCall
    case toolCancelled
  }

  fileprivate struct Event {
    var kind: Kind
    var token: UInt64
    var status: StatusCode
    var payload: [UInt8]
    /// Of the answer that it is a part of.
    var flow: AnswerFlow?
  }

  private struct State {
    var events: [Event] = []
    /// Read position in `events`, so that taking one does not move the rest.
    var head = 0
    /// The tokens that deltas wait of.
    var waiting: [UInt64: Waiting] = [:]

    /// The oldest delta of its token was taken.
    mutating func tookDelta(_ event: Event) {
      guard var left = waiting[event.token] else { return }
      let wasTooMuch = left.byteCount > AnswerFlow.highWater
      left.count -= 1
      left.byteCount -= event.payload.count
      waiting[event.token] = left.count > 0 ? left : nil
      if wasTooMuch, left.byteCount <= AnswerFlow.highWater { event.flow?.release(.delivery) }
    }
  }

  /// The deltas of one token that wait.
  private struct Waiting {
    var count = 0
    /// Of their texts.
    var byteCount = 0
    /// The last one, unless something else of the token came after it.
    var last: Int?
  }

  /// Deltas of a token that wait each by itself; further ones are joined to the last, as their reader
  /// lags behind.
  private static let mostDeltas = 64

  static let headerSize = 24

  let descriptor: Int32
  private let state = Mutex(State())

  init() throws(Failure) {
    descriptor = eventfd(0, Int32(EFD_CLOEXEC) | Int32(EFD_NONBLOCK))
    super.init(.eventQueue)
    guard descriptor >= 0 else {
      throw Failure(
        .unknown, "No descriptor for an event queue: \(String(cString: strerror(errno))).")
    }
  }

  deinit {
    if descriptor >= 0 { close(descriptor) }
  }

  func put(
    _ kind: Kind, token: UInt64, status: StatusCode = .success, flow: AnswerFlow? = nil,
    _ payload: some Collection<UInt8>
  ) {
    let isFirst = state.withLock { state -> Bool in
      if kind == .delta {
        var waiting = state.waiting[token] ?? Waiting()
        let last = waiting.count < Self.mostDeltas ? nil : waiting.last
        waiting.byteCount += payload.count
        if last == nil {
          waiting.count += 1
          waiting.last = state.events.count
        }
        state.waiting[token] = waiting
        // A reader who lags behind holds up the server, not the memory.
        if waiting.byteCount > AnswerFlow.highWater { flow?.hold(.delivery) }
        if let last {
          state.events[last].payload += payload
          return false
        }
      } else {
        state.waiting[token]?.last = nil
      }
      let wasEmpty = state.head == state.events.count
      state.events.append(
        Event(kind: kind, token: token, status: status, payload: Array(payload), flow: flow))
      return wasEmpty
    }
    // Not under the lock, for which the reader that this wakes would have to wait. It may have come by
    // itself in between: then it finds nothing.
    if isFirst { IOThread.shared.afterThisTurn { [self] in _ = eventfd_write(descriptor, 1) } }
  }

  /// Moves whole events into the buffer. `needed` is the size of the first when it does not fit.
  func drain(into buffer: UnsafeMutableRawBufferPointer) -> (written: Int, needed: Int) {
    state.withLock { state in
      var written = 0
      while state.head < state.events.count {
        let event = state.events[state.head]
        let size = (Self.headerSize + event.payload.count + 7) & ~7
        guard size <= buffer.count - written else {
          return (written, written == 0 ? size : 0)
        }
        event.write(to: UnsafeMutableRawBufferPointer(rebasing: buffer[written..<written + size]))
        written += size
        if event.kind == .delta { state.tookDelta(event) }
        state.events[state.head].payload = []
        state.head += 1
      }
      state.events.removeAll(keepingCapacity: state.events.count < 1024)
      state.head = 0
      var count: eventfd_t = 0
      eventfd_read(descriptor, &count)
      return (written, 0)
    }
  }
}

extension EventQueueObject.Event {
  fileprivate func write(to buffer: UnsafeMutableRawBufferPointer) {
    buffer.storeBytes(of: UInt32(buffer.count), as: UInt32.self)
    buffer.storeBytes(of: kind.rawValue, toByteOffset: 4, as: UInt32.self)
    buffer.storeBytes(of: token, toByteOffset: 8, as: UInt64.self)
    buffer.storeBytes(of: status.rawValue, toByteOffset: 16, as: Int32.self)
    buffer.storeBytes(of: UInt32(payload.count), toByteOffset: 20, as: UInt32.self)
    let body = UnsafeMutableRawBufferPointer(rebasing: buffer[EventQueueObject.headerSize...])
    body.copyBytes(from: payload)
    for index in payload.count..<body.count { body[index] = 0 }
  }
}

/// Sends the parts of one answer to a queue.
struct QueueSink: AnswerSink {
  let queue: EventQueueObject
  let token: UInt64
  let streams: Bool
  let isStructured: Bool
  let flow = AnswerFlow()

  func update(_ update: TextUpdate) {
    guard streams else { return }
    switch update {
    case .appended(let text): queue.put(.delta, token: token, flow: flow, text.utf8)
    case .replaced(let text): queue.put(.replace, token: token, text.utf8)
    }
  }

  func finish(_ result: Result<CompletedResponse, Failure>) {
    switch result {
    case .success(let response):
      if !streams || isStructured {
        let content = response.content?.jsonString ?? response.text
        queue.put(.content, token: token, content.utf8)
      }
      queue.put(.metadata, token: token, response.json.jsonText.utf8)
      queue.put(.end, token: token, [])
    case .failure(let failure):
      queue.put(.end, token: token, status: failure.status, failure.json.utf8)
    }
  }
}

@_cdecl("FMEventQueueCreate")
public func fmEventQueueCreate() -> UnsafeRawPointer? {
  enter(else: nil) { HandleTable.shared.insert(try EventQueueObject()) }
}

@_cdecl("FMEventQueueGetFileDescriptor")
public func fmEventQueueGetFileDescriptor(_ queue: UnsafeRawPointer?) -> Int32 {
  enter(else: -1) {
    try HandleTable.shared.object(queue, as: EventQueueObject.self, "event queue").descriptor
  }
}

@_cdecl("FMEventQueueDrain")
public func fmEventQueueDrain(
  _ queue: UnsafeRawPointer?, _ buffer: UnsafeMutableRawPointer?, _ capacity: Int,
  _ needed: UnsafeMutablePointer<Int>?
) -> Int {
  needed?.pointee = 0
  return enter(else: 0) {
    let queue = try HandleTable.shared.object(queue, as: EventQueueObject.self, "event queue")
    guard let buffer else { throw Failure(.invalidArgument, "The buffer is NULL.") }
    let result = queue.drain(
      into: UnsafeMutableRawBufferPointer(start: buffer, count: max(0, capacity)))
    needed?.pointee = result.needed
    return result.written
  }
}
