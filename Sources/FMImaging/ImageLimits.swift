import Synchronization

/// Bounds on what is read at all, checked from the file size and the header before allocating.
public struct ImageLimits: Sendable, Hashable {
  /// Largest file read, in bytes.
  public var maxFileBytes: Int
  /// Largest stored width x height, in pixels.
  public var maxPixels: Int

  public init(maxFileBytes: Int = 256 << 20, maxPixels: Int = 512_000_000) {
    self.maxFileBytes = maxFileBytes
    self.maxPixels = maxPixels
  }

  /// What holds where nobody gives others; a process may set its own.
  public static var `default`: ImageLimits {
    get { current.withLock { $0 } }
    set { current.withLock { $0 = newValue } }
  }

  private static let current = Mutex(ImageLimits())

  /// For what was checked before.
  static let none = ImageLimits(maxFileBytes: .max, maxPixels: .max)

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
