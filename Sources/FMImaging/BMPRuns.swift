import Glibc

/// Undoes the run-length coding of BMP files.
///
/// Source: Microsoft, "Bitmap Compression". Pixels that are skipped over have index 0, as in other
/// viewers; data that ends before the last row and says so is whole.
enum BMPRuns {
  /// The indices in stored order, the bottom row first.
  static func expand(_ structure: BMPStructure) throws(ImageProblem) -> Plane {
    let plane = try Plane(width: structure.width, height: structure.height)
    for y in 0..<plane.height { memset(plane.row(y), 0, plane.width) }
    let isNarrow = structure.bitsPerPixel == 4
    var cursor = ByteCursor(structure.data)
    var x = 0
    var y = 0

    func put(_ value: UInt8) {
      if x < plane.width, y < plane.height { plane.row(y)[x] = value }
      x += 1
    }

    while y < plane.height {
      guard let count = cursor.byte(), let value = cursor.byte() else {
        throw BMPStructure.cutShort
      }
      if count > 0 {
        for index in 0..<Int(count) {
          put(isNarrow ? (index & 1 == 0 ? value >> 4 : value & 15) : value)
        }
        continue
      }
      switch value {
      case 0:
        x = 0
        y += 1
      case 1:
        return plane
      case 2:
        guard let right = cursor.byte(), let up = cursor.byte() else {
          throw BMPStructure.cutShort
        }
        x += Int(right)
        y += Int(up)
      default:
        // Values as they are, padded to 16 bits.
        let length = isNarrow ? (Int(value) + 1) / 2 : Int(value)
        guard let values = cursor.take(length), cursor.skip(length & 1) else {
          throw BMPStructure.cutShort
        }
        for index in 0..<Int(value) {
          let byte = values[values.startIndex + (isNarrow ? index / 2 : index)]
          put(isNarrow ? (index & 1 == 0 ? byte >> 4 : byte & 15) : byte)
        }
      }
    }
    return plane
  }
}
