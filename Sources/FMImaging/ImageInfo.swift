/// What a picture's header says; reading it decodes no pixels.
public struct ImageInfo: Sendable, Equatable {
  public var format: ImageFormat
  /// Size of the stored pixels, before any turn.
  public var storedWidth: Int
  public var storedHeight: Int
  /// The file's own EXIF orientation; `.up` when it has none or a malformed one.
  public var orientation: ImageOrientation
  /// Oddities of the header that were passed over because they harm nothing: EXIF that cannot be
  /// read.
  public var warningCount: Int

  public init(
    format: ImageFormat, storedWidth: Int, storedHeight: Int, orientation: ImageOrientation,
    warningCount: Int = 0
  ) {
    self.format = format
    self.storedWidth = storedWidth
    self.storedHeight = storedHeight
    self.orientation = orientation
    self.warningCount = warningCount
  }
}
