/// What an embedded engine runs: a llama.cpp server as a supervised child process.
public struct EngineConfiguration: Sendable, Hashable {
  /// The program and its leading arguments; the engine's own options follow.
  public var command: [String]
  public var modelPath: String
  /// The vision projector; nil = text only.
  public var projectorPath: String?
  /// Tokens of context per request.
  public var contextSize: Int
  /// Requests served at once; more wait.
  public var slots: Int
  public var threads: Int
  /// Seconds without a request after which the child is stopped.
  public var idleSeconds: Double

  public init(
    command: [String], modelPath: String, projectorPath: String? = nil, contextSize: Int = 4096,
    slots: Int = 2, threads: Int = 1, idleSeconds: Double = 600
  ) {
    self.command = command
    self.modelPath = modelPath
    self.projectorPath = projectorPath
    self.contextSize = contextSize
    self.slots = slots
    self.threads = threads
    self.idleSeconds = idleSeconds
  }
}

/// Why the engine does not serve.
public struct EngineError: Error, Sendable, Equatable {
  public enum Kind: String, Sendable, CaseIterable {
    /// The program could not be started.
    case notStarted
    /// It started and ended, or never became ready; `logTail` says why.
    case failed
    /// It died while it answered.
    case died
  }
  public var kind: Kind
  public var message: String
  /// The last lines the engine wrote.
  public var logTail: String
  public init(kind: Kind, message: String, logTail: String) {
    self.kind = kind
    self.message = message
    self.logTail = logTail
  }
}

/// One child a configuration and process: started on first use, restarted after it died, ended
/// with this process.
public final class Engine: Sendable {
  /// The engine of that configuration, shared by all who ask.
  public static func shared(_ configuration: EngineConfiguration) -> Engine { fatalError() }
  public let configuration: EngineConfiguration

  private init(configuration: EngineConfiguration) { self.configuration = configuration }

  /// Where the running child listens; starts it and waits until it is ready where it does not run.
  /// `withEndpoint` counts as a request for the idle clock until `body` returns. When `body` fails
  /// because the child died, that is thrown as `EngineError` `.died` with the log's tail.
  public func withEndpoint<R: Sendable>(
    _ body: (Endpoint) async throws -> R
  ) async throws -> R { fatalError() }

  /// Ends every child of this process; later use starts them again.
  public static func stopAll() { fatalError() }
}
