/// What a server may see: upright, opaque pixels within the policy, without metadata.
public struct PreparedImage: Sendable {
  /// How the bytes came about.
  public enum Action: String, Sendable, CaseIterable {
    /// The entropy-coded data is the file's, bit for bit; at most metadata was dropped.
    case passThrough = "passthrough"
    /// The JPEG's coefficients were rearranged: turned, without decoding to pixels and back.
    case losslessTurn = "lossless-turn"
    /// Decoded, turned or scaled as needed, and encoded again.
    case reencoded = "re-encoded"
  }

  /// The complete encoded file.
  public var bytes: [UInt8]
  public var format: ImageFormat
  public var width: Int
  public var height: Int
  /// The upright size of the original.
  public var originalWidth: Int
  public var originalHeight: Int
  /// The orientation that was found, and is in the pixels now: the one given, else the file's.
  public var orientation: ImageOrientation
  public var action: Action
  /// Oddities of the file that were passed over because they harm nothing: bytes between a JPEG's
  /// segments, markers that contradict each other, EXIF or a colour profile that cannot be read.
  public var warningCount: Int

  public init(
    bytes: [UInt8], format: ImageFormat, width: Int, height: Int, originalWidth: Int,
    originalHeight: Int, orientation: ImageOrientation, action: Action, warningCount: Int = 0
  ) {
    self.bytes = bytes
    self.format = format
    self.width = width
    self.height = height
    self.originalWidth = originalWidth
    self.originalHeight = originalHeight
    self.orientation = orientation
    self.action = action
    self.warningCount = warningCount
  }

  /// Sent pixels for each original pixel along the longer side, at most 1.
  ///
  /// A place that a model names is found in the original at its coordinates divided by
  /// `width / originalWidth` and `height / originalHeight`.
  public var scale: Double {
    originalWidth >= originalHeight
      ? Double(width) / Double(originalWidth) : Double(height) / Double(originalHeight)
  }

  /// SHA-256 of `bytes` in lower-case hexadecimal. Computed on every use.
  public var sha256Text: String { SHA256.text(SHA256.digest(bytes)) }
}
