import CSPNG
import Glibc

/// One libspng decoder over bytes in memory; frees what it holds with itself.
///
/// The bytes must be those of `PNGStructure.withoutMetadata` (what is not needed is never parsed)
/// and stay alive and in place as long as the decoder.
final class PNGDecoder {
  private let context: OpaquePointer
  private let structure: PNGStructure

  init(_ bytes: UnsafeBufferPointer<UInt8>, structure: PNGStructure) throws(ImageProblem) {
    guard let context = spng_ctx_new(0) else { throw .outOfMemory(1, 1) }
    self.context = context
    self.structure = structure
    // A broken checksum is an error in every chunk; the default lets some of them go.
    try check(
      spng_set_crc_action(context, Int32(SPNG_CRC_ERROR.rawValue), Int32(SPNG_CRC_ERROR.rawValue)))
    try check(spng_set_png_buffer(context, bytes.baseAddress, bytes.count))
  }

  deinit { spng_ctx_free(context) }

  /// Decodes to 8-bit R, G, B, or gray where the picture is gray and the background too.
  ///
  /// - Parameter background: 0xRRGGBB, what shows through where the picture is not opaque.
  func decode(background: UInt32) throws(ImageProblem) -> [Plane] {
    let color = [
      UInt32(background >> 16 & 0xFF), UInt32(background >> 8 & 0xFF), UInt32(background & 0xFF),
    ]
    let isGray =
      structure.isGray && (!structure.hasAlpha || color[0] == color[1] && color[1] == color[2])
    var planes: [Plane] = []
    for _ in 0..<(isGray ? 1 : 3) {
      planes.append(try Plane(width: structure.width, height: structure.height))
    }
    let isDeep = structure.bitDepth == 16
    let format = isDeep ? SPNG_FMT_RGBA16 : structure.hasAlpha ? SPNG_FMT_RGBA8 : SPNG_FMT_RGB8
    let step = isDeep ? 8 : structure.hasAlpha ? 4 : 3
    try forEachRow(format: format, bytesPerPixel: step) { y, row in
      for (index, plane) in planes.enumerated() {
        let target = plane.row(y)
        if isDeep {
          Self.composite16(row, channel: index, on: color[index], into: target, plane.width)
        } else if step == 4 {
          Self.composite8(row, channel: index, on: color[index], into: target, plane.width)
        } else {
          for x in 0..<plane.width { target[x] = row[3 * x + index] }
        }
      }
    }
    return planes
  }

  /// Decodes everything and keeps nothing.
  func verify() throws(ImageProblem) {
    try forEachRow(format: SPNG_FMT_RGBA8, bytesPerPixel: 4) { _, _ in }
  }

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

  /// Calls `body` with every row, top to bottom. Rows of an interlaced picture are complete only
  /// after its last pass, so such a picture is decoded whole first.
  private func forEachRow(
    format: spng_format, bytesPerPixel: Int, _ body: (Int, UnsafePointer<UInt8>) -> Void
  ) throws(ImageProblem) {
    let width = structure.width
    let height = structure.height
    let flags = Int32(SPNG_DECODE_TRNS.rawValue)
    var size = 0
    try check(spng_decoded_image_size(context, Int32(format.rawValue), &size))
    guard size == width * height * bytesPerPixel else {
      throw ImageProblem(.corrupt, "the PNG contradicts itself about its size; it is damaged")
    }
    if structure.isInterlaced {
      guard let pixels = malloc(size) else { throw .outOfMemory(width, height) }
      defer { free(pixels) }
      try check(spng_decode_image(context, pixels, size, Int32(format.rawValue), flags))
      let bytes = pixels.assumingMemoryBound(to: UInt8.self)
      for y in 0..<height { body(y, UnsafePointer(bytes + y * width * bytesPerPixel)) }
    } else {
      let length = width * bytesPerPixel
      guard let row = malloc(length) else { throw .outOfMemory(width, height) }
      defer { free(row) }
      try check(
        spng_decode_image(
          context, nil, 0, Int32(format.rawValue),
          flags | Int32(SPNG_DECODE_PROGRESSIVE.rawValue)))
      let bytes = row.assumingMemoryBound(to: UInt8.self)
      for y in 0..<height {
        let status = spng_decode_row(context, row, length)
        // The last row comes with the end-of-image code.
        if status != Int32(SPNG_EOI.rawValue) || y != height - 1 { try check(status) }
        body(y, UnsafePointer(bytes))
      }
    }
    try check(spng_decode_chunks(context))
  }

  private func check(_ status: Int32) throws(ImageProblem) {
    if status == 0 { return }
    if status == Int32(SPNG_EMEM.rawValue) {
      throw .outOfMemory(structure.width, structure.height)
    }
    throw ImageProblem(
      .corrupt,
      "the PNG is damaged (\(String(cString: spng_strerror(status)))); copy or download it again")
  }
}
