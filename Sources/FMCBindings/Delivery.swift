import FMWire
import Synchronization

/// What waits to be told to a C caller, and whether a worker thread is telling it.
///
/// It comes on the I/O thread, which a callback must not hold up. At most one thread tells at a time.
final class Delivery<Pending: Sendable>: Sendable {
  private struct State {
    var pending: Pending
    var isDelivering = false
    var drained: CheckedContinuation<Void, Never>?
  }

  private let state: Mutex<State>

  init(_ pending: Pending) {
    state = Mutex(State(pending: pending))
  }

  /// Changes what waits. Where nobody is telling, `deliver` begins on a worker thread; it takes with
  /// `next` until that gives nil.
  func add(_ change: (inout Pending) -> Void, deliver: @escaping @Sendable () -> Void) {
    let starts = state.withLock { state in
      change(&state.pending)
      defer { state.isDelivering = true }
      return !state.isDelivering
    }
    if starts { IOThread.shared.afterThisTurn { Task { deliver() } } }
  }

  /// What `take` takes; nil, where it finds nothing, ends the telling and wakes who waits for that.
  func next<Batch: Sendable>(_ take: (inout Pending) -> Batch?) -> Batch? {
    let (batch, drained) = state.withLock {
      state -> (Batch?, CheckedContinuation<Void, Never>?) in
      if let batch = take(&state.pending) { return (batch, nil) }
      state.isDelivering = false
      defer { state.drained = nil }
      return (nil, state.drained)
    }
    drained?.resume()
    return batch
  }

  /// Returns once all that came has been told. One caller, after the last `add`.
  func waitUntilDrained() async {
    await withCheckedContinuation { continuation in
      let isIdle = state.withLock { state in
        if state.isDelivering { state.drained = continuation }
        return !state.isDelivering
      }
      if isIdle { continuation.resume() }
    }
  }
}
