import FMCore

/// Snapshots of a guided answer for a C caller, then the whole, then nothing for the end.
///
/// Updates come on the I/O thread, which neither parsing nor a callback may hold up: a worker thread
/// parses the newest text there is and calls the callback. One that is slow gets fewer snapshots.
final class StructuredStreamSink: AnswerSink {
  private struct Answer {
    var text = ""
    var hasNews = false
  }

  private let callback: StructuredCallback
  private let userInfo: UserInfo
  private let delivery = Delivery(Answer())

  init(callback: @escaping StructuredCallback, userInfo: UserInfo) {
    self.callback = callback
    self.userInfo = userInfo
  }

  func update(_ update: TextUpdate) {
    delivery.add(
      {
        _ = $0.text.apply(update)
        $0.hasNews = true
      }, deliver: { self.deliver() })
  }

  private func deliver() {
    while let text = delivery.next({ answer -> String? in
      defer { answer.hasNews = false }
      return answer.hasNews ? answer.text : nil
    }) {
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
