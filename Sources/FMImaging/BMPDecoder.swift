import Glibc

/// Decodes a BMP.
enum BMPDecoder {
  /// - Parameter background: 0xRRGGBB, what shows through where the picture is not opaque.
  static func decode(_ structure: BMPStructure, background: UInt32, transform: ColorTransform?)
    throws(ImageProblem) -> DecodedImage
  {
    var table = ColorTable()
    let palette = Array(structure.palette)
    let step = structure.paletteStep
    for index in 0..<palette.count / step {
      let entry = step * index
      table.set(index, palette[entry + 2], palette[entry + 1], palette[entry])
    }

    let sink = try PlaneSink(
      width: structure.width, height: structure.height, layout: .rgba8,
      isGray: structure.bitsPerPixel <= 8 && table.isGray,
      hasAlpha: structure.masks[3] != 0, background: background, transform: transform)
    let row = try Plane(width: structure.width * 4, height: 1)
    let indices = structure.coding == .runs ? try BMPRuns.expand(structure) : nil
    for y in 0..<structure.height {
      let stored = structure.isTopDown ? y : structure.height - 1 - y
      if let indices {
        let values = indices.row(stored)
        for x in 0..<structure.width { table.write(Int(values[x]), to: row.base + 4 * x) }
      } else {
        structure.data.withUnsafeBufferPointer { data in
          read(data.baseAddress! + stored * structure.rowBytes, structure, table, into: row.base)
        }
      }
      sink.write(row.base, y: y)
    }
    return sink.finish()
  }

  private static func read(
    _ bytes: UnsafePointer<UInt8>, _ structure: BMPStructure, _ table: ColorTable,
    into row: UnsafeMutablePointer<UInt8>
  ) {
    let bits = structure.bitsPerPixel
    switch bits {
    case 1, 4, 8:
      for x in 0..<structure.width {
        let position = x * bits
        let value = bytes[position >> 3] >> UInt8(8 - bits - (position & 7))
        table.write(Int(value) & ((1 << bits) - 1), to: row + 4 * x)
      }
    case 24:
      for x in 0..<structure.width {
        for channel in 0..<3 { row[4 * x + channel] = bytes[3 * x + 2 - channel] }
        row[4 * x + 3] = 255
      }
    default:
      let size = bits / 8
      for x in 0..<structure.width {
        var value: UInt32 = 0
        for index in 0..<size { value |= UInt32(bytes[size * x + index]) << UInt32(8 * index) }
        for channel in 0..<4 { row[4 * x + channel] = sample(value, structure.masks[channel]) }
        if structure.masks[3] == 0 { row[4 * x + 3] = 255 }
      }
    }
  }

  /// The masked bits, scaled to 0...255 and rounded.
  @inline(__always)
  private static func sample(_ value: UInt32, _ mask: UInt32) -> UInt8 {
    if mask == 0 { return 0 }
    let shift = UInt32(mask.trailingZeroBitCount)
    let most = UInt64(mask >> shift)
    return UInt8((UInt64((value & mask) >> shift) * 255 + most / 2) / most)
  }
}
