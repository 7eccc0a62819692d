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
  func decode(background: UInt32, transform: ColorTransform?) throws(ImageProblem) -> DecodedImage {
    let isDeep = structure.bitDepth == 16
    let sink = try PlaneSink(
      width: structure.width, height: structure.height,
      layout: isDeep ? .rgba16 : structure.hasAlpha ? .rgba8 : .rgb8, isGray: structure.isGray,
      hasAlpha: structure.hasAlpha, background: background, transform: transform)
    try forEachRow(
      format: isDeep ? SPNG_FMT_RGBA16 : structure.hasAlpha ? SPNG_FMT_RGBA8 : SPNG_FMT_RGB8,
      bytesPerPixel: isDeep ? 8 : structure.hasAlpha ? 4 : 3
    ) { y, row in sink.write(row, y: y) }
    return sink.finish()
  }

  /// Decodes everything and keeps nothing.
  func verify() throws(ImageProblem) {
    try forEachRow(format: SPNG_FMT_RGBA8, bytesPerPixel: 4) { _, _ in }
  }

  /// Calls `body` with every row, top to bottom. Rows of an interlaced picture are complete only
  /// after its last pass, so such a picture is decoded whole first.
  private func forEachRow(
    format: spng_format, bytesPerPixel: Int, _ body: (Int, UnsafeMutablePointer<UInt8>) -> Void
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
      for y in 0..<height { body(y, bytes + y * width * bytesPerPixel) }
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
        body(y, bytes)
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
