import FMCore
import FMWire

/// Snapshots for a C caller, then an empty one for the end.
///
/// Updates come on the I/O thread, which a callback must not hold up: they are queued, and a worker
/// thread calls the callback, once for each, for as long as there are any. A callback that is slow
/// holds up the server.
final class StreamSink: AnswerSink {
  /// Only used by the one task that delivers.
  private struct Snapshot: @unchecked Sendable {
    let buffer = SnapshotBuffer()
  }

  private struct Updates {
    var list: [TextUpdate] = []
    /// What they take up, in bytes.
    var size = 0
  }

  /// Bytes of an update beside its text.
  private static let updateSize = 48

  let flow = AnswerFlow()
  private let callback: ResponseCallback
  private let userInfo: UserInfo
  private let snapshot = Snapshot()
  private let delivery = Delivery(Updates())

  init(callback: @escaping ResponseCallback, userInfo: UserInfo) {
    self.callback = callback
    self.userInfo = userInfo
  }

  func update(_ update: TextUpdate) {
    delivery.add(
      { updates in
        updates.list.append(update)
        updates.size += update.text.utf8.count + Self.updateSize
        if updates.size > AnswerFlow.highWater { flow.hold(.delivery) }
      }, deliver: { self.deliver() })
  }

  /// Calls the callback for everything that has come.
  private func deliver() {
    var updates: [TextUpdate] = []
    while true {
      // Swapped, so that both arrays keep their room.
      updates.removeAll(keepingCapacity: true)
      let news: Void? = delivery.next { pending in
        swap(&updates, &pending.list)
        pending.size = 0
        return updates.isEmpty ? nil : ()
      }
      guard news != nil else { return }
      // The next ones come while these are told.
      flow.release(.delivery)
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
    await delivery.waitUntilDrained()
    switch result {
    case .success: callback(StatusCode.success.rawValue, nil, 0, userInfo.pointer)
    case .failure(let failure):
      snapshot.buffer.replace(with: streamMessage(failure))
      callback(
        failure.status.rawValue, snapshot.buffer.pointer, snapshot.buffer.count, userInfo.pointer)
    }
  }
}

/// What the end of a stream says of a failure: the reference has words of its own for a cancelled one.
func streamMessage(_ failure: Failure) -> String {
  failure.isCancellation ? "Stream cancelled" : failure.message
}
