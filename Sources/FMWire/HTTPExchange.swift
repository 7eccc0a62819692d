import Synchronization

/// One request and its response, between the I/O thread that moves the bytes and the task that
/// reads them.
///
/// Each waiting task is resumed exactly once: whoever takes its continuation out of the state
/// resumes it, after the lock is left.
final class HTTPExchange: Sendable {
  /// Bytes of a body that may wait for the reader; at least one network read fits on top.
  static let highWater = 256 << 10

  let request: HTTPRequest
  let target: HTTPTarget

  private enum End {
    case complete
    case failed(WireError)
    case cancelled
  }

  private struct State {
    var head: HTTPResponseHead?
    var headWaiter: CheckedContinuation<HTTPResponseHead, any Error>?
    var buffer: [UInt8] = []
    var reader: CheckedContinuation<[UInt8]?, any Error>?
    var end: End?
    /// The connection is not read because the buffer is full.
    var isPaused = false
    /// The reader is gone; what comes is thrown away.
    var isDraining = false
    /// Takes the body in place of the buffer.
    var sink: Sink?
    /// How the sink's owner holds up the body.
    var flow: AnswerFlow?
    /// A sink is coming that first gets what is in the buffer.
    var awaitsSink = false
  }

  /// Gets the body's bytes on the I/O thread, as they come; must not block.
  typealias Sink = @Sendable (UnsafeBufferPointer<UInt8>) -> SinkResult

  enum SinkResult {
    case more
    /// Nothing that follows matters; the connection may serve the next request.
    case complete
    /// The connection is to be closed.
    case stop
  }

  private let state = Mutex(State())

  init(request: HTTPRequest, target: HTTPTarget) {
    self.request = request
    self.target = target
  }

  // MARK: - The reader's side

  /// Starts the exchange and waits for the response's head.
  func start() async throws -> HTTPResponseHead {
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let isCancelled = state.withLock { state -> Bool in
          if state.end != nil { return true }
          state.headWaiter = continuation
          return false
        }
        if isCancelled {
          continuation.resume(throwing: CancellationError())
        } else {
          IOThread.shared.perform { HTTPDriver.shared.start(self) }
        }
      }
    } onCancel: {
      cancel()
    }
  }

  /// What came since the last call; nil at the end.
  func nextChunk() async throws -> [UInt8]? {
    if Task.isCancelled {
      cancel()
      throw CancellationError()
    }
    switch take(orWaitWith: nil) {
    case .chunk(let chunk): return chunk
    case .end(let end): return try Self.result(end)
    case .nothing, .busy: break
    }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        switch take(orWaitWith: continuation) {
        case .nothing: break
        case .chunk(let chunk): continuation.resume(returning: chunk)
        case .end(let end): continuation.resume(with: Result { try Self.result(end) })
        case .busy:
          continuation.resume(
            throwing: WireError(
              kind: .cancelled, message: "two tasks read one response at once",
              url: target.shownURL))
        }
      }
    } onCancel: {
      cancel()
    }
  }

  /// Hands what is left of the body to `sink`, without a task switch a chunk, and returns when it is
  /// over or `sink` has had enough. While `flow` is held, the connection is not read. Throws as
  /// `nextChunk`.
  func pour(into sink: @escaping Sink, flow: AnswerFlow?) async throws {
    _ = try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        let isFree = state.withLock { state in
          guard state.reader == nil else { return false }
          state.reader = continuation
          state.awaitsSink = true
          state.flow = flow
          return true
        }
        guard isFree else {
          continuation.resume(
            throwing: WireError(
              kind: .cancelled, message: "two tasks read one response at once",
              url: target.shownURL))
          return
        }
        // From there on, so that what waits comes before what is still to come.
        IOThread.shared.perform { self.beginPouring(into: sink) }
      }
    } onCancel: {
      cancel()
    }
  }

  /// Ends the exchange and closes its connection, unless it is over already.
  func cancel() {
    let (isRunning, headWaiter, reader) = state.withLock { state in
      let isRunning = state.end == nil
      if isRunning {
        state.end = .cancelled
        state.buffer = []
        state.sink = nil
      }
      return (isRunning, Self.take(&state.headWaiter), Self.take(&state.reader))
    }
    headWaiter?.resume(throwing: CancellationError())
    reader?.resume(throwing: CancellationError())
    if isRunning { IOThread.shared.perform { HTTPDriver.shared.abandon(self) } }
  }

  /// Throws the rest of the body away. The driver ends the exchange when the rest does not come
  /// soon.
  func drain() {
    let isRunning = state.withLock { state in
      state.isDraining = true
      state.buffer = []
      state.isPaused = false
      return state.end == nil
    }
    if isRunning { IOThread.shared.perform { HTTPDriver.shared.drain(self) } }
  }

  private enum Taken {
    case chunk([UInt8])
    case end(End)
    /// Nothing is there; the continuation, if any, waits.
    case nothing
    case busy
  }

  private func take(orWaitWith reader: CheckedContinuation<[UInt8]?, any Error>?) -> Taken {
    let (taken, wasPaused) = state.withLock { state -> (Taken, Bool) in
      if case .cancelled? = state.end { return (.end(.cancelled), false) }
      if state.reader != nil { return (.busy, false) }
      if !state.buffer.isEmpty {
        let chunk = state.buffer
        state.buffer = []
        let wasPaused = state.isPaused
        state.isPaused = false
        return (.chunk(chunk), wasPaused)
      }
      if let end = state.end { return (.end(end), false) }
      state.reader = reader
      return (.nothing, false)
    }
    if wasPaused { IOThread.shared.perform { HTTPDriver.shared.resume(self) } }
    return taken
  }

  private static func result(_ end: End) throws -> [UInt8]? {
    switch end {
    case .complete: return nil
    case .failed(let error): throw error
    case .cancelled: throw CancellationError()
    }
  }

  private static func take<Value>(_ value: inout Value?) -> Value? {
    defer { value = nil }
    return value
  }

  // MARK: - The I/O thread's side

  /// Whether nobody waits for this exchange any more.
  var isOver: Bool { state.withLock { $0.end != nil } }

  func receive(_ head: HTTPResponseHead) {
    let waiter = state.withLock { state in
      state.head = head
      return Self.take(&state.headWaiter)
    }
    waiter?.resume(returning: head)
  }

  private func beginPouring(into sink: @escaping Sink) {
    let (waiting, end, wasPaused) = state.withLock { state -> ([UInt8], End?, Bool) in
      state.awaitsSink = false
      // Cancelled in between: its reader is resumed already.
      guard state.reader != nil else { return ([], nil, false) }
      state.sink = sink
      defer {
        state.buffer = []
        state.isPaused = false
      }
      return (state.buffer, state.end, state.isPaused)
    }
    if !waiting.isEmpty { waiting.withUnsafeBufferPointer { pour($0, into: sink) } }
    if let end {
      let reader = state.withLock { Self.take(&$0.reader) }
      reader?.resume(with: Result { try Self.result(end) })
    } else if wasPaused {
      HTTPDriver.shared.resume(self)
    }
  }

  private func pour(_ bytes: UnsafeBufferPointer<UInt8>, into sink: Sink) {
    let result = sink(bytes)
    if case .more = result { return }
    let reader = state.withLock { state in
      state.isDraining = true
      state.sink = nil
      return Self.take(&state.reader)
    }
    reader?.resume(returning: nil)
    switch result {
    case .more: break
    // Not from here: this may be a callback of curl's.
    case .complete: drain()
    case .stop: cancel()
    }
  }

  /// False = the buffer is full: pause, and offer the same bytes again after `resume`.
  func receive(_ bytes: UnsafeRawBufferPointer) -> Bool {
    let (isAccepted, reader, sink, flow) = state.withLock {
      state -> (Bool, CheckedContinuation<[UInt8]?, any Error>?, Sink?, AnswerFlow?) in
      if state.isDraining || state.end != nil { return (true, nil, nil, nil) }
      if let sink = state.sink { return (true, nil, sink, state.flow) }
      // One whose sink is coming waits for the end.
      if !state.awaitsSink, let reader = Self.take(&state.reader) {
        return (true, reader, nil, nil)
      }
      if state.buffer.count >= Self.highWater {
        state.isPaused = true
        return (false, nil, nil, nil)
      }
      state.buffer.append(contentsOf: bytes)
      return (true, nil, nil, nil)
    }
    if let sink {
      if let flow, flow.isHeld {
        let isHeld = flow.stops { [weak self] in
          guard let self else { return }
          IOThread.shared.perform { HTTPDriver.shared.resume(self) }
        }
        if isHeld { return false }
      }
      pour(bytes.assumingMemoryBound(to: UInt8.self), into: sink)
      return true
    }
    reader?.resume(returning: Array(bytes))
    return isAccepted
  }

  /// The exchange is over; nil = the response is complete, its head was received.
  func end(_ failure: WireError?) {
    let (headWaiter, reader) = state.withLock {
      state -> (
        CheckedContinuation<HTTPResponseHead, any Error>?, CheckedContinuation<[UInt8]?, any Error>?
      ) in
      if state.end == nil { state.end = failure.map(End.failed) ?? .complete }
      state.sink = nil
      // It is resumed when its sink has got what is in the buffer.
      if state.awaitsSink { return (Self.take(&state.headWaiter), nil) }
      return (Self.take(&state.headWaiter), Self.take(&state.reader))
    }
    if let failure {
      headWaiter?.resume(throwing: failure)
      reader?.resume(throwing: failure)
    } else {
      reader?.resume(returning: nil)
    }
  }
}
