import CHEIF

/// The primary picture of a HEIC or AVIF file, decoded with libheif; frees what it holds with
/// itself.
///
/// The bytes given to `init` must stay alive and in place as long as the decoder.
final class HEIFDecoder {
  private let handle: OpaquePointer
  private let header: cheif_header
  private let format: ImageFormat
  /// libheif crops, or understands the turns differently: then it does both, and nobody after it.
  private let leavesTurnsToLibrary: Bool
  let orientation: ImageOrientation
  /// What stands in where there is no ICC profile.
  private let statedColors: ColorProfile

  /// Reads the header.
  init(
    _ bytes: UnsafeBufferPointer<UInt8>, structure: HEIFStructure, format: ImageFormat,
    limits: ImageLimits
  ) throws(ImageProblem) {
    guard let library = format.heifLibrary else {
      throw ImageProblem(
        .unsupportedFormat, format.missing ?? "this picture cannot be read on this machine")
    }
    self.format = format
    var header = cheif_header()
    var status = CHEIF_OK
    var why = [CChar](repeating: 0, count: 200)
    guard
      let handle = cheif_picture_open(
        library.pointer, bytes.baseAddress, bytes.count, &header, &status, &why, why.count)
    else { throw Self.problem(status, why, format) }
    self.handle = handle
    self.header = header
    statedColors = structure.colorProfile
    let stored = (width: Int(header.stored_width), height: Int(header.stored_height))
    let shown = (width: Int(header.width), height: Int(header.height))
    let turned =
      structure.orientation.swapsAxes ? (width: stored.height, height: stored.width) : stored
    leavesTurnsToLibrary = structure.isCropped || turned != shown
    orientation = leavesTurnsToLibrary ? .up : structure.orientation
    guard width > 0, height > 0 else {
      throw ImageProblem(
        .corrupt, "the \(format.name) says it has \(width) x \(height) pixels; it is damaged")
    }
    try limits.check(width: width, height: height)
  }

  deinit { cheif_picture_free(handle) }

  /// Size of what `decode` gives.
  var width: Int { Int(leavesTurnsToLibrary ? header.width : header.stored_width) }
  var height: Int { Int(leavesTurnsToLibrary ? header.height : header.stored_height) }

  private var colorProfile: ColorProfile {
    if header.profile_size > ColorProfile.maxByteCount { return .unreadable }
    if header.profile_size > 0 {
      var isRead = false
      let profile = [UInt8](unsafeUninitializedCapacity: header.profile_size) { buffer, count in
        isRead = cheif_picture_profile(handle, buffer.baseAddress) == CHEIF_OK
        count = isRead ? header.profile_size : 0
      }
      return isRead ? .icc(profile) : .unreadable
    }
    return statedColors
  }

  /// - Parameter background: 0xRRGGBB, what shows through where the picture is not opaque.
  func decode(background: UInt32) throws(ImageProblem) -> DecodedImage {
    var pixels = cheif_pixels()
    var why = [CChar](repeating: 0, count: 200)
    let status = cheif_picture_decode(
      handle, leavesTurnsToLibrary ? 0 : 1, &pixels, &why, why.count)
    guard status == CHEIF_OK else { throw Self.problem(status, why, format) }
    guard Int(pixels.width) == width, Int(pixels.height) == height else {
      throw ImageProblem(
        .corrupt, "the \(format.name) contradicts itself about its size; it is damaged")
    }
    let hasAlpha = header.has_alpha != 0
    let isDeep = header.bits > 8
    let colors = ColorTransform.make(colorProfile, model: .rgb)
    let sink = try PlaneSink(
      width: width, height: height, layout: isDeep ? .rgba16 : hasAlpha ? .rgba8 : .rgb8,
      isGray: false, hasAlpha: hasAlpha, background: background, transform: colors.transform)
    let row = try Plane(width: width * 8, height: 1)
    for y in 0..<height {
      let source = pixels.data + y * pixels.stride
      if isDeep {
        widen(source, hasAlpha: hasAlpha, bits: Int(pixels.bits), into: row.base)
      } else {
        row.base.update(from: source, count: width * (hasAlpha ? 4 : 3))
      }
      if header.is_premultiplied != 0, hasAlpha { divideByAlpha(row.base, isDeep: isDeep) }
      sink.write(row.base, y: y)
    }
    var image = sink.finish()
    image.warningCount = colors.warningCount
    return image
  }

  /// Samples of 9 to 16 bits, with alpha or without, to R, G, B, A of 16 bits.
  private func widen(
    _ source: UnsafePointer<UInt8>, hasAlpha: Bool, bits: Int,
    into row: UnsafeMutablePointer<UInt8>
  ) {
    let most = UInt32(1) << UInt32(bits) - 1
    let step = hasAlpha ? 4 : 3
    UnsafeMutableRawPointer(row).withMemoryRebound(to: UInt16.self, capacity: 4 * width) { row in
      for x in 0..<width {
        for channel in 0..<4 {
          guard channel < step else {
            row[4 * x + channel] = 65535
            continue
          }
          let offset = 2 * (step * x + channel)
          let value = UInt32(source[offset]) | UInt32(source[offset + 1]) << 8
          row[4 * x + channel] = UInt16((min(value, most) * 65535 + most / 2) / most)
        }
      }
    }
  }

  private func divideByAlpha(_ row: UnsafeMutablePointer<UInt8>, isDeep: Bool) {
    func divide<Sample: FixedWidthInteger & UnsignedInteger>(
      _ row: UnsafeMutablePointer<Sample>
    ) {
      for x in 0..<width {
        let alpha = UInt32(row[4 * x + 3])
        if alpha == 0 { continue }
        for channel in 4 * x..<4 * x + 3 {
          let value = (UInt32(row[channel]) * UInt32(Sample.max) + alpha / 2) / alpha
          row[channel] = Sample(min(value, UInt32(Sample.max)))
        }
      }
    }
    if isDeep {
      UnsafeMutableRawPointer(row)
        .withMemoryRebound(to: UInt16.self, capacity: 4 * width, divide)
    } else {
      divide(row)
    }
  }

  private static func problem(_ status: cheif_status, _ why: [CChar], _ format: ImageFormat)
    -> ImageProblem
  {
    let words = String(
      decoding: why.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    switch status {
    case CHEIF_NO_MEMORY:
      return ImageProblem(.tooLarge, "not enough memory for this \(format.name); scale it down")
    case CHEIF_UNSUPPORTED:
      return ImageProblem(
        .unsupportedFormat,
        "this \(format.name) needs what libheif here lacks (\(words)); convert it to JPEG")
    default:
      return ImageProblem(
        .corrupt,
        "the \(format.name) is damaged or cut short (\(words)); copy or download it again")
    }
  }
}
