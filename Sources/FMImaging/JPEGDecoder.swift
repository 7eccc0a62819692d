import CJPEG

/// One libjpeg decoder over bytes in memory; frees what it holds with itself.
///
/// The bytes given to `init` must stay alive and in place as long as the decoder.
final class JPEGDecoder {
  let handle: OpaquePointer
  private(set) var header = cjpeg_header()

  /// Reads the header.
  init(_ bytes: UnsafeBufferPointer<UInt8>) throws(ImageProblem) {
    guard let handle = cjpeg_decoder_new(bytes.baseAddress, bytes.count) else {
      throw ImageProblem(.tooLarge, "not enough memory to decode a JPEG")
    }
    self.handle = handle
    try check(cjpeg_decoder_read_header(handle, &header))
  }

  deinit { cjpeg_decoder_free(handle) }

  /// The part of a component's plane that the picture covers, in samples at the current scale:
  /// not whole when the picture's size is no multiple of the sampling.
  func extent(of component: cjpeg_component) -> (width: Double, height: Double) {
    let across = component.h_samp * component.block_size
    let down = component.v_samp * component.block_size
    return (
      Double(Int(header.width) * Int(across)) / Double(header.max_h_samp * 8),
      Double(Int(header.height) * Int(down)) / Double(header.max_v_samp * 8)
    )
  }

  var components: [cjpeg_component] {
    let all = header.components
    return Array([all.0, all.1, all.2, all.3].prefix(Int(header.component_count)))
  }

  /// Harmless oddities that were passed over so far.
  var warningCount: Int { Int(cjpeg_decoder_warning_count(handle)) }

  /// Whether bytes that belong to nothing were passed over so far from the first scan on, such as some
  /// behind its data.
  var hasForeignBytes: Bool { cjpeg_decoder_has_foreign_bytes(handle) }

  /// Decodes all components as they are stored, at 1/`denominator`.
  ///
  /// - Parameter sharesChroma: All are scaled alike. Else subsampled chroma is scaled less than the
  ///   luma as far as that is cheap; `header.is_reduced` tells the difference afterwards.
  func decodePlanes(denominator: Int, sharesChroma: Bool) throws(ImageProblem) -> [Plane] {
    let form = sharesChroma ? CJPEG_SMALL_PLANES : CJPEG_PLANES
    try check(cjpeg_decoder_start(handle, form, CInt(denominator), &header))
    var planes: [Plane] = []
    for component in components {
      planes.append(
        try Plane(
          width: Int(component.width), height: Int(component.height),
          paddedWidth: Int(component.padded_width), paddedHeight: Int(component.padded_height)))
    }
    try check(cjpeg_decoder_read_planes(handle, planes.map(\.descriptor)))
    try check(cjpeg_decoder_finish(handle))
    return planes
  }

  /// Decodes four components at 1/`denominator` to planes of C, M, Y, K, 255 being no ink.
  ///
  /// Adobe's programs store the inks inverted and nearly every CMYK JPEG is theirs; like Pillow,
  /// this takes all of them so, whatever their markers say.
  func decodeInks(denominator: Int) throws(ImageProblem) -> [Plane] {
    try check(cjpeg_decoder_start(handle, CJPEG_ROWS, CInt(denominator), &header))
    let width = Int(header.output_width)
    let height = Int(header.output_height)
    var planes: [Plane] = []
    for _ in 0..<4 { planes.append(try Plane(width: width, height: height)) }
    let inks = try Plane(width: width * 4, height: 1)
    for y in 0..<height {
      try check(cjpeg_decoder_read_row(handle, inks.base))
      for (index, plane) in planes.enumerated() {
        let row = plane.row(y)
        for x in 0..<width { row[x] = inks.base[4 * x + index] }
      }
    }
    try check(cjpeg_decoder_finish(handle))
    return planes
  }

  /// Decodes the entropy-coded data to its end and keeps nothing.
  ///
  /// At 1/8 only the Huffman decoding costs anything, and progressive pictures their coefficients.
  func verify() throws(ImageProblem) {
    try check(cjpeg_decoder_start(handle, CJPEG_SMALL_PLANES, 8, &header))
    try check(cjpeg_decoder_read_planes(handle, nil))
    try check(cjpeg_decoder_finish(handle))
  }

  private func check(_ status: cjpeg_status) throws(ImageProblem) {
    let words = String(cString: cjpeg_decoder_message(handle))
    switch status {
    case CJPEG_OK:
      return
    case CJPEG_NO_MEMORY:
      throw .outOfMemory(Int(header.width), Int(header.height))
    case CJPEG_UNSUPPORTED:
      throw ImageProblem(
        .unsupportedFormat, "this JPEG is not supported (\(words)); save it as ordinary JPEG")
    default:
      throw ImageProblem(
        .corrupt, "the JPEG is damaged or cut short (\(words)); copy or download it again")
    }
  }
}

extension Plane {
  var descriptor: cjpeg_plane {
    cjpeg_plane(data: base, stride: stride, width: CInt(width), height: CInt(height))
  }
}
