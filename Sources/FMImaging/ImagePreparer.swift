/// Turns source pictures into what a server may see, and remembers the results.
///
/// Deterministic: the same bytes, orientation and policy give the same output, so that a server's
/// prefix cache stays warm. Thread-safe; work runs on the caller's thread.
public final class ImagePreparer: Sendable {
  public static let shared = ImagePreparer()

  /// - Parameter cacheByteLimit: prepared bytes kept at most; the least recently used go first.
  public init(cacheByteLimit: Int = 64 << 20) {
  }

  /// - Parameter orientation: replaces the file's own orientation; nil takes the file's.
  public func prepare(
    _ source: SourceImage, orientation: ImageOrientation? = nil, policy: ImagePolicy = .default
  ) throws(ImageError) -> PreparedImage {
    fatalError()
  }
}
