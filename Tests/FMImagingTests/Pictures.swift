import Testing

@testable import FMImaging

/// Small pictures made in memory. What they hold is known; how their pixels must come out is held
/// against Pillow in Tests/python/test_images.py.
enum Pictures {
  /// A smooth plane with a dark corner at the top left, so that a turn shows.
  static func plane(_ width: Int, _ height: Int, seed: Int = 0) throws -> Plane {
    let plane = try Plane(width: width, height: height)
    for y in 0..<height {
      for x in 0..<width {
        plane.row(y)[x] = UInt8((x * 3 + y * 2 + seed + (x * y) % 7) % 256)
      }
    }
    return plane
  }

  static func jpeg(_ width: Int = 48, _ height: Int = 32, gray: Bool = false) throws -> [UInt8] {
    if gray {
      return try JPEGEncoder.encode(
        planes: [plane(width, height)], subsampling: .none, quality: 90)
    }
    let planes = try [0, 60, 120].map { try plane(width, height, seed: $0) }
    return try JPEGEncoder.encode(rgb: planes, subsampling: .both, quality: 90)
  }

  static func png(_ width: Int = 48, _ height: Int = 32) throws -> [UInt8] {
    let planes = try [0, 60, 120].map { try plane(width, height, seed: $0) }
    return try #require(try PNGEncoder.encode(planes, budget: .max))
  }

  /// A TIFF block whose only entry is the orientation, in either byte order.
  static func tiff(orientation: UInt8, bigEndian: Bool) -> [UInt8] {
    bigEndian
      ? [
        0x4D, 0x4D, 0, 42, 0, 0, 0, 8, 0, 1, 0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, orientation, 0, 0,
        0, 0, 0, 0,
      ]
      : [
        0x49, 0x49, 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 0x01, 3, 0, 1, 0, 0, 0, orientation, 0, 0, 0,
        0, 0, 0, 0,
      ]
  }

  static func segment(_ marker: UInt8, _ payload: [UInt8]) -> [UInt8] {
    let length = payload.count + 2
    return [0xFF, marker, UInt8(length >> 8), UInt8(length & 255)] + payload
  }

  static func inserting(_ segments: [UInt8]..., into jpeg: [UInt8]) -> [UInt8] {
    Array(jpeg[..<2]) + segments.flatMap { $0 } + jpeg[2...]
  }

  static func exif(_ tiff: [UInt8]) -> [UInt8] { segment(0xE1, Array("Exif\0\0".utf8) + tiff) }

  static func chunk(_ type: String, _ payload: [UInt8]) -> [UInt8] {
    let body = Array(type.utf8) + payload
    let length = UInt32(payload.count)
    return big(length) + body + big(crc(body))
  }

  /// The PNG with a chunk right after its header.
  static func inserting(chunk: [UInt8], into png: [UInt8]) -> [UInt8] {
    Array(png[..<33]) + chunk + png[33...]
  }

  static func pngHeader(_ width: UInt32, _ height: UInt32) -> [UInt8] {
    PNGStructure.signature + chunk("IHDR", big(width) + big(height) + [8, 2, 0, 0, 0])
  }

  static func big(_ value: UInt32) -> [UInt8] {
    (0..<4).map { UInt8(value >> (24 - 8 * $0) & 255) }
  }

  /// CRC-32 bit by bit, as the PNG specification's annex D defines it.
  static func crc(_ bytes: [UInt8]) -> UInt32 {
    ~bytes.reduce(UInt32.max) { crc, byte in
      (0..<8).reduce(crc ^ UInt32(byte)) { value, _ in
        value & 1 == 1 ? 0xEDB8_8320 ^ (value >> 1) : value >> 1
      }
    }
  }
}

extension [UInt8] {
  func contains(_ text: String) -> Bool {
    let needle = Array(text.utf8)
    guard count >= needle.count else { return false }
    return (0...(count - needle.count)).contains {
      self[$0..<$0 + needle.count].elementsEqual(needle)
    }
  }
}
