/// A picture's compressed bytes, read once, with what its header says.
///
/// Immutable and shared freely; holds no descriptor and no mapping.
public final class SourceImage: Sendable {
  /// The path as the caller gave it; nil for a picture that came as bytes.
  public let path: String?
  public let bytes: [UInt8]
  public let info: ImageInfo
  /// SHA-256 of `bytes`, 32 bytes.
  public let sha256: [UInt8]

  /// Opens, reads, closes and checks the file: magic bytes, header, orientation, limits.
  public init(contentsOfFile path: String, limits: ImageLimits = .default) throws(ImageError) {
    fatalError()
  }

  /// The same checks on bytes already in memory. `path` only names them in messages.
  public init(bytes: [UInt8], path: String? = nil, limits: ImageLimits = .default)
    throws(ImageError)
  {
    fatalError()
  }
}
