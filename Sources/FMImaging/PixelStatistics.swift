/// What decides how a picture is encoded: counted, never guessed, so that the same pixels always
/// give the same file.
enum PixelStatistics {
  /// Whether at least three of five pixels are exactly like their left or their upper neighbour, as
  /// in screenshots and diagrams, scaled ones too. In photos noise keeps it below half, but for
  /// skies and black borders.
  ///
  /// Costs one pass over the planes.
  static func isDrawing(_ planes: [Plane]) -> Bool {
    let width = planes[0].width
    let height = planes[0].height
    guard width > 1, height > 1 else { return true }
    var same = 0
    for y in 1..<height {
      var count: Int32 = 0
      switch planes.count {
      case 1:
        let (a, b) = (planes[0].row(y), planes[0].row(y - 1))
        for x in 1..<width { count &+= a[x] == a[x - 1] || a[x] == b[x] ? 1 : 0 }
      default:
        let (a, b) = (planes[0].row(y), planes[0].row(y - 1))
        let (c, d) = (planes[1].row(y), planes[1].row(y - 1))
        let (e, f) = (planes[2].row(y), planes[2].row(y - 1))
        for x in 1..<width {
          let left = (a[x] ^ a[x - 1]) | (c[x] ^ c[x - 1]) | (e[x] ^ e[x - 1])
          let above = (a[x] ^ b[x]) | (c[x] ^ d[x]) | (e[x] ^ f[x])
          count &+= left == 0 || above == 0 ? 1 : 0
        }
      }
      same += Int(count)
    }
    return 5 * same >= 3 * (width - 1) * (height - 1)
  }

  /// Whether colours change so abruptly and often that halving the chroma would blur what is
  /// written in colour: more than one sample in 100 differs from its left neighbour by an eighth of
  /// the range.
  ///
  /// Costs a pass over every fourth row.
  static func hasSharpColor(chroma planes: some Collection<Plane>) -> Bool {
    planes.contains { changesOften($0, by: 32) }
  }

  /// Whether that could be so in planes of twice the size that these were made from: a line one
  /// sample wide has lost half of its contrast here.
  static func mayHaveSharpColor(halvedChroma planes: some Collection<Plane>) -> Bool {
    planes.contains { changesOften($0, by: 16) }
  }

  private static func changesOften(_ plane: Plane, by step: Int32) -> Bool {
    isOften(plane.width, plane.height) { y, x in
      let row = plane.row(y)
      return abs(Int32(row[x]) - Int32(row[x - 1])) >= step
    }
  }

  /// The same for red, green and blue, by the differences of red and blue to green.
  static func hasSharpColor(rgb planes: [Plane]) -> Bool {
    [0, 2].contains { index in
      isOften(planes[0].width, planes[0].height) { y, x in
        let (color, green) = (planes[index].row(y), planes[1].row(y))
        let here = Int32(color[x]) - Int32(green[x])
        // Cb and Cr are about 0.56 and 0.71 of these differences.
        return abs(here - (Int32(color[x - 1]) - Int32(green[x - 1]))) >= 52
      }
    }
  }

  @inline(__always)
  private static func isOften(_ width: Int, _ height: Int, _ differs: (Int, Int) -> Bool) -> Bool {
    guard width > 1 else { return false }
    var found = 0
    var rows = 0
    for y in stride(from: height / 2 % 4, to: height, by: 4) {
      var count: Int32 = 0
      for x in 1..<width { count &+= differs(y, x) ? 1 : 0 }
      found += Int(count)
      rows += 1
    }
    return 100 * found > rows * (width - 1)
  }
}
