/// Turns source pictures into what a server may see, and remembers the results.
///
/// Deterministic: the same bytes, orientation and policy give the same output, so that a server's
/// prefix cache stays warm. Thread-safe; work runs on the caller's thread, and a second caller who
/// wants the same picture meanwhile waits for the first.
///
/// ```swift
/// let source = try SourceImage(contentsOfFile: "photo.jpg")
/// let image = try ImagePreparer.shared.prepare(source)
/// print(image.width, image.height, image.format.mediaType)
/// ```
public final class ImagePreparer: Sendable {
  public static let shared = ImagePreparer()

  let cache: PreparedImageCache

  /// - Parameter cacheByteLimit: prepared bytes kept at most; the least recently used go first.
  public init(cacheByteLimit: Int = 64 << 20) {
    cache = PreparedImageCache(byteLimit: cacheByteLimit)
  }

  public var cacheInfo: ImageCacheInfo { cache.info }

  /// Forgets what was prepared before.
  public func clearCache() { cache.clear() }

  /// Upright, opaque, within the policy, without metadata.
  ///
  /// Costs a hash lookup for a picture prepared before. Otherwise, for JPEG, one decode at the
  /// nearest DCT scale, one resize and one encode; about 1.5 bytes of memory a decoded pixel, 3 for
  /// PNG, 2 bytes a stored sample more for a progressive JPEG's coefficients.
  ///
  /// - Parameter orientation: replaces the file's own orientation; nil takes the file's.
  /// - Throws: `corrupt` for damaged or missing picture data, `unsupportedFormat`, `tooLarge`.
  public func prepare(
    _ source: SourceImage, orientation: ImageOrientation? = nil, policy: ImagePolicy = .default
  ) throws(ImageError) -> PreparedImage {
    let orientation = orientation ?? source.info.orientation
    let key = PreparedImageCache.Key(
      sha256: source.sha256, orientation: orientation, policy: policy)
    do {
      return try cache.image(for: key) { () throws(ImageProblem) in
        var preparation = Preparation(source: source, orientation: orientation, policy: policy)
        return try preparation.run()
      }
    } catch {
      throw ImageError(error, path: source.path)
    }
  }
}
