import CSPNG
import Glibc

/// Encodes 8-bit gray or RGB planes as PNG, row by row, and gives up when it grows too large.
enum PNGEncoder {
  /// Where libspng's output goes.
  private struct Sink {
    var bytes: [UInt8] = []
    var budget: Int
    var isOverBudget = false
  }

  /// The encoded file; nil as soon as it is certain to have more than `budget` bytes.
  static func encode(_ planes: [Plane], budget: Int) throws(ImageProblem) -> [UInt8]? {
    let width = planes[0].width
    let height = planes[0].height
    guard let context = spng_ctx_new(Int32(SPNG_CTX_ENCODER.rawValue)) else {
      throw .outOfMemory(width, height)
    }
    defer { spng_ctx_free(context) }
    guard let row = malloc(width * planes.count) else { throw .outOfMemory(width, height) }
    defer { free(row) }
    let pixels = row.assumingMemoryBound(to: UInt8.self)

    var sink = Sink(budget: budget)
    let status = withUnsafeMutablePointer(to: &sink) { sink -> Int32 in
      var header = spng_ihdr(
        width: UInt32(width), height: UInt32(height), bit_depth: 8,
        color_type: UInt8(
          planes.count == 1
            ? SPNG_COLOR_TYPE_GRAYSCALE.rawValue : SPNG_COLOR_TYPE_TRUECOLOR.rawValue),
        compression_method: 0, filter_method: 0, interlace_method: 0)
      var status = spng_set_ihdr(context, &header)
      if status == 0 {
        status = spng_set_png_stream(
          context,
          { _, sink, data, length in
            guard let sink = sink?.assumingMemoryBound(to: Sink.self), let data else {
              return Int32(SPNG_IO_ERROR.rawValue)
            }
            guard sink.pointee.bytes.count + length <= sink.pointee.budget else {
              sink.pointee.isOverBudget = true
              return Int32(SPNG_IO_ERROR.rawValue)
            }
            sink.pointee.bytes += UnsafeRawBufferPointer(start: data, count: length)
            return 0
          }, sink)
      }
      if status == 0 {
        status = spng_encode_image(
          context, nil, 0, Int32(SPNG_FMT_PNG.rawValue),
          Int32(SPNG_ENCODE_PROGRESSIVE.rawValue | SPNG_ENCODE_FINALIZE.rawValue))
      }
      for y in 0..<height where status == 0 {
        for (index, plane) in planes.enumerated() {
          let source = plane.row(y)
          for x in 0..<width { pixels[planes.count * x + index] = source[x] }
        }
        status = spng_encode_row(context, row, width * planes.count)
        // The last row comes with the end-of-image code.
        if status == Int32(SPNG_EOI.rawValue), y == height - 1 { status = 0 }
      }
      return status
    }
    if sink.isOverBudget { return nil }
    guard status == 0 else {
      if status == Int32(SPNG_EMEM.rawValue) { throw .outOfMemory(width, height) }
      throw ImageProblem(
        .unsupportedFormat, "cannot be encoded as PNG (\(String(cString: spng_strerror(status))))")
    }
    return sink.bytes
  }
}
