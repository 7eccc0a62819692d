/// Takes interleaved rows from a decoder, lays them on the background and keeps planes of 8 bits.
final class PlaneSink {
  enum Layout {
    case rgb8
    case rgba8
    /// 16 bits a sample in the processor's byte order.
    case rgba16

    var bytesPerPixel: Int {
      switch self {
      case .rgb8: 3
      case .rgba8: 4
      case .rgba16: 8
      }
    }
  }

  private let layout: Layout
  private let planes: [Plane]
  /// What shows through, one value a plane.
  private let background: [UInt32]
  private let hasAlpha: Bool
  private let transform: ColorTransform?

  /// - Parameters:
  ///   - isGray: Red, green and blue of every pixel are one value.
  ///   - hasAlpha: Pixels may be other than opaque. Their colours are converted before they are
  ///     laid on the background, which is sRGB; those of opaque pictures after scaling.
  ///   - background: 0xRRGGBB.
  init(
    width: Int, height: Int, layout: Layout, isGray: Bool, hasAlpha: Bool, background: UInt32,
    transform: ColorTransform?
  ) throws(ImageProblem) {
    self.layout = layout
    self.hasAlpha = hasAlpha
    self.transform = transform
    let colors = [background >> 16 & 0xFF, background >> 8 & 0xFF, background & 0xFF]
    let hasOnePlane = isGray && (!hasAlpha || colors[0] == colors[1] && colors[1] == colors[2])
    self.background = hasOnePlane ? [colors[0]] : colors
    var planes: [Plane] = []
    for _ in 0..<self.background.count { planes.append(try Plane(width: width, height: height)) }
    self.planes = planes
  }

  /// Takes row `y`; its bytes may be overwritten.
  func write(_ row: UnsafeMutablePointer<UInt8>, y: Int) {
    let width = planes[0].width
    if hasAlpha, let transform {
      if layout == .rgba16 {
        UnsafeMutableRawPointer(row).withMemoryRebound(to: UInt16.self, capacity: 4 * width) {
          transform.convert(deepRGBA: $0, count: width)
        }
      } else {
        transform.convert(rgba: row, count: width)
      }
    }
    for (index, plane) in planes.enumerated() {
      let target = plane.row(y)
      switch layout {
      case .rgb8:
        for x in 0..<width { target[x] = row[3 * x + index] }
      case .rgba8:
        Self.composite8(row, channel: index, on: background[index], into: target, width)
      case .rgba16:
        Self.composite16(row, channel: index, on: background[index], into: target, width)
      }
    }
  }

  func finish() -> DecodedImage { DecodedImage(planes, transform: hasAlpha ? nil : transform) }

  private static func composite8(
    _ row: UnsafePointer<UInt8>, channel: Int, on background: UInt32,
    into target: UnsafeMutablePointer<UInt8>, _ width: Int
  ) {
    for x in 0..<width {
      let alpha = UInt32(row[4 * x + 3])
      let sum = UInt32(row[4 * x + channel]) * alpha + background * (255 - alpha)
      target[x] = UInt8(truncatingIfNeeded: (sum + 127) / 255)
    }
  }

  private static func composite16(
    _ row: UnsafePointer<UInt8>, channel: Int, on background: UInt32,
    into target: UnsafeMutablePointer<UInt8>, _ width: Int
  ) {
    UnsafeRawPointer(row).withMemoryRebound(to: UInt16.self, capacity: width * 4) { samples in
      for x in 0..<width {
        let alpha = UInt64(samples[4 * x + 3])
        // 8-bit values times 257 are the same colours with 16 bits.
        let sum =
          UInt64(samples[4 * x + channel]) * alpha + UInt64(background) * 257 * (65535 - alpha)
        // One rounding, from the exact composite to 8 bits.
        let whole: UInt64 = 65535 * 257
        target[x] = UInt8(truncatingIfNeeded: (sum + whole / 2) / whole)
      }
    }
  }
}
