import CLinux
import Glibc
import Synchronization

/// One child a configuration and process: started on first use, restarted after it died, stopped
/// when it was idle, ended with this process.
///
///     let engine = Engine.shared(try EngineDiscovery.resolve().get())
///     let answer = try await engine.withEndpoint { endpoint in
///       try await ask(ChatCompletionsClient(endpoint: endpoint))
///     }
///
/// Safe from any thread and task. Nothing here works in a child of `fork`: callers check for that.
public final class Engine: Sendable {
  private static let registry = Mutex<[EngineConfiguration: Engine]>([:])

  /// The engine of that configuration, shared by all who ask. Starts nothing.
  public static func shared(_ configuration: EngineConfiguration) -> Engine {
    registry.withLock { engines in
      if let engine = engines[configuration] { return engine }
      let engine = Engine(configuration: configuration)
      engines[configuration] = engine
      return engine
    }
  }

  public let configuration: EngineConfiguration

  struct Lease: Sendable {
    var process: EngineProcess
    var endpoint: Endpoint
  }

  private enum Phase {
    case stopped
    /// A task starts a child, for all who wait.
    case starting
    case running(Lease)
  }

  private struct State {
    var phase = Phase.stopped
    /// Requests that use the running child, and when the last of them ended.
    var active = 0
    var lastUse = ContinuousClock.now
    var waiting: [UInt64: CheckedContinuation<Lease, any Error>] = [:]
    var nextWaiter: UInt64 = 0
    /// The child of the start that is under way.
    var startingProcess: EngineProcess?
    var isStartCalledOff = false
  }

  private let state = Mutex(State())

  private init(configuration: EngineConfiguration) { self.configuration = configuration }

  /// The running child's number, nil when none is ready.
  var processID: Int32? {
    state.withLock {
      if case .running(let lease) = $0.phase { lease.process.processID } else { nil }
    }
  }

  // MARK: Use

  /// Where the running child listens; starts it and waits until it is ready where it does not run.
  /// `withEndpoint` counts as a request for the idle clock until `body` returns. When `body` fails
  /// with a `WireError` because the child died, that is thrown as `EngineError` `.died` with the
  /// log's tail.
  ///
  /// - Throws: `EngineError`, what `body` throws, or `CancellationError` when the task is cancelled
  ///   while it waits; the start then goes on for the others.
  public func withEndpoint<R: Sendable>(
    _ body: (Endpoint) async throws -> R
  ) async throws -> R {
    let lease = try await acquire()
    defer { release(lease) }
    do {
      return try await body(lease.endpoint)
    } catch let error as WireError {
      // A connection breaks a moment before the kernel reports the process's end.
      let mayBeDeath = [.connect, .endedEarly, .invalidResponse].contains(error.kind)
      guard await lease.process.hasEnded(within: mayBeDeath ? .milliseconds(500) : .zero) else {
        throw error
      }
      throw died(lease.process)
    }
  }

  private func acquire() async throws -> Lease {
    let number = state.withLock { state in
      state.nextWaiter += 1
      return state.nextWaiter
    }
    return try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        enum Next {
          case fail
          case take(Lease)
          case wait
          case start
        }
        let next = state.withLock { state -> Next in
          // Checked under the lock that `onCancel` takes: one of the two sees the other.
          if Task.isCancelled { return .fail }
          switch state.phase {
          case .running(let lease):
            state.active += 1
            return .take(lease)
          case .starting:
            state.waiting[number] = continuation
            return .wait
          case .stopped:
            state.waiting[number] = continuation
            state.phase = .starting
            state.isStartCalledOff = false
            return .start
          }
        }
        switch next {
        case .fail: continuation.resume(throwing: CancellationError())
        case .take(let lease): continuation.resume(returning: lease)
        case .wait: break
        case .start: Task.detached { await self.start() }
        }
      }
    } onCancel: {
      state.withLock { $0.waiting.removeValue(forKey: number) }?
        .resume(throwing: CancellationError())
    }
  }

  private func release(_ lease: Lease) {
    state.withLock { state in
      guard case .running(let current) = state.phase, current.process === lease.process else {
        return
      }
      state.active -= 1
      state.lastUse = .now
    }
  }

  // MARK: Starting

  private func start() async {
    let result: Result<Lease, any Error>
    do {
      result = .success(try await EngineStart(engine: self).run())
    } catch {
      result = .failure(error)
    }
    let (waiting, outcome) = state.withLock { state in
      defer {
        state.waiting = [:]
        state.startingProcess = nil
      }
      var outcome = result
      switch result {
      case .success(let lease):
        if lease.process.exit != nil || lease.process.wasStopped {
          outcome = .failure(died(lease.process))
          state.phase = .stopped
        } else {
          state.phase = .running(lease)
          state.active = state.waiting.count
          state.lastUse = .now
        }
      case .failure:
        state.phase = .stopped
      }
      return (state.waiting.values, outcome)
    }
    for continuation in waiting { continuation.resume(with: outcome) }
  }

  /// Tells which child the start under way has, so that `stopAll` reaches it.
  func isStarting(_ process: EngineProcess) {
    let isCalledOff = state.withLock { state in
      state.startingProcess = process
      return state.isStartCalledOff
    }
    if isCalledOff { process.stop(grace: .zero) }
  }

  private func died(_ process: EngineProcess) -> EngineError {
    let how =
      process.wasStopped
      ? "was stopped" : "died (\(process.exit?.description ?? "an unknown status"))"
    return EngineError(
      kind: .died,
      message: "the engine \(configuration.command.first ?? "") \(how) while it answered with "
        + "\(configuration.modelPath); the next request starts it again",
      logTail: process.logTail)
  }

  // MARK: Stopping

  /// Ends every child of this process and waits for that, at most 3 seconds; later use starts them
  /// again. Blocks the calling thread.
  public static func stopAll() { stopAll(grace: .seconds(1)) }

  static func stopAll(grace: Duration) {
    let processes = registry.withLock { Array($0.values) }.compactMap { $0.stop(grace: grace) }
    let deadline = ContinuousClock.now.advanced(by: grace + .seconds(2))
    for process in processes {
      _ = process.waitUntilEnded(seconds: max(0, (deadline - .now).seconds))
    }
  }

  /// Has the child ended, or calls its start off; later use starts another. Returns at once, with the
  /// child that is to end.
  func stop(grace: Duration) -> EngineProcess? {
    let process = state.withLock { state -> EngineProcess? in
      switch state.phase {
      case .stopped:
        return nil
      case .starting:
        state.isStartCalledOff = true
        return state.startingProcess
      case .running(let lease):
        state.phase = .stopped
        return lease.process
      }
    }
    process?.stop(grace: grace)
    return process
  }

  /// Ends the children when this process exits the ordinary way: the kernel would kill them anyway,
  /// but not remove their folders.
  static let stopsAtExit: Void = {
    let owner = getpid()
    exitOwner.store(owner, ordering: .relaxed)
    atexit {
      // A child of fork has the handler too, and no thread that could answer.
      if getpid() == Engine.exitOwner.load(ordering: .relaxed) { Engine.stopAll(grace: .zero) }
    }
  }()
  private static let exitOwner = Atomic<Int32>(0)
}

extension Engine: EngineProcess.Owner {
  func timeUntilIdleCheck(of process: EngineProcess) -> Duration? {
    let limit = Duration.seconds(configuration.idleSeconds)
    return state.withLock { state in
      guard case .running(let lease) = state.phase, lease.process === process,
        state.active == 0
      else { return limit }
      let left = limit - (ContinuousClock.now - state.lastUse)
      if left > .zero { return left }
      state.phase = .stopped
      return nil
    }
  }

  func ended(_ process: EngineProcess) {
    state.withLock { state in
      if case .running(let lease) = state.phase, lease.process === process {
        state.phase = .stopped
      }
    }
  }
}
