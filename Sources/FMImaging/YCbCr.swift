/// The colour model of JPEG: full-range Y, Cb, Cr.
enum YCbCr {
  /// Converts three planes of one size to R, G, B in place.
  ///
  /// Source: ITU-T T.871, section 7, with 16 binary places.
  static func convertToRGB(_ planes: [Plane]) {
    for y in 0..<planes[0].height {
      let (first, second, third) = (planes[0].row(y), planes[1].row(y), planes[2].row(y))
      for x in 0..<planes[0].width {
        let luma = Int32(first[x]) << 16 + 32768
        let blue = Int32(second[x]) - 128
        let red = Int32(third[x]) - 128
        first[x] = clamped((luma + 91881 * red) >> 16)
        second[x] = clamped((luma - 22554 * blue - 46802 * red) >> 16)
        third[x] = clamped((luma + 116130 * blue) >> 16)
      }
    }
  }

  @inline(__always)
  private static func clamped(_ value: Int32) -> UInt8 {
    UInt8(truncatingIfNeeded: max(0, min(255, value)))
  }
}
