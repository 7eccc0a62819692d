import Glibc

extension Plane {
  /// The plane turned upright; `self` where there is nothing to turn.
  ///
  /// Costs one read and one write of every sample, 8 x 8 samples at a time in tiles that stay in
  /// the first-level cache.
  func turned(_ orientation: ImageOrientation) throws(ImageProblem) -> Plane {
    if orientation == .up { return self }
    if orientation.swapsAxes {
      let output = try Plane(width: height, height: width)
      transpose(
        into: output, mirrorsX: orientation.mirrorsX, mirrorsY: orientation.mirrorsY)
      return output
    }
    let output = try Plane(width: width, height: height)
    for y in 0..<height {
      let source = row(orientation.mirrorsY ? height - 1 - y : y)
      let target = output.row(y)
      if orientation.mirrorsX {
        reverse(source, into: target)
      } else {
        memcpy(target, source, width)
      }
    }
    return output
  }

  private func reverse(
    _ source: UnsafeMutablePointer<UInt8>, into target: UnsafeMutablePointer<UInt8>
  ) {
    var x = 0
    while x + 8 <= width {
      let eight = UnsafeRawPointer(source + width - 8 - x).loadUnaligned(as: UInt64.self)
      UnsafeMutableRawPointer(target + x).storeBytes(of: eight.byteSwapped, as: UInt64.self)
      x += 8
    }
    while x < width {
      target[x] = source[width - 1 - x]
      x += 1
    }
  }

  /// Row y of the output is column y of this plane, counted from the other end where mirrored.
  private func transpose(into output: Plane, mirrorsX: Bool, mirrorsY: Bool) {
    let tile = 64
    for top in Swift.stride(from: 0, to: output.height, by: tile) {
      let bottom = min(top + tile, output.height)
      for left in Swift.stride(from: 0, to: output.width, by: tile) {
        let right = min(left + tile, output.width)
        for y in Swift.stride(from: top, to: bottom, by: 8) {
          for x in Swift.stride(from: left, to: right, by: 8) {
            if y + 8 <= bottom, x + 8 <= right {
              transposeBlock(into: output, x: x, y: y, mirrorsX: mirrorsX, mirrorsY: mirrorsY)
            } else {
              for v in y..<min(y + 8, bottom) {
                let column = mirrorsX ? width - 1 - v : v
                for u in x..<min(x + 8, right) {
                  output.row(v)[u] = row(mirrorsY ? height - 1 - u : u)[column]
                }
              }
            }
          }
        }
      }
    }
  }

  /// 8 x 8 samples: eight rows as 64-bit words, transposed by exchanging ever smaller quadrants
  /// (Warren, Hacker's Delight, section 7-3).
  @inline(__always)
  private func transposeBlock(
    into output: Plane, x: Int, y: Int, mirrorsX: Bool, mirrorsY: Bool
  ) {
    let column = mirrorsX ? width - 8 - y : y
    @inline(__always) func load(_ index: Int) -> UInt64 {
      let source = row(mirrorsY ? height - 1 - (x + index) : x + index) + column
      let word = UInt64(littleEndian: UnsafeRawPointer(source).loadUnaligned(as: UInt64.self))
      return mirrorsX ? word.byteSwapped : word
    }
    @inline(__always) func exchange(
      _ a: inout UInt64, _ b: inout UInt64, _ shift: UInt64, _ mask: UInt64
    ) {
      let difference = ((a >> shift) ^ b) & mask
      b ^= difference
      a ^= difference << shift
    }
    var (a, b, c, d) = (load(0), load(1), load(2), load(3))
    var (e, f, g, h) = (load(4), load(5), load(6), load(7))
    exchange(&a, &e, 32, 0x0000_0000_FFFF_FFFF)
    exchange(&b, &f, 32, 0x0000_0000_FFFF_FFFF)
    exchange(&c, &g, 32, 0x0000_0000_FFFF_FFFF)
    exchange(&d, &h, 32, 0x0000_0000_FFFF_FFFF)
    exchange(&a, &c, 16, 0x0000_FFFF_0000_FFFF)
    exchange(&b, &d, 16, 0x0000_FFFF_0000_FFFF)
    exchange(&e, &g, 16, 0x0000_FFFF_0000_FFFF)
    exchange(&f, &h, 16, 0x0000_FFFF_0000_FFFF)
    exchange(&a, &b, 8, 0x00FF_00FF_00FF_00FF)
    exchange(&c, &d, 8, 0x00FF_00FF_00FF_00FF)
    exchange(&e, &f, 8, 0x00FF_00FF_00FF_00FF)
    exchange(&g, &h, 8, 0x00FF_00FF_00FF_00FF)
    @inline(__always) func store(_ word: UInt64, _ index: Int) {
      UnsafeMutableRawPointer(output.row(y + index) + x)
        .storeBytes(of: word.littleEndian, as: UInt64.self)
    }
    store(a, 0)
    store(b, 1)
    store(c, 2)
    store(d, 3)
    store(e, 4)
    store(f, 5)
    store(g, 6)
    store(h, 7)
  }
}

extension ImageOrientation {
  /// Whether turning upright reads the stored columns from right to left.
  var mirrorsX: Bool {
    switch self {
    case .upMirrored, .down, .rightMirrored, .left: true
    case .up, .downMirrored, .leftMirrored, .right: false
    }
  }

  /// Whether turning upright reads the stored rows from bottom to top.
  var mirrorsY: Bool {
    switch self {
    case .down, .downMirrored, .right, .rightMirrored: true
    case .up, .upMirrored, .leftMirrored, .left: false
    }
  }
}
