import FMCore
import Synchronization

/// Snapshots for a C caller, then an empty one for the end.
///
/// Updates come on the I/O thread, which a callback must not hold up: they are queued, and a worker
/// thread calls the callback, once for each, for as long as there are any.
final class StreamSink: AnswerSink {
  private struct State {
    var updates: [TextUpdate] = []
    var isDelivering = false
    var drained: CheckedContinuation<Void, Never>?
  }

  /// Only used by the one task that delivers.
  private struct Snapshot: @unchecked Sendable {
    let buffer = SnapshotBuffer()
  }

  private let callback: ResponseCallback
  private let userInfo: UserInfo
  private let snapshot = Snapshot()
  private let state = Mutex(State())

  init(callback: @escaping ResponseCallback, userInfo: UserInfo) {
    self.callback = callback
    self.userInfo = userInfo
  }

  func update(_ update: TextUpdate) {
    let starts = state.withLock { state in
      state.updates.append(update)
      defer { state.isDelivering = true }
      return !state.isDelivering
    }
    if starts { Task { deliver() } }
  }

  /// Calls the callback for everything that has come.
  private func deliver() {
    var updates: [TextUpdate] = []
    while true {
      updates.removeAll(keepingCapacity: true)
      let drained = state.withLock { state -> CheckedContinuation<Void, Never>?? in
        swap(&updates, &state.updates)
        guard updates.isEmpty else { return .none }
        state.isDelivering = false
        defer { state.drained = nil }
        return .some(state.drained)
      }
      if let drained {
        drained?.resume()
        return
      }
      for update in updates {
        switch update {
        case .appended(let text): snapshot.buffer.append(text)
        case .replaced(let text): snapshot.buffer.replace(with: text)
        }
        callback(
          StatusCode.success.rawValue, snapshot.buffer.pointer, snapshot.buffer.count,
          userInfo.pointer)
      }
    }
  }

  func finish(_ result: Result<CompletedResponse, Failure>) async {
    await withCheckedContinuation { continuation in
      let isIdle = state.withLock { state in
        if state.isDelivering { state.drained = continuation }
        return !state.isDelivering
      }
      if isIdle { continuation.resume() }
    }
    switch result {
    case .success: callback(StatusCode.success.rawValue, nil, 0, userInfo.pointer)
    case .failure(let failure):
      let isCancelled = failure.status == .unknown && failure.message == "Operation cancelled"
      snapshot.buffer.replace(with: isCancelled ? "Stream cancelled" : failure.message)
      callback(
        failure.status.rawValue, snapshot.buffer.pointer, snapshot.buffer.count, userInfo.pointer)
    }
  }
}
