import CJPEG

enum JPEGEncoder {
  /// How many luma samples share one chroma sample, across and down: 1 or 2.
  struct Subsampling: Equatable {
    var horizontal: Int
    var vertical: Int

    static let none = Subsampling(horizontal: 1, vertical: 1)
    static let both = Subsampling(horizontal: 2, vertical: 2)

    /// The same after a turn: 4:2:2 becomes 4:4:0 and back.
    func turned(_ orientation: ImageOrientation) -> Subsampling {
      orientation.swapsAxes ? Subsampling(horizontal: vertical, vertical: horizontal) : self
    }
  }

  /// Gray (1 plane) or YCbCr (3 planes) as they are.
  static func encode(planes: [Plane], subsampling: Subsampling, quality: Int)
    throws(ImageProblem) -> [UInt8]
  {
    var output = cjpeg_output()
    let status = cjpeg_encode_planes(
      planes.map(\.descriptor), CInt(planes.count), CInt(subsampling.horizontal),
      CInt(subsampling.vertical), CInt(quality), &output)
    return try take(&output, status, planes[0].width, planes[0].height)
  }

  /// Three planes of R, G, B.
  static func encode(rgb planes: [Plane], subsampling: Subsampling, quality: Int)
    throws(ImageProblem) -> [UInt8]
  {
    var output = cjpeg_output()
    let status = cjpeg_encode_rgb(
      planes.map(\.descriptor), CInt(subsampling.horizontal), CInt(subsampling.vertical),
      CInt(quality), &output)
    return try take(&output, status, planes[0].width, planes[0].height)
  }

  /// The encoder's output; frees it.
  static func take(
    _ output: inout cjpeg_output, _ status: cjpeg_status, _ width: Int, _ height: Int
  ) throws(ImageProblem) -> [UInt8] {
    guard status == CJPEG_OK else {
      if status == CJPEG_NO_MEMORY { throw .outOfMemory(width, height) }
      let words = withUnsafeBytes(of: output.message) { buffer in
        String(decoding: buffer.prefix { $0 != 0 }, as: UTF8.self)
      }
      throw ImageProblem(.unsupportedFormat, "cannot be encoded as JPEG (\(words))")
    }
    defer { cjpeg_output_free(&output) }
    return Array(UnsafeBufferPointer(start: output.data, count: output.size))
  }
}
