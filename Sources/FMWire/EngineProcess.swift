import CLinux
import Glibc
import Synchronization

/// A running child and the thread that watches it.
///
/// The thread starts the child, drains its output, stops it when it is told to or its owner finds it
/// idle, and reaps it. It sleeps in poll(2) and lives exactly as long as the child: the kernel kills
/// a child when the thread that started it ends, and this way that is when the process ends.
final class EngineProcess: Sendable {
  /// Who decides how long a child stays.
  protocol Owner: AnyObject, Sendable {
    /// How long until this should be asked again; nil = the child is to be stopped now.
    func timeUntilIdleCheck(of process: EngineProcess) -> Duration?
    /// The child ended, whatever the reason. Called once.
    func ended(_ process: EngineProcess)
  }

  private struct State {
    var log = EngineLogTail()
    var exit: EngineChild.Exit?
    var stop: Stop?
    var observers: [UInt64: CheckedContinuation<Void, Never>] = [:]
    var nextObserver: UInt64 = 0
  }

  private struct Stop {
    var isAnnounced = false
    var killAt: ContinuousClock.Instant
  }

  private let child: EngineChild
  private let wake: EventDescriptor
  private let endedEvent: EventDescriptor
  private let directory: EngineDirectory?
  private let state = Mutex(State())

  private init(
    child: EngineChild, wake: EventDescriptor, endedEvent: EventDescriptor,
    directory: EngineDirectory?
  ) {
    self.child = child
    self.wake = wake
    self.endedEvent = endedEvent
    self.directory = directory
  }

  var processID: Int32 { child.processID }
  var exit: EngineChild.Exit? { state.withLock { $0.exit } }
  var wasStopped: Bool { state.withLock { $0.stop != nil } }
  var logTail: String { state.withLock { $0.log.text } }
  var lastLogLine: String? { state.withLock { $0.log.lastLine } }

  // MARK: Starting

  /// Starts the program at `path` and returns when it runs.
  ///
  /// - Parameters:
  ///   - withoutVariables: names that the child's environment shall not have.
  ///   - variables: what its environment has beside this process's own.
  ///   - directory: kept as long as the child, and removed with it.
  /// - Throws: the errno of what failed, mostly that of execve(2).
  static func start(
    path: String, arguments: [String], withoutVariables: Set<String>,
    variables: [(name: String, value: String)], directory: EngineDirectory?, owner: any Owner
  ) async throws -> EngineProcess {
    let wake = try EventDescriptor()
    let endedEvent = try EventDescriptor()
    return try await withCheckedThrowingContinuation { continuation in
      let failure = DetachedThread.start(name: "openfm-engine") {
        let process: EngineProcess
        do {
          let environment = CStringArray(environmentWithout: withoutVariables, adding: variables)
          let child = try EngineChild(path: path, arguments: arguments, environment: environment)
          process = EngineProcess(
            child: child, wake: wake, endedEvent: endedEvent, directory: directory)
        } catch {
          return continuation.resume(throwing: error)
        }
        continuation.resume(returning: process)
        process.supervise(for: owner)
      }
      if let failure { continuation.resume(throwing: failure) }
    }
  }

  private func supervise(for owner: any Owner) {
    var isOpen = true
    while true {
      let ready = child.wait(wake: wake, watchesOutput: isOpen, timeout: nextTimeout(owner))
      if ready.isWoken { wake.clear() }
      if ready.hasOutput { isOpen = drain() }
      if ready.hasEnded { break }
    }
    // What it wrote last says why it ended.
    if isOpen { _ = drain() }
    let exit = child.reap()
    directory?.remove()
    state.withLock { $0.exit = exit }
    owner.ended(self)
    let observers = state.withLock { state in
      defer { state.observers = [:] }
      return state.observers.values
    }
    for observer in observers { observer.resume() }
    endedEvent.set()
  }

  private func drain() -> Bool {
    child.readOutput { bytes in state.withLock { state in state.log.append(bytes) } }
  }

  /// Sends the signals that are due, and tells how long there is nothing to do; nil = until the
  /// child does something.
  private func nextTimeout(_ owner: any Owner) -> Duration? {
    if state.withLock({ $0.stop == nil }) {
      if let time = owner.timeUntilIdleCheck(of: self) { return max(time, .milliseconds(1)) }
      stop(grace: .seconds(1))
    }
    let (signal, timeout) = state.withLock { state -> (Int32?, Duration?) in
      guard var stop = state.stop else { return (nil, nil) }
      defer { state.stop = stop }
      let now = ContinuousClock.now
      if stop.killAt <= now {
        stop.killAt = now.advanced(by: .seconds(1))
        return (SIGKILL, .seconds(1))
      }
      defer { stop.isAnnounced = true }
      return (stop.isAnnounced ? nil : SIGTERM, stop.killAt - now)
    }
    if let signal { child.signalGroup(signal) }
    return timeout
  }

  // MARK: Ending

  /// Has the child ended: SIGTERM, and after `grace` SIGKILL, for it and all it started. Returns at
  /// once. A second call can only shorten the grace.
  func stop(grace: Duration) {
    let killAt = ContinuousClock.now.advanced(by: grace)
    state.withLock { state in
      state.stop = Stop(
        isAnnounced: state.stop?.isAnnounced ?? false,
        killAt: min(killAt, state.stop?.killAt ?? killAt))
    }
    wake.set()
  }

  /// Blocks the calling thread until the child ended; false when it did not within that time.
  func waitUntilEnded(seconds: Double) -> Bool { endedEvent.wait(seconds: seconds) }

  /// Whether the child ended, within that time at the latest.
  func hasEnded(within time: Duration) async -> Bool {
    if exit != nil { return true }
    guard time > .zero else { return false }
    let number = state.withLock { state in
      state.nextObserver += 1
      return state.nextObserver
    }
    let alarm = Task {
      try? await Task.sleep(for: time)
      state.withLock { $0.observers.removeValue(forKey: number) }?.resume()
    }
    await withCheckedContinuation { continuation in
      let hasEnded = state.withLock { state in
        if state.exit == nil { state.observers[number] = continuation }
        return state.exit != nil
      }
      if hasEnded { continuation.resume() }
    }
    alarm.cancel()
    return exit != nil
  }
}
