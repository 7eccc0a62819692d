import Glibc
import Synchronization

extension ModelStore {
  private struct State {
    var progress: Progress?
    var result: Result<InstalledModel, any Error>?
  }

  /// What the waiting thread and the fetching task share.
  private final class Shared: Sendable {
    let state = Mutex(State())
    let news: EventDescriptor
    let isStopped = AtomicFlag()

    init(news: EventDescriptor) { self.news = news }
  }

  /// `pull` for callers without Swift's concurrency: blocks the calling thread.
  ///
  /// - Parameter onProgress: called on the calling thread, at least five times a second, also when
  ///   nothing has come (then with what there was); false stops the fetch.
  public func pullAndWait(
    _ text: String, options: PullOptions = PullOptions(), onProgress: (Progress) -> Bool
  ) throws -> InstalledModel {
    let shared: Shared
    do {
      shared = Shared(news: try EventDescriptor())
    } catch {
      throw ModelError(kind: .storage, message: "cannot make a descriptor: \(error)")
    }
    let task = Task {
      let result: Result<InstalledModel, any Error>
      do {
        result = .success(
          try await pull(text, options: options) { progress in
            shared.state.withLock { $0.progress = progress }
            shared.news.set()
            return !shared.isStopped.isSet
          })
      } catch {
        result = .failure(error)
      }
      shared.state.withLock { $0.result = result }
      shared.news.set()
    }
    var latest = Progress(file: text, received: 0, total: nil)
    while true {
      _ = shared.news.wait(seconds: 0.2)
      shared.news.clear()
      let state = shared.state.withLock { $0 }
      latest = state.progress ?? latest
      if let result = state.result {
        if case .success = result { _ = onProgress(latest) }
        return try result.get()
      }
      if !shared.isStopped.isSet, !onProgress(latest) {
        shared.isStopped.set()
        task.cancel()
      }
    }
  }

  /// {"folder", "installed": [as InstalledModel.json], "known": [{"name", "summary", "licence",
  /// "source"}]}.
  public var listJSON: JSONValue {
    [
      "folder": .string(folder),
      "installed": .array(installed().map(\.json)),
      "known": .array(
        KnownModel.all.map {
          [
            "name": .string($0.name), "summary": .string($0.summary),
            "licence": .string($0.licence), "source": .string($0.sourceText),
          ]
        }),
    ]
  }
}
