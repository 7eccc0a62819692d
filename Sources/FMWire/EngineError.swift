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
  /// One line: what failed, of which program and model, and what to do.
  public var message: String
  /// The last lines the engine wrote, at most 40; empty where there were none.
  public var logTail: String
  public init(kind: Kind, message: String, logTail: String = "") {
    self.kind = kind
    self.message = message
    self.logTail = logTail
  }
}
