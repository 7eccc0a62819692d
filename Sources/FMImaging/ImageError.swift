/// Why a picture could not be read or prepared.
///
/// Every message names the file (when there is one), what is wrong with it and what to do.
public struct ImageError: Error, Sendable, Equatable {
  public enum Kind: String, Sendable, CaseIterable {
    /// No file at the path.
    case notFound
    /// The path names a directory (or a socket, a device, a FIFO).
    case notAFile
    /// The file exists and may not be read, or reading it failed.
    case notReadable
    /// The file holds no bytes.
    case empty
    /// The bytes are no picture (text, HTML, an archive...).
    case notAnImage
    /// A picture of a kind this build cannot decode; the message names the kind.
    case unsupportedFormat
    /// A picture of a supported kind whose bytes are damaged or cut short.
    case corrupt
    /// More pixels or bytes than the limits allow; found before anything is allocated.
    case tooLarge
    /// The file's content is not the one that was attached earlier.
    case changed
    /// The path cannot name a file (empty, or holds a NUL).
    case invalidPath
  }

  public var kind: Kind
  /// One line for a person: what failed, on which file, what to do next.
  public var message: String
  /// The path as the caller gave it; nil for a picture that came as bytes.
  public var path: String?

  public init(kind: Kind, message: String, path: String?) {
    self.kind = kind
    self.message = message
    self.path = path
  }
}
