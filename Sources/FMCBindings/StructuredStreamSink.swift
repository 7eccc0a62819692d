import FMCore
import FMWire
import Synchronization

/// Snapshots of a guided answer for a C caller, then the whole, then nothing for the end.
///
/// Updates come on the I/O thread, which neither parsing nor a callback may hold up: a worker thread
/// parses the newest text there is and calls the callback. One that is slow gets fewer snapshots, and
/// holds up the server where that is not enough.
final class StructuredStreamSink: AnswerSink {
  let flow = AnswerFlow()
  private let callback: StructuredCallback
  private let userInfo: UserInfo
  private let delivery = Delivery(PendingText())
  /// What was told so far; only used by the one task that delivers.
  private let text = Mutex("")

  init(callback: @escaping StructuredCallback, userInfo: UserInfo) {
    self.callback = callback
    self.userInfo = userInfo
  }

  func update(_ update: TextUpdate) {
    delivery.add(
      { pending in
        pending.add(update)
        if pending.count > AnswerFlow.highWater { flow.hold(.delivery) }
      }, deliver: { self.deliver() })
  }

  private func deliver() {
    while let update = delivery.next({ $0.take() }) {
      flow.release(.delivery)
      let text = self.text.withLock { text in
        text.apply(update)
        return text
      }
      if let content = GeneratedContent(unfinishedJSON: text) { call(.success, content) }
    }
  }

  func finish(_ result: Result<CompletedResponse, Failure>) async {
    await delivery.waitUntilDrained()
    switch result {
    case .success(let response):
      call(.success, response.content ?? GeneratedContent(response.text))
      callback(StatusCode.success.rawValue, nil, userInfo.pointer)
    case .failure(let failure):
      call(failure.status, GeneratedContent(streamMessage(failure)))
    }
  }

  private func call(_ status: StatusCode, _ content: GeneratedContent) {
    callback(
      status.rawValue, HandleTable.shared.insert(ContentObject(content)), userInfo.pointer)
  }
}
