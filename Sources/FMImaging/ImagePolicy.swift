/// What a model may be sent: the limits a picture is brought within, and how it is encoded.
///
/// A picture within every limit is not scaled, and none is ever scaled up. Limits hold for upright
/// and turned pictures alike. What a family of models takes is known to `ImageModelFamily`.
///
/// ```swift
/// let small = ImagePolicy(maxLongEdge: 1024, maxBytes: 200_000)
/// ```
public struct ImagePolicy: Sendable, Hashable {
  /// What happens to EXIF, XMP, IPTC and comments.
  public enum Metadata: String, Sendable, CaseIterable {
    /// Nothing but pixels is sent.
    case strip
    /// They are sent as they are, except for the orientation, which the pixels have taken over.
    /// Never kept: what follows the end of the picture, further frames, colour profiles that the
    /// pixels no longer need.
    case keep
  }

  /// File formats that may be sent.
  public struct Formats: OptionSet, Sendable, Hashable {
    public let rawValue: UInt8
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    public static let jpeg = Formats(rawValue: 1)
    public static let png = Formats(rawValue: 2)
    public static let all: Formats = [.jpeg, .png]
  }

  /// Longest side of what is sent, in pixels; nil = any.
  public var maxLongEdge: Int?
  /// Shortest side of what is sent, in pixels; nil = any.
  public var maxShortEdge: Int?
  /// Width times height of what is sent, in pixels; nil = any.
  public var maxPixels: Int?
  /// Size of the encoded file, in bytes (base64 makes a third more of it); nil = any.
  ///
  /// Where a picture needs more, JPEG quality is lowered only as far as this demands, and not below
  /// `leastQuality`; below that the picture is made smaller.
  public var maxBytes: Int?
  /// Where a picture has to be scaled, both sides become multiples of this, so that the model's
  /// own grid of patches meets whole pixels; 1 = any size.
  public var sideMultiple: Int
  /// What may be sent. Without `.png` screenshots become JPEG, without `.jpeg` photos become PNG;
  /// none at all counts as both.
  public var formats: Formats
  /// JPEG quality 1...100 where a picture has to be encoded again.
  public var quality: Int
  /// sRGB colour under transparent pixels, 0xRRGGBB.
  public var background: UInt32
  public var metadata: Metadata
  /// Entropy-decode the scan data of a picture that is passed through, so that one that is cut
  /// short is refused here, and one with bytes hidden between its pixels is encoded anew. False checks
  /// the markers only.
  public var verify: Bool

  public init(
    maxLongEdge: Int? = 1568, maxShortEdge: Int? = nil, maxPixels: Int? = nil,
    maxBytes: Int? = nil, sideMultiple: Int = 1, formats: Formats = .all, quality: Int = 85,
    background: UInt32 = 0xFF_FFFF, metadata: Metadata = .strip, verify: Bool = true
  ) {
    self.maxLongEdge = maxLongEdge
    self.maxShortEdge = maxShortEdge
    self.maxPixels = maxPixels
    self.maxBytes = maxBytes
    self.sideMultiple = sideMultiple
    self.formats = formats
    self.quality = quality
    self.background = background
    self.metadata = metadata
    self.verify = verify
  }

  public static let `default` = ImagePolicy()

  /// Quality below which pictures are made smaller instead: under it JPEG's blocks show.
  static let leastQuality = 40

  func allows(_ format: Formats) -> Bool { formats.isEmpty || formats.contains(format) }
}
