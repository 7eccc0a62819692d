import CWebP
import Glibc

/// Decodes a WebP's picture, or an animation's first frame, with libwebp.
enum WebPDecoder {
  /// - Parameter background: 0xRRGGBB, what shows through where the picture is not opaque.
  static func decode(_ structure: WebPStructure, background: UInt32, transform: ColorTransform?)
    throws(ImageProblem) -> DecodedImage
  {
    let (width, height) = (structure.frame.width, structure.frame.height)
    return try structure.bitstream.withUnsafeBufferPointer {
      bytes throws(ImageProblem) -> DecodedImage in
      var config = WebPDecoderConfig()
      guard WebPInitDecoderConfig(&config) != 0 else {
        throw ImageProblem(
          .unsupportedFormat, "this machine's libwebp is of another version; update libwebp7")
      }
      try check(WebPGetFeatures(bytes.baseAddress, bytes.count, &config.input), structure)
      let hasAlpha = config.input.has_alpha != 0 || !structure.coversEverything
      let step = hasAlpha ? 4 : 3
      guard Int(config.input.width) == width, Int(config.input.height) == height else {
        throw ImageProblem(.corrupt, "the WebP contradicts itself about its size; it is damaged")
      }
      // Within the limits by now: both sides are below 2^14 in any bitstream.
      let size = width * height * step
      guard let memory = malloc(size) else { throw .outOfMemory(width, height) }
      defer { free(memory) }
      let pixels = memory.assumingMemoryBound(to: UInt8.self)
      config.output.colorspace = hasAlpha ? MODE_RGBA : MODE_RGB
      config.output.is_external_memory = 1
      config.output.u.RGBA.rgba = pixels
      config.output.u.RGBA.stride = Int32(width * step)
      config.output.u.RGBA.size = size
      try check(WebPDecode(bytes.baseAddress, bytes.count, &config), structure)

      let sink = try PlaneSink(
        width: structure.width, height: structure.height, layout: hasAlpha ? .rgba8 : .rgb8,
        isGray: false, hasAlpha: hasAlpha, background: background, transform: transform)
      if structure.coversEverything {
        for y in 0..<height { sink.write(pixels + y * width * step, y: y) }
      } else {
        try place(pixels, structure, into: sink)
      }
      return sink.finish()
    }
  }

  /// Writes a frame that is smaller than the picture, with nothing around it.
  private static func place(
    _ pixels: UnsafeMutablePointer<UInt8>, _ structure: WebPStructure, into sink: PlaneSink
  ) throws(ImageProblem) {
    let frame = structure.frame
    let row = try Plane(width: structure.width * 4, height: 1)
    for y in 0..<structure.height {
      memset(row.base, 0, structure.width * 4)
      if y >= frame.y, y < frame.y + frame.height {
        memcpy(row.base + 4 * frame.x, pixels + (y - frame.y) * frame.width * 4, frame.width * 4)
      }
      sink.write(row.base, y: y)
    }
  }

  private static func check(_ status: VP8StatusCode, _ structure: WebPStructure)
    throws(ImageProblem)
  {
    switch status {
    case VP8_STATUS_OK:
      return
    case VP8_STATUS_OUT_OF_MEMORY:
      throw .outOfMemory(structure.width, structure.height)
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      throw ImageProblem(.unsupportedFormat, "this WebP is not supported; save it as JPEG or PNG")
    default:
      throw ImageProblem(
        .corrupt, "the WebP's picture data is damaged or cut short; copy or download it again")
    }
  }
}
