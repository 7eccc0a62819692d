/// What a model may be sent: the limits a picture is brought within, and how it is encoded.
public struct ImagePolicy: Sendable, Hashable {
  /// Longest side of what is sent, in pixels. Larger pictures are scaled down; none is scaled up.
  public var maxLongEdge: Int
  /// JPEG quality 1...100 where a picture has to be encoded again.
  public var quality: Int
  /// sRGB colour under transparent pixels, 0xRRGGBB.
  public var background: UInt32
  /// Entropy-decode the scan data of a picture that is passed through, so that one that is cut
  /// short is refused here. False checks the markers only.
  public var verify: Bool

  public init(
    maxLongEdge: Int = 1568, quality: Int = 85, background: UInt32 = 0xFF_FFFF, verify: Bool = true
  ) {
    self.maxLongEdge = maxLongEdge
    self.quality = quality
    self.background = background
    self.verify = verify
  }

  public static let `default` = ImagePolicy()
}
