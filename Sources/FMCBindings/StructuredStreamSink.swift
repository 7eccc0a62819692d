import FMCore
import Synchronization

/// Snapshots of a guided answer for a C caller, then the whole, then nothing for the end.
///
/// Updates come on the I/O thread, which neither parsing nor a callback may hold up: a worker thread
/// parses the newest text there is and calls the callback. One that is slow gets fewer snapshots.
final class StructuredStreamSink: AnswerSink {
  private struct State {
    var text = ""
    var hasNews = false
    var isDelivering = false
    var drained: CheckedContinuation<Void, Never>?
  }

  private let callback: StructuredCallback
  private let userInfo: UserInfo
  private let state = Mutex(State())

  init(callback: @escaping StructuredCallback, userInfo: UserInfo) {
    self.callback = callback
    self.userInfo = userInfo
  }

  func update(_ update: TextUpdate) {
    let starts = state.withLock { state in
      _ = state.text.apply(update)
      state.hasNews = true
      defer { state.isDelivering = true }
      return !state.isDelivering
    }
    if starts { Task { deliver() } }
  }

  private func deliver() {
    while true {
      let (text, drained) = state.withLock {
        state -> (String?, CheckedContinuation<Void, Never>?) in
        if state.hasNews {
          state.hasNews = false
          return (state.text, nil)
        }
        state.isDelivering = false
        defer { state.drained = nil }
        return (nil, state.drained)
      }
      guard let text else {
        drained?.resume()
        return
      }
      if let content = GeneratedContent(unfinishedJSON: text) { call(.success, content) }
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
    case .success(let response):
      call(.success, response.content ?? GeneratedContent(response.text))
      callback(StatusCode.success.rawValue, nil, userInfo.pointer)
    case .failure(let failure):
      let isCancelled = failure.status == .unknown && failure.message == "Operation cancelled"
      call(
        failure.status, GeneratedContent(isCancelled ? "Stream cancelled" : failure.message))
    }
  }

  private func call(_ status: StatusCode, _ content: GeneratedContent) {
    callback(
      status.rawValue, HandleTable.shared.insert(ContentObject(content)), userInfo.pointer)
  }
}
