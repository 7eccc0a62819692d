/// What a server may see: upright, opaque pixels within the policy, without metadata.
public struct PreparedImage: Sendable {
  /// How the bytes came about.
  public enum Route: String, Sendable {
    /// The entropy-coded data is the file's, bit for bit; only metadata was dropped.
    case passThrough
    /// Decoded, turned or scaled as needed, and encoded again.
    case reencoded
  }

  /// The complete encoded file.
  public var bytes: [UInt8]
  public var format: ImageFormat
  public var width: Int
  public var height: Int
  /// The upright size of the original, so that `width / Double(sourceWidth)` is the scale.
  public var sourceWidth: Int
  public var sourceHeight: Int
  public var route: Route

  public init(
    bytes: [UInt8], format: ImageFormat, width: Int, height: Int, sourceWidth: Int,
    sourceHeight: Int, route: Route
  ) {
    self.bytes = bytes
    self.format = format
    self.width = width
    self.height = height
    self.sourceWidth = sourceWidth
    self.sourceHeight = sourceHeight
    self.route = route
  }
}
