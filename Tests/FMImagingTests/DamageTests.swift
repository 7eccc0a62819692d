import Testing

@testable import FMImaging

/// Damaged files give a picture or a typed error, whatever is wrong with them.
@Suite("Damaged pictures")
struct DamageTests {
  /// SplitMix64 (Steele, Lea, Flood 2014): the same damage in every run.
  private struct Seeded: RandomNumberGenerator {
    var state: UInt64
    mutating func next() -> UInt64 {
      state &+= 0x9E37_79B9_7F4A_7C15
      var z = state
      z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
      z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
      return z ^ (z >> 31)
    }
  }

  private func prepare(_ bytes: [UInt8], _ orientation: ImageOrientation) -> Result<
    PreparedImage, ImageError
  > {
    do throws(ImageError) {
      let limits = ImageLimits(maxPixels: 1 << 20)
      let source = try SourceImage(bytes: bytes, path: "damaged", limits: limits)
      return .success(
        try ImagePreparer(cacheByteLimit: 0).prepare(
          source, orientation: orientation, policy: ImagePolicy(maxLongEdge: 40)))
    } catch {
      return .failure(error)
    }
  }

  private func samples() throws -> [[UInt8]] {
    [
      Pictures.inserting(
        Pictures.exif(Pictures.tiff(orientation: 6, bigEndian: true)), into: try Pictures.jpeg()),
      try Pictures.jpeg(33, 17, gray: true),
      Pictures.inserting(
        chunk: Pictures.chunk("eXIf", Pictures.tiff(orientation: 8, bigEndian: false)),
        into: try Pictures.png()),
    ]
  }

  @Test func everyTruncationIsRefused() throws {
    for sample in try samples() {
      for length in 0..<sample.count {
        for orientation in [ImageOrientation.up, .right] {
          switch prepare(Array(sample.prefix(length)), orientation) {
          case .success: Issue.record("\(length) of \(sample.count) bytes gave a picture")
          case .failure(let error):
            #expect(error.message.hasPrefix("damaged: "))
            #expect(
              [.corrupt, .empty, .notAnImage].contains(error.kind), "\(length): \(error)")
          }
        }
      }
      _ = try prepare(sample, .right).get()
    }
  }

  @Test func flippedBytes() throws {
    var random = Seeded(state: 2026)
    for sample in try samples() {
      for _ in 0..<1500 {
        var bytes = sample
        for _ in 0..<Int.random(in: 1...4, using: &random) {
          let index = Int.random(in: bytes.indices, using: &random)
          bytes[index] = UInt8.random(in: 0...255, using: &random)
        }
        let orientation = Bool.random(using: &random) ? ImageOrientation.up : .left
        if case .success(let image) = prepare(bytes, orientation) {
          let info = try SourceImage(bytes: image.bytes).info
          #expect((info.storedWidth, info.storedHeight) == (image.width, image.height))
        }
      }
    }
  }
}
