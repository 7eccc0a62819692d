import FMCore
import Glibc
import Synchronization

/// The requests under way, so that FMShutdown can end them all.
final class RunningRequests: Sendable {
  static let shared = RunningRequests()

  private struct State {
    var isShutDown = false
    var next: UInt64 = 0
    var tasks: [UInt64: Task<Void, Never>] = [:]
  }

  private let state = Mutex(State())
  private let idle = Event()

  private init() {}

  /// Runs `body` on a worker thread; `isShutDown` tells it whether requests are still accepted.
  func start(_ body: @escaping @Sendable (_ isShutDown: Bool) async -> Void) -> Task<Void, Never> {
    // The lock is held until the task is in the table, so that its end finds itself there.
    state.withLock { state in
      let id = state.next
      let isShutDown = state.isShutDown
      state.next += 1
      let task = Task { [self] in
        await body(isShutDown)
        let isIdle = self.state.withLock { state in
          state.tasks[id] = nil
          return state.tasks.isEmpty
        }
        if isIdle { self.idle.signal() }
      }
      state.tasks[id] = task
      return task
    }
  }

  /// Refuses new requests, cancels those under way, and waits for their last callbacks.
  func shutDown(waitingAtMost seconds: Double) {
    let tasks = state.withLock { state in
      state.isShutDown = true
      return Array(state.tasks.values)
    }
    for task in tasks { task.cancel() }
    idle.wait(atMost: seconds) { state.withLock { $0.tasks.isEmpty } }
  }
}

/// A condition that a thread waits for without spinning.
final class Event: @unchecked Sendable {
  private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

  init() {
    pthread_mutex_init(mutex, nil)
    var attributes = pthread_condattr_t()
    pthread_condattr_init(&attributes)
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
    pthread_cond_init(condition, &attributes)
    pthread_condattr_destroy(&attributes)
  }

  deinit {
    pthread_cond_destroy(condition)
    pthread_mutex_destroy(mutex)
    condition.deallocate()
    mutex.deallocate()
  }

  func signal() {
    pthread_mutex_lock(mutex)
    pthread_cond_broadcast(condition)
    pthread_mutex_unlock(mutex)
  }

  /// Returns when the condition holds or the time is over; `holds` is looked at after each signal.
  func wait(atMost seconds: Double = .infinity, until holds: () -> Bool) {
    var deadline = timespec()
    clock_gettime(CLOCK_MONOTONIC, &deadline)
    if seconds.isFinite {
      let nanoseconds = deadline.tv_nsec + Int(seconds * 1e9)
      deadline.tv_sec += nanoseconds / 1_000_000_000
      deadline.tv_nsec = nanoseconds % 1_000_000_000
    }
    pthread_mutex_lock(mutex)
    defer { pthread_mutex_unlock(mutex) }
    while !holds() {
      let result =
        seconds.isFinite
        ? pthread_cond_timedwait(condition, mutex, &deadline) : pthread_cond_wait(condition, mutex)
      if result == ETIMEDOUT { return }
    }
  }
}

/// Blocks the calling thread, which must not be a worker thread, until `body` has run.
func waitFor<Result: Sendable>(_ body: @escaping @Sendable () async -> Result) -> Result {
  let box = ResultBox<Result>()
  let event = Event()
  Task {
    let value = await body()
    box.value.withLock { $0 = value }
    event.signal()
  }
  event.wait { box.value.withLock { $0 != nil } }
  return box.value.withLock { $0.unsafelyUnwrapped }
}

private final class ResultBox<Result: Sendable>: Sendable {
  let value = Mutex<Result?>(nil)
}

/// What `body` gives, or nil when it takes longer; it is cancelled then.
func firstResult<Value: Sendable>(
  within seconds: Double, _ body: @escaping @Sendable () async -> Value?
) async -> Value? {
  await withTaskGroup(of: Value?.self) { group in
    group.addTask { await body() }
    group.addTask {
      try? await Task.sleep(for: .seconds(seconds))
      return nil
    }
    defer { group.cancelAll() }
    return await group.next() ?? nil
  }
}
