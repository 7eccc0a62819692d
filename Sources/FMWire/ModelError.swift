/// Why a model file was not fetched, found or removed.
public struct ModelError: Error, Sendable, Equatable {
  public enum Kind: String, Sendable, CaseIterable {
    /// No such model is installed.
    case notInstalled
    /// What names the model makes no sense.
    case badReference
    /// What came is not what was promised, or no model.
    case badFile
    /// The file cannot be stored.
    case storage
    /// The network, or what is at its other end, does not give the file.
    case unreachable
    case cancelled
  }
  public var kind: Kind
  /// One sentence: what failed, on which file or URL, and what to do.
  public var message: String
  public init(kind: Kind, message: String) {
    self.kind = kind
    self.message = message
  }
}
