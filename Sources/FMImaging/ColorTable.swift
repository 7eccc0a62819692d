/// The colours that the indices 0 to 255 stand for; what a file's palette lacks is black.
struct ColorTable {
  /// R, G, B, A of each.
  private var samples = [UInt8](repeating: 0, count: 256 * 4)

  init() {
    for index in 0..<256 { samples[4 * index + 3] = 255 }
  }

  /// R, G, B of one index.
  mutating func set(_ index: Int, _ red: UInt8, _ green: UInt8, _ blue: UInt8) {
    samples[4 * index] = red
    samples[4 * index + 1] = green
    samples[4 * index + 2] = blue
  }

  mutating func makeTransparent(_ index: Int) { samples[4 * index + 3] = 0 }

  var isGray: Bool {
    for index in 0..<256 {
      let red = samples[4 * index]
      if samples[4 * index + 1] != red || samples[4 * index + 2] != red { return false }
    }
    return true
  }

  /// Writes R, G, B, A of an index.
  @inline(__always)
  func write(_ index: Int, to pixel: UnsafeMutablePointer<UInt8>) {
    for channel in 0..<4 { pixel[channel] = samples[4 * index + channel] }
  }
}
