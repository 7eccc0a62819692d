import Glibc
import Synchronization

/// Where the line about each request goes: to standard error with `OPENFM_LOG=debug`, to a handler,
/// and to a bounded list for those who cannot be called.
package final class RequestLog: Sendable {
  package static let shared = RequestLog(
    printsLines: ProcessEnvironment.current["OPENFM_LOG"]?.lowercased() == "debug")

  package typealias Handler = @Sendable (RequestRecord) -> Void

  /// Records kept for `take`; the oldest go first.
  private static let maxKept = 1000

  private struct State {
    var handler: Handler?
    var keeps = false
    var kept: [RequestRecord] = []
  }

  private let printsLines: Bool
  private let state = Mutex(State())
  private let isWanted: Atomic<Bool>

  init(printsLines: Bool) {
    self.printsLines = printsLines
    isWanted = Atomic(printsLines)
  }

  /// Whether anybody reads: where nobody does, nothing is measured.
  var isOn: Bool { isWanted.load(ordering: .relaxed) }

  /// `handler` is called on a thread of the library, request after request, and must not block; nil
  /// ends it. The last one holds.
  package func setHandler(_ handler: Handler?) {
    change { $0.handler = handler }
  }

  /// Whether records are kept for `take`; those that are kept go when it ends.
  package func keep(_ keeps: Bool) {
    change { state in
      state.keeps = keeps
      state.kept = []
    }
  }

  /// What has been kept since the last time, oldest first.
  package func take() -> [RequestRecord] {
    state.withLock { state in
      defer { state.kept = [] }
      return state.kept
    }
  }

  private func change(_ body: (inout State) -> Void) {
    state.withLock { state in
      body(&state)
      isWanted.store(
        printsLines || state.handler != nil || state.keeps, ordering: .relaxed)
    }
  }

  func emit(_ record: RequestRecord) {
    let handler = state.withLock { state in
      if state.keeps {
        if state.kept.count >= Self.maxKept { state.kept.removeFirst(Self.maxKept / 10) }
        state.kept.append(record)
      }
      return state.handler
    }
    if printsLines {
      // One write, so that lines of several threads do not mix.
      let line = Array("openfm: \(record.line)\n".utf8)
      _ = line.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
    }
    handler?(record)
  }
}
