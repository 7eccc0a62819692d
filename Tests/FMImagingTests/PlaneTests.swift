import Testing

@testable import FMImaging

@Suite("Turning and scaling planes")
struct PlaneTests {
  /// Where a stored pixel belongs, word for word from the Exif table: the side where row 0 is,
  /// then the side where column 0 is.
  private func upright(
    _ orientation: ImageOrientation, x: Int, y: Int, width: Int, height: Int
  ) -> (x: Int, y: Int) {
    switch orientation {
    case .up: (x, y)  // top, left
    case .upMirrored: (width - 1 - x, y)  // top, right
    case .down: (width - 1 - x, height - 1 - y)  // bottom, right
    case .downMirrored: (x, height - 1 - y)  // bottom, left
    case .leftMirrored: (y, x)  // left, top
    case .right: (height - 1 - y, x)  // right, top
    case .rightMirrored: (height - 1 - y, width - 1 - x)  // right, bottom
    case .left: (y, width - 1 - x)  // left, bottom
    }
  }

  @Test(arguments: ImageOrientation.allCases)
  func everyPixelLandsWhereExifSays(_ orientation: ImageOrientation) throws {
    for (width, height) in [(1, 1), (7, 5), (8, 8), (64, 64), (65, 129), (100, 3), (3, 100)] {
      let plane = try Pictures.plane(width, height)
      let turned = try plane.turned(orientation)
      #expect(turned.width == (orientation.swapsAxes ? height : width))
      var wrong = 0
      for y in 0..<height {
        for x in 0..<width {
          let target = upright(orientation, x: x, y: y, width: width, height: height)
          if turned.row(target.y)[target.x] != plane.row(y)[x] { wrong += 1 }
        }
      }
      #expect(wrong == 0, "\(orientation) \(width) x \(height)")
    }
  }

  /// A constant stays constant at any ratio, a ramp keeps its ends and its order.
  @Test(arguments: [(97, 13), (13, 97), (500, 499), (2, 1), (1000, 1)])
  func scaling(from: Int, to: Int) throws {
    let flat = try Plane(width: from, height: 3)
    let ramp = try Plane(width: from, height: 3)
    for y in 0..<3 {
      for x in 0..<from {
        flat.row(y)[x] = 200
        ramp.row(y)[x] = UInt8(x * 255 / max(1, from - 1))
      }
    }
    let region = PlaneScaler.Region(x: 0, y: 0, width: Double(from), height: 3)
    let scaler = PlaneScaler()
    let a = try scaler.scale(flat, region: region, width: to, height: 3)
    let b = try scaler.scale(ramp, region: region, width: to, height: 3)
    for x in 0..<to { #expect(a.row(1)[x] == 200) }
    for x in 1..<max(2, to) where x < to { #expect(Int(b.row(1)[x]) >= Int(b.row(1)[x - 1]) - 1) }
  }

  /// A filter that is kept for the next plane gives what one made for it gives.
  @Test func aScalerForSeveralSizes() throws {
    func plane(_ width: Int, _ height: Int) throws -> Plane {
      let plane = try Plane(width: width, height: height)
      for y in 0..<height { for x in 0..<width { plane.row(y)[x] = UInt8((x * 7 + y * 13) % 256) } }
      return plane
    }
    func rows(_ plane: Plane) -> [[UInt8]] {
      (0..<plane.height).map {
        Array(UnsafeBufferPointer(start: plane.row($0), count: plane.width))
      }
    }
    let scaler = PlaneScaler()
    for (width, height) in [(90, 60), (90, 60), (45, 30), (90, 60), (60, 90)] {
      for start in [0, 0.5] {
        let region = PlaneScaler.Region(x: start, y: 0, width: 40, height: 30)
        let kept = try scaler.scale(try plane(width, height), region: region, width: 17, height: 11)
        let fresh = try PlaneScaler().scale(
          try plane(width, height), region: region, width: 17, height: 11)
        #expect(rows(kept) == rows(fresh))
      }
    }
  }

  @Test func absurdSizesAreErrors() {
    #expect(throws: ImageProblem.self) { try Plane(width: .max / 2, height: 4) }
    #expect(throws: ImageProblem.self) { try Plane(width: 1 << 40, height: 1 << 20) }
  }
}
