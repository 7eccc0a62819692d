import Synchronization

/// How the reader of an answer holds up its sender. While it is held, nothing more is read from the
/// network, and the server waits: what is on its way to a slow reader stays bounded.
package final class AnswerFlow: Sendable {
  /// Bytes of text that may wait for a reader before it holds the flow. What one read from the
  /// network brings, some 16 KiB, comes on top.
  package static let highWater = 256 << 10

  /// Who holds it; it flows when nobody does.
  package struct Holder: OptionSet, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }
    /// More waits to be delivered than `highWater`.
    package static let delivery = Holder(rawValue: 1)
    /// The caller asked for it.
    package static let caller = Holder(rawValue: 2)
  }

  private struct State {
    var holders: Holder = []
    /// Makes the sender that stopped go on.
    var resume: (@Sendable () -> Void)?
    var nextWaiter = 0
    var waiters: [Int: CheckedContinuation<Void, Never>] = [:]
    /// Waiters that were cancelled before they waited.
    var cancelled: Set<Int> = []
  }

  private let state = Mutex(State())

  package init() {}

  package var isHeld: Bool { state.withLock { !$0.holders.isEmpty } }

  package func hold(_ holder: Holder) {
    state.withLock { _ = $0.holders.insert(holder) }
  }

  package func release(_ holder: Holder) {
    let (resume, waiters) = state.withLock {
      state -> ((@Sendable () -> Void)?, [CheckedContinuation<Void, Never>]) in
      guard state.holders.remove(holder) != nil, state.holders.isEmpty else { return (nil, []) }
      defer {
        state.resume = nil
        state.waiters = [:]
      }
      return (state.resume, Array(state.waiters.values))
    }
    resume?()
    for waiter in waiters { waiter.resume() }
  }

  /// For a sender that must not wait. True = it is held; `resume` is called once when it flows again.
  func stops(resume: @escaping @Sendable () -> Void) -> Bool {
    state.withLock { state in
      if state.holders.isEmpty { return false }
      state.resume = resume
      return true
    }
  }

  /// For a sender that can wait: returns when it flows, or when the task is cancelled.
  package func wait() async {
    let id = state.withLock { state -> Int? in
      if state.holders.isEmpty { return nil }
      state.nextWaiter += 1
      return state.nextWaiter
    }
    guard let id else { return }
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let flows = state.withLock { state in
          if state.holders.isEmpty || state.cancelled.contains(id) { return true }
          state.waiters[id] = continuation
          return false
        }
        if flows { continuation.resume() }
      }
    } onCancel: {
      let waiter = state.withLock { state in
        state.cancelled.insert(id)
        return state.waiters.removeValue(forKey: id)
      }
      waiter?.resume()
    }
    state.withLock { _ = $0.cancelled.remove(id) }
  }
}
