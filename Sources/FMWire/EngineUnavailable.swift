/// Why this machine has no embedded engine to offer.
public struct EngineUnavailable: Error, Sendable, Equatable {
  public enum Kind: String, Sendable, CaseIterable {
    /// No program to run.
    case noEngine
    /// No model to run it with.
    case noModel
    /// An environment variable that cannot be used; never passed over in silence.
    case badSetting
    /// A model file that cannot be used.
    case badModel
  }
  public var kind: Kind
  /// One sentence: what is missing or wrong, and what to do.
  public var message: String
  public init(kind: Kind, message: String) {
    self.kind = kind
    self.message = message
  }
}
