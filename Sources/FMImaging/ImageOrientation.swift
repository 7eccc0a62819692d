/// Where row 0 and column 0 of the stored pixels belong, in the numbering of EXIF tag 0x0112.
///
/// Source: Exif 2.32 (CIPA DC-008), section 4.6.4, tag Orientation.
public enum ImageOrientation: UInt32, Sendable, CaseIterable {
  case up = 1
  case upMirrored = 2
  case down = 3
  case downMirrored = 4
  case leftMirrored = 5
  case right = 6
  case rightMirrored = 7
  case left = 8

  /// True when turning the picture upright exchanges its width and height.
  public var swapsAxes: Bool { rawValue >= 5 }
}
