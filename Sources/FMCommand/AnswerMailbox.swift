import CLinux
import FMCore
import FMWire
import Glibc
import Synchronization

/// Carries an answer from the task that asks to the main thread that prints. Owns its descriptor.
final class AnswerMailbox: Sendable {
  /// A complete answer, and what gave it.
  struct Answer: Sendable {
    var response: CompletedResponse
    var model: ModelDescription
  }

  enum News {
    /// The text that came since the last news; empty when none did.
    case text(String)
    case end(Result<Answer, Failure>)
  }

  private struct State {
    var text = ""
    var end: Result<Answer, Failure>?
    var firstTextAt: ContinuousClock.Instant?
  }

  /// Holds up the server where the text is taken more slowly than it comes.
  let flow = AnswerFlow()
  private let state = Mutex(State())
  /// An eventfd, readable while there are news.
  let descriptor: Int32

  /// - Throws: a `Failure` when there are no descriptors left.
  init() throws {
    descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    guard descriptor >= 0 else {
      throw Failure(.unknown, "Cannot make a descriptor: \(String(cString: strerror(errno))).")
    }
  }

  deinit { close(descriptor) }

  /// When the first of the answer came.
  var firstTextAt: ContinuousClock.Instant? { state.withLock(\.firstTextAt) }

  func put(_ update: TextUpdate) {
    state.withLock { state in
      let isFirst = state.firstTextAt == nil
      if isFirst { state.firstTextAt = .now }
      switch update {
      case .appended(let text): state.text += text
      // What is printed cannot be taken back; the whole text starts on a line of its own.
      case .replaced(let text): state.text += (isFirst ? "" : "\n") + text
      }
      if state.text.utf8.count > AnswerFlow.highWater { flow.hold(.delivery) }
    }
    wake()
  }

  func end(_ result: Result<Answer, Failure>) {
    state.withLock { $0.end = result }
    wake()
  }

  /// What there is; text comes before the end.
  func take() -> News {
    var count: UInt64 = 0
    _ = read(descriptor, &count, MemoryLayout.size(ofValue: count))
    defer { flow.release(.delivery) }
    return state.withLock { state in
      if state.text.isEmpty, let end = state.end { return .end(end) }
      defer { state.text = "" }
      if state.end != nil { wake() }
      return .text(state.text)
    }
  }

  private func wake() {
    var one: UInt64 = 1
    _ = write(descriptor, &one, MemoryLayout.size(ofValue: one))
  }
}
