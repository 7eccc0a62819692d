import Glibc

/// One channel of a picture, 8 bits a sample, in memory of its own.
///
/// Rows begin on 64-byte boundaries, as the resizer's SIMD code wants them, and hold whole 64-byte
/// units, so that writing up to the next multiple of 8 samples is always within the row.
final class Plane {
  let base: UnsafeMutablePointer<UInt8>
  /// Bytes from one row to the next.
  let stride: Int
  /// Samples that belong to the picture.
  private(set) var width: Int
  private(set) var height: Int

  /// - Parameters:
  ///   - paddedWidth: Samples a row has room for, where a decoder writes beyond `width`.
  ///   - paddedHeight: Rows there is room for.
  init(width: Int, height: Int, paddedWidth: Int = 0, paddedHeight: Int = 0)
    throws(ImageProblem)
  {
    let stride = (max(width, paddedWidth) + 63) & ~63
    let (size, overflow) = stride.multipliedReportingOverflow(by: max(height, paddedHeight))
    guard !overflow, size > 0, let memory = aligned_alloc(64, size) else {
      throw .outOfMemory(width, height)
    }
    base = memory.bindMemory(to: UInt8.self, capacity: size)
    self.stride = stride
    self.width = width
    self.height = height
  }

  deinit { free(base) }

  func row(_ y: Int) -> UnsafeMutablePointer<UInt8> { base + y * stride }

  /// Leaves out samples at the right and rows at the bottom.
  func crop(width: Int, height: Int) {
    precondition(width <= self.stride && height <= self.height)
    self.width = width
    self.height = height
  }
}
