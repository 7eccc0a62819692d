import FMWire
import Synchronization

/// Runs one streamed request and keeps what came of it for one reader, who makes snapshots of it:
/// a chunk costs the same however long the answer is, and the reader's copies are made on its own
/// time. Letting go of it cancels the request.
final class StreamDriver: Sendable {
  private struct Storage {
    var pending = PendingText()
    /// More than one where a stream is collected while it is iterated; each finds what is left.
    var readers: [CheckedContinuation<Void, Never>] = []
    var end: Result<CompletedResponse, any Error>?

    mutating func takeReaders() -> [CheckedContinuation<Void, Never>] {
      defer { readers = [] }
      return readers
    }
  }

  /// Shared with the task, which must not keep the driver itself alive.
  private final class Mailbox: Sendable {
    let flow = AnswerFlow()
    let storage = Mutex(Storage())

    func put(_ update: TextUpdate) {
      let readers = storage.withLock { storage in
        storage.pending.add(update)
        // A reader who lags behind holds up the server, not the memory.
        if storage.pending.count > AnswerFlow.highWater { flow.hold(.delivery) }
        return storage.takeReaders()
      }
      guard !readers.isEmpty else { return }
      IOThread.shared.afterThisTurn { for reader in readers { reader.resume() } }
    }

    func finish(_ result: Result<CompletedResponse, any Error>) {
      let readers = storage.withLock { storage in
        storage.end = result
        return storage.takeReaders()
      }
      for reader in readers { reader.resume() }
    }
  }

  private let mailbox = Mailbox()
  private let task: Task<Void, Never>
  private let reservation: LanguageModelSession.Reservation?
  /// What the reader was given.
  private let text = Mutex("")

  init(_ session: LanguageModelSession, _ request: LanguageModelSession.Request) {
    let reserved = Result { try session.reserve() }
    reservation = try? reserved.get()
    task = Task { [mailbox] in
      do {
        let outcome = await session.perform(request, try reserved.get(), flow: mailbox.flow) {
          mailbox.put($0)
        }
        mailbox.finish(outcome.result)
      } catch {
        mailbox.finish(.failure(error))
      }
    }
  }

  /// An answer that is there already.
  init(_ completed: CompletedResponse) {
    reservation = nil
    task = Task {}
    mailbox.put(.appended(completed.text))
    mailbox.finish(.success(completed))
  }

  deinit { cancel() }

  /// The session is free when this returns. Has no effect on an answer that is complete.
  func cancel() {
    task.cancel()
    reservation?.cancel()
  }

  /// The whole answer, read to its end.
  var completed: CompletedResponse {
    get async throws {
      while try await next() != nil {}
      guard let end = mailbox.storage.withLock(\.end) else { throw CancellationError() }
      return try end.get()
    }
  }

  /// The text so far, when there is more of it than the last time; waits for more. nil at the end.
  func next() async throws -> String? {
    while true {
      let (update, end) = mailbox.storage.withLock { ($0.pending.take(), $0.end) }
      if let update {
        mailbox.flow.release(.delivery)
        return text.withLock { text in
          text.apply(update)
          return text
        }
      }
      if let end {
        _ = try end.get()
        return nil
      }
      await waitForNews()
    }
  }

  private func waitForNews() async {
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isThere = mailbox.storage.withLock { storage in
          if !storage.pending.isEmpty || storage.end != nil { return true }
          storage.readers.append(continuation)
          return false
        }
        if isThere { continuation.resume() }
      }
    } onCancel: {
      cancel()
    }
  }
}
