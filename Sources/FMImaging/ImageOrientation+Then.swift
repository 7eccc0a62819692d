extension ImageOrientation {
  /// Where a stored point goes: x' = a x + b y, y' = c x + d y, from the picture's centre, y down.
  private var matrix: [Int] {
    switch self {
    case .up: [1, 0, 0, 1]
    case .upMirrored: [-1, 0, 0, 1]
    case .down: [-1, 0, 0, -1]
    case .downMirrored: [1, 0, 0, -1]
    case .leftMirrored: [0, 1, 1, 0]
    case .right: [0, -1, 1, 0]
    case .rightMirrored: [0, -1, -1, 0]
    case .left: [0, 1, -1, 0]
    }
  }

  /// This turn and then another, as one.
  func then(_ next: ImageOrientation) -> ImageOrientation {
    let (m, n) = (matrix, next.matrix)
    let product = [
      n[0] * m[0] + n[1] * m[2], n[0] * m[1] + n[1] * m[3],
      n[2] * m[0] + n[3] * m[2], n[2] * m[1] + n[3] * m[3],
    ]
    return Self.allCases.first { $0.matrix == product } ?? .up
  }
}
