/// Cyan, magenta, yellow and black where no colour profile says what they look like.
enum Inks {
  /// Four planes, 255 being no ink; the first three become R, G, B.
  ///
  /// Black dims what the other inks leave, as Pillow and most viewers have it.
  static func convertToRGB(_ planes: [Plane]) {
    for y in 0..<planes[0].height {
      let black = planes[3].row(y)
      for plane in planes.prefix(3) {
        let row = plane.row(y)
        for x in 0..<plane.width { row[x] = product(row[x], black[x]) }
      }
    }
  }

  /// a x b / 255, rounded.
  @inline(__always)
  private static func product(_ a: UInt8, _ b: UInt8) -> UInt8 {
    let product = UInt32(a) * UInt32(b) + 128
    return UInt8(truncatingIfNeeded: (product + product >> 8) >> 8)
  }
}
