import Synchronization

/// Runs one streamed request and keeps its newest snapshot for one reader. Letting go of it cancels
/// the request.
final class StreamDriver: Sendable {
  private struct Storage {
    var newest: String?
    var reader: CheckedContinuation<String?, any Error>?
    var end: Result<CompletedResponse, any Error>?
  }

  /// Shared with the task, which must not keep the driver itself alive.
  private final class Mailbox: Sendable {
    let storage = Mutex(Storage())

    func put(_ snapshot: String) {
      storage.withLock { storage in
        if let reader = storage.reader {
          storage.reader = nil
          reader.resume(returning: snapshot)
        } else {
          storage.newest = snapshot
        }
      }
    }

    func finish(_ result: Result<CompletedResponse, any Error>) {
      storage.withLock { storage in
        storage.end = result
        storage.reader?.resume(with: result.map { _ in nil })
        storage.reader = nil
      }
    }
  }

  private let mailbox = Mailbox()
  private let task: Task<Void, Never>

  init(
    _ run:
      @escaping @Sendable (_ onSnapshot: @escaping @Sendable (String) -> Void) async ->
      Result<CompletedResponse, any Error>
  ) {
    task = Task { [mailbox] in
      mailbox.finish(await run { mailbox.put($0) })
    }
  }

  deinit { task.cancel() }

  var completed: CompletedResponse? {
    mailbox.storage.withLock { try? $0.end?.get() }
  }

  /// The newest snapshot not read yet; waits for one. nil at the end.
  func next() async throws -> String? {
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        mailbox.storage.withLock { storage in
          if let snapshot = storage.newest {
            storage.newest = nil
            continuation.resume(returning: snapshot)
          } else if let end = storage.end {
            continuation.resume(with: end.map { _ in nil })
          } else {
            storage.reader = continuation
          }
        }
      }
    } onCancel: {
      task.cancel()
    }
  }
}
