import Synchronization

/// Measures one request for the log and the recorder, where there is anybody who reads them.
final class RequestObservation: Sendable {
  /// Bytes of an answer that are recorded.
  private static let maxRecorded = 16 << 20

  private struct State {
    var record: RequestRecord
    var response: [UInt8] = []
    var isOver = false
  }

  private let state: Mutex<State>
  private let start = MonotonicTime.now()
  private let request: RequestBody
  private let secrets: Secrets

  private init(_ record: RequestRecord, request: RequestBody, secrets: Secrets) {
    state = Mutex(State(record: record))
    self.request = request
    self.secrets = secrets
  }

  /// nil where nobody reads: then a request costs nothing more.
  static func begin(
    _ record: @autoclosure () throws -> RequestRecord, request: RequestBody,
    secrets: @autoclosure () -> Secrets
  ) rethrows -> RequestObservation? {
    guard RequestLog.shared.isOn || RequestRecorder.shared.isOn else { return nil }
    var record = try record()
    record.requestBytes = request.count
    return RequestObservation(record, request: request, secrets: secrets())
  }

  func note(head: HTTPResponseHead) {
    state.withLock { state in
      state.record.status = head.status
      state.record.secondsToHead = start.secondsUntilNow
    }
  }

  func note(body bytes: UnsafeBufferPointer<UInt8>) {
    let isRecorded = RequestRecorder.shared.isOn
    state.withLock { state in
      state.record.responseBytes += bytes.count
      if isRecorded, state.response.count < Self.maxRecorded {
        state.response.append(contentsOf: bytes)
      }
    }
  }

  func note(_ events: [ChatEvent]) {
    state.withLock { state in
      for event in events {
        switch event {
        case .text, .reasoning, .refusal, .toolCall:
          if state.record.secondsToFirstToken == nil {
            state.record.secondsToFirstToken = start.secondsUntilNow
          }
        case .finish(let reason): state.record.finishReason = reason
        case .usage(let counts): state.record.usage = counts
        }
      }
    }
  }

  /// The request is over; nil = well. What comes later counts for nothing.
  func end(_ failure: (any Error)?, retries: Int = 0) {
    let (record, response) = state.withLock { state -> (RequestRecord?, [UInt8]) in
      if state.isOver { return (nil, []) }
      state.isOver = true
      state.record.secondsToEnd = start.secondsUntilNow
      state.record.retries = retries
      switch failure {
      case nil: break
      case let error as WireError:
        state.record.failure = error.kind.rawValue
        state.record.status = state.record.status ?? error.httpStatus
        // The body of an error is read by others.
        if state.response.isEmpty, let body = error.body {
          state.response = Array(body.utf8)
          state.record.responseBytes = max(state.record.responseBytes, body.utf8.count)
        }
      default: state.record.failure = WireError.Kind.cancelled.rawValue
      }
      defer { state.response = [] }
      return (state.record, state.response)
    }
    guard let record else { return }
    if RequestLog.shared.isOn { RequestLog.shared.emit(record) }
    if RequestRecorder.shared.isOn {
      RequestRecorder.shared.add(
        record, request: request.bytes, response: response, secrets: secrets)
    }
  }

  /// A request that nobody waits for any more was cancelled.
  deinit { end(CancellationError()) }
}
