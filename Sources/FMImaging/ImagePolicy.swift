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

/// Bounds on what is read at all, checked from the file size and the header before allocating.
public struct ImageLimits: Sendable, Hashable {
  /// Largest file read, in bytes.
  public var maxFileBytes: Int
  /// Largest stored width x height, in pixels. The default is twice Pillow's
  /// `MAX_IMAGE_PIXELS`, the bound above which Pillow refuses a picture.
  public var maxPixels: Int

  public init(maxFileBytes: Int = 256 << 20, maxPixels: Int = 178_956_970) {
    self.maxFileBytes = maxFileBytes
    self.maxPixels = maxPixels
  }

  public static let `default` = ImageLimits()

  func check(width: Int, height: Int) throws(ImageProblem) {
    let (pixels, overflow) = width.multipliedReportingOverflow(by: height)
    if overflow || pixels > maxPixels {
      throw ImageProblem(
        .tooLarge,
        "\(width) x \(height) pixels are more than the limit of \(maxPixels); scale the picture down"
      )
    }
  }
}
