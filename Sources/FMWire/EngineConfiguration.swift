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
  /// Seconds that a child may take to load the model and be ready.
  public var startSeconds: Double

  public init(
    command: [String], modelPath: String, projectorPath: String? = nil, contextSize: Int = 4096,
    slots: Int = 2, threads: Int = 1, idleSeconds: Double = 600, startSeconds: Double = 120
  ) {
    self.command = command
    self.modelPath = modelPath
    self.projectorPath = projectorPath
    self.contextSize = contextSize
    self.slots = slots
    self.threads = threads
    self.idleSeconds = idleSeconds
    self.startSeconds = startSeconds
  }
}
