import Glibc

/// Decodes the first frame of a GIF onto its canvas.
enum GIFDecoder {
  /// - Parameter background: 0xRRGGBB, what shows through where the picture is not opaque.
  static func decode(_ structure: GIFStructure, background: UInt32) throws(ImageProblem)
    -> DecodedImage
  {
    let indices = try Plane(width: structure.frameWidth, height: structure.frameHeight)
    try expand(structure, into: indices)

    var table = ColorTable()
    let palette = Array(structure.palette)
    for index in 0..<palette.count / 3 {
      table.set(index, palette[3 * index], palette[3 * index + 1], palette[3 * index + 2])
    }
    if let index = structure.transparentIndex { table.makeTransparent(index) }

    let sink = try PlaneSink(
      width: structure.width, height: structure.height, layout: .rgba8, isGray: table.isGray,
      hasAlpha: structure.hasAlpha, background: background, transform: nil)
    let row = try Plane(width: structure.width * 4, height: 1)
    var source = 0
    for y in 0..<structure.height {
      memset(row.base, 0, structure.width * 4)
      if y >= structure.y, source < structure.frameHeight {
        let values = indices.row(source)
        for x in 0..<structure.frameWidth {
          table.write(Int(values[x]), to: row.base + 4 * (structure.x + x))
        }
        source += 1
      }
      sink.write(row.base, y: y)
    }
    return sink.finish()
  }

  /// Where the rows of an interlaced frame come: every 8th, the 8ths between, the 4ths, the rest.
  private static func rowOrder(_ structure: GIFStructure) -> [Int] {
    let height = structure.frameHeight
    guard structure.isInterlaced else { return Array(0..<height) }
    var order: [Int] = []
    for (start, step) in [(0, 8), (4, 8), (2, 4), (1, 2)] {
      order += stride(from: start, to: height, by: step)
    }
    return order
  }

  /// Undoes the LZW coding. Fewer pixels than the frame has are an error, more are ignored.
  ///
  /// Source: GIF89a specification, appendix F.
  private static func expand(_ structure: GIFStructure, into plane: Plane) throws(ImageProblem) {
    let clear = 1 << structure.codeSize
    let end = clear + 1
    // Each code above `end` is another code and one value more.
    var prefix = [UInt16](repeating: 0, count: 4096)
    var suffix = [UInt8](repeating: 0, count: 4096)
    var length = [UInt16](repeating: 1, count: 4096)
    for value in 0..<clear { suffix[value] = UInt8(truncatingIfNeeded: value) }
    var next = end + 1
    var width = structure.codeSize + 1
    var previous: Int?
    var run = [UInt8](repeating: 0, count: 4096)

    let order = rowOrder(structure)
    var line = 0
    var column = 0
    var reader = BitReader(structure.data)
    while line < order.count {
      guard let code = reader.code(width) else { throw GIFStructure.cutShort }
      if code == clear {
        next = end + 1
        width = structure.codeSize + 1
        previous = nil
        continue
      }
      if code == end { throw GIFStructure.cutShort }
      guard code < next || code == next && previous != nil else { throw GIFStructure.damaged }
      if let previous, next < 4096 {
        prefix[next] = UInt16(previous)
        length[next] = length[previous] + 1
        // The first value of what this code stands for, which may be the code being defined.
        var first = code == next ? previous : code
        while first > end { first = Int(prefix[first]) }
        suffix[next] = UInt8(truncatingIfNeeded: first)
        next += 1
        if next == (1 << width), width < 12 { width += 1 }
      } else if code >= next {
        throw GIFStructure.damaged
      }
      previous = code

      let count = Int(length[code])
      var walk = code
      for index in stride(from: count - 1, through: 0, by: -1) {
        run[index] = suffix[walk]
        walk = Int(prefix[walk])
      }
      var done = 0
      while done < count, line < order.count {
        let part = min(count - done, plane.width - column)
        let target = plane.row(order[line]) + column
        for index in 0..<part { target[index] = run[done + index] }
        done += part
        column += part
        if column == plane.width {
          column = 0
          line += 1
        }
      }
    }
  }

  /// Codes from sub-blocks, the lowest bits first.
  private struct BitReader {
    private var cursor: ByteCursor
    private var left = 0
    private var bits: UInt32 = 0
    private var count = 0

    init(_ data: ArraySlice<UInt8>) { cursor = ByteCursor(data) }

    mutating func code(_ width: Int) -> Int? {
      while count < width {
        if left == 0 {
          guard let length = cursor.byte(), length > 0 else { return nil }
          left = Int(length)
        }
        guard let byte = cursor.byte() else { return nil }
        left -= 1
        bits |= UInt32(byte) << UInt32(count)
        count += 8
      }
      defer {
        bits >>= UInt32(width)
        count -= width
      }
      return Int(bits & ((1 << UInt32(width)) - 1))
    }
  }
}
