import Synchronization
import Testing

@testable import FMImaging

@Suite("Preparing a picture")
struct ImagePreparerTests {
  private let preparer = ImagePreparer(cacheByteLimit: 0)

  @Test func passThroughKeepsTheDataBitForBit() throws {
    for gray in [false, true] {
      let plain = try Pictures.jpeg(gray: gray)
      let decorated =
        Pictures.inserting(
          Pictures.exif(Pictures.tiff(orientation: 1, bigEndian: false) + Array("GPS".utf8)),
          Pictures.segment(0xE1, Array("http://ns.adobe.com/xap/1.0/\0secret".utf8)),
          Pictures.segment(0xED, Array("Photoshop 3.0\0secret".utf8)),
          Pictures.segment(0xFE, Array("secret comment".utf8)), into: plain)
        + Array("secret".utf8) + plain
      let image = try preparer.prepare(SourceImage(bytes: decorated))
      #expect(image.action == .passThrough)
      // What the encoder wrote is SOI, JFIF, tables, frame, scan, EOI: nothing else may differ.
      #expect(image.bytes == plain)
      #expect(!image.bytes.contains("secret") && !image.bytes.contains("Exif"))
      // Once more changes nothing.
      #expect(try preparer.prepare(SourceImage(bytes: image.bytes)).bytes == image.bytes)
    }
  }

  @Test func pngPassThroughKeepsCriticalChunksOnly() throws {
    let plain = try Pictures.png()
    var decorated = plain
    for (type, text) in [("tEXt", "Comment\0secret"), ("eXIf", "broken"), ("tIME", "0123456")] {
      decorated = Pictures.inserting(
        chunk: Pictures.chunk(type, Array(text.utf8)), into: decorated)
    }
    let image = try preparer.prepare(
      SourceImage(bytes: decorated + Array("secret".utf8)))
    #expect(image.action == .passThrough && image.format == .png)
    #expect(image.bytes == plain)
  }

  @Test func countsWhatIsPassedOver() throws {
    func count(_ bytes: [UInt8]) throws -> Int {
      try preparer.prepare(SourceImage(bytes: bytes)).warningCount
    }
    let (jpeg, png) = try (Pictures.jpeg(), Pictures.png())
    #expect(try count(jpeg) == 0)
    #expect(try count(png) == 0)
    let exif = Pictures.exif(Array("MM\0*".utf8) + [255, 255, 255, 255])
    #expect(try count(Pictures.inserting(exif, into: jpeg)) == 1)
    let profile = Pictures.segment(
      0xE2, Array("ICC_PROFILE\0".utf8) + [1, 1] + [UInt8](repeating: 0, count: 200))
    #expect(try count(Pictures.inserting(exif, profile, into: jpeg)) == 2)
    let chunk = Pictures.chunk("eXIf", Array("broken".utf8))
    #expect(try count(Pictures.inserting(chunk: chunk, into: png)) == 1)
  }

  @Test(arguments: ImageOrientation.allCases)
  func turnsAndStatesSizes(_ orientation: ImageOrientation) throws {
    let tiff = Pictures.tiff(orientation: UInt8(orientation.rawValue), bigEndian: true)
    let source = try SourceImage(
      bytes: Pictures.inserting(Pictures.exif(tiff), into: Pictures.jpeg(97, 65)))
    let image = try preparer.prepare(source)
    let upright = orientation.swapsAxes ? (65, 97) : (97, 65)
    #expect((image.width, image.height) == upright)
    #expect((image.originalWidth, image.originalHeight) == upright)
    let again = try SourceImage(bytes: image.bytes)
    #expect((again.info.storedWidth, again.info.storedHeight) == upright)
    #expect(again.info.orientation == .up)
    // 97 x 65 pixels are no whole blocks: only turns that mirror nothing lose nothing.
    let expected: PreparedImage.Action =
      switch orientation {
      case .up: .passThrough
      case .leftMirrored: .losslessTurn
      default: .reencoded
      }
    #expect(image.action == expected)
    #expect(!image.bytes.contains("Exif"))
    // An explicit orientation replaces the file's, never adds to it.
    #expect(try preparer.prepare(source, orientation: .up).action == .passThrough)
  }

  @Test(arguments: [
    (100, 50, 10, 10, 5), (1000, 3, 100, 100, 1), (1, 1000, 10, 1, 10), (99, 66, 98, 98, 65),
    (10, 10, 10, 10, 10), (10, 7, 1, 1, 1), (64, 48, 4000, 64, 48),
  ])
  func longEdge(width: Int, height: Int, limit: Int, newWidth: Int, newHeight: Int) throws {
    for bytes in [try Pictures.jpeg(width, height), try Pictures.png(width, height)] {
      let image = try preparer.prepare(
        SourceImage(bytes: bytes), policy: ImagePolicy(maxLongEdge: limit))
      #expect((image.width, image.height) == (newWidth, newHeight))
      let info = try SourceImage(bytes: image.bytes).info
      #expect((info.storedWidth, info.storedHeight) == (newWidth, newHeight))
    }
  }

  @Test func sameInputSameOutput() throws {
    let source = try SourceImage(bytes: Pictures.jpeg(200, 120))
    let policy = ImagePolicy(maxLongEdge: 77)
    let first = try preparer.prepare(source, orientation: .left, policy: policy)
    for _ in 0..<3 {
      let other = try ImagePreparer(cacheByteLimit: 0)
        .prepare(SourceImage(bytes: source.bytes), orientation: .left, policy: policy)
      #expect(other.bytes == first.bytes)
    }
  }

  @Test func scanDataCutOrDamaged() throws {
    let jpeg = try Pictures.jpeg()
    let cut = Array(jpeg[..<(jpeg.count - 60)]) + [0xFF, 0xD9]
    for orientation in [ImageOrientation.up, .right] {
      #expect {
        try preparer.prepare(SourceImage(bytes: cut, path: "p.jpg"), orientation: orientation)
      } throws: {
        let error = $0 as? ImageError
        return error?.kind == .corrupt && error?.message.hasPrefix("p.jpg: ") == true
      }
    }
    // Only the markers are looked at without verification.
    let policy = ImagePolicy(verify: false)
    #expect(try preparer.prepare(SourceImage(bytes: cut), policy: policy).action == .passThrough)
  }

  /// A drawing stays lossless; the encoder gives up as soon as its budget is spent.
  @Test func losslessWhereSmall() throws {
    let drawing = try SourceImage(bytes: Pictures.png())
    #expect(try preparer.prepare(drawing, orientation: .right).format == .png)
    var noise = SystemRandomNumberGenerator()
    let planes = try (0..<3).map { _ in try Plane(width: 300, height: 300) }
    for plane in planes {
      for y in 0..<300 {
        for x in 0..<300 { plane.row(y)[x] = .random(in: 0...255, using: &noise) }
      }
    }
    let bytes = try #require(try PNGEncoder.encode(planes, budget: .max))
    #expect(bytes.count > 3 * 300 * 300)
    #expect(try PNGEncoder.encode(planes, budget: 1000) == nil)
  }
}

@Suite("Within bytes and formats")
struct PictureEncoderTests {
  private let preparer = ImagePreparer(cacheByteLimit: 0)

  /// Detail everywhere: hard to compress.
  private func noisy(_ side: Int) throws -> [Plane] {
    var state: UInt32 = 1
    return try (0..<3).map { _ in
      let plane = try Plane(width: side, height: side)
      for y in 0..<side {
        for x in 0..<side {
          state = state &* 1_664_525 &+ 1_013_904_223
          plane.row(y)[x] = UInt8((x + y) / 4 % 256) / 2 + UInt8(state >> 26)
        }
      }
      return plane
    }
  }

  @Test func qualityIsLoweredOnlyAsFarAsBytesDemand() throws {
    let planes = try noisy(256)
    func size(_ quality: Int) throws -> Int {
      try JPEGEncoder.encode(rgb: planes, subsampling: .both, quality: quality).count
    }
    let image = UprightImage(model: .rgb, planes: planes, subsampling: .both)
    for wanted in [84, 70, 41] {
      let limit = try size(wanted)
      let policy = ImagePolicy(maxBytes: limit, formats: .jpeg)
      let encoded = try PictureEncoder(policy: policy, isLossless: false).encode(image)
      #expect(encoded.bytes.count <= limit && encoded.width == 256)
      #expect(encoded.bytes.count >= (try size(wanted - 1)))
    }
  }

  @Test func thenThePictureIsMadeSmaller() throws {
    for model in [UprightImage.Model.rgb, .gray] {
      var planes = try noisy(255)
      if model == .gray { planes = [planes[0]] }
      let image = UprightImage(model: model, planes: planes, subsampling: .none)
      for formats in [ImagePolicy.Formats.jpeg, .png, .all] {
        let policy = ImagePolicy(maxBytes: 3000, formats: formats)
        let encoded = try PictureEncoder(policy: policy, isLossless: true).encode(image)
        #expect(encoded.bytes.count <= 3000 && encoded.bytes.count > 1000)
        let info = try SourceImage(bytes: encoded.bytes).info
        #expect((info.storedWidth, info.storedHeight) == (encoded.width, encoded.height))
        #expect(encoded.width < 255 && encoded.width > 10)
      }
    }
    #expect {
      try preparer.prepare(
        SourceImage(bytes: Pictures.jpeg(), path: "a.jpg"), policy: ImagePolicy(maxBytes: 20))
    } throws: {
      let error = $0 as? ImageError
      return error?.kind == .tooLarge && error?.message.contains("max_bytes") == true
    }
  }

  /// A file within max_bytes passes; one byte less and it is encoded again.
  @Test func passThroughHeedsBytesAndFormats() throws {
    let bytes = try Pictures.jpeg(200, 100)
    let source = try SourceImage(bytes: bytes)
    func prepare(_ policy: ImagePolicy) throws -> PreparedImage {
      try preparer.prepare(source, policy: policy)
    }
    #expect(try prepare(ImagePolicy(maxBytes: bytes.count)).action == .passThrough)
    let smaller = try prepare(ImagePolicy(maxBytes: bytes.count - 1))
    #expect(smaller.action == .reencoded && smaller.bytes.count < bytes.count)
    let png = try prepare(ImagePolicy(formats: .png))
    #expect(png.format == .png && png.action == .reencoded && png.width == 200)
    let photo = try SourceImage(bytes: Pictures.png(200, 100))
    #expect(try preparer.prepare(photo, policy: ImagePolicy(formats: .jpeg)).format == .jpeg)
  }

  @Test func drawingsAreToldByTheirFlatness() throws {
    let flat = try Plane(width: 100, height: 100)
    for y in 0..<100 { for x in 0..<100 { flat.row(y)[x] = x / 10 % 2 == 0 ? 255 : 0 } }
    #expect(PixelStatistics.isDrawing([flat]) && PixelStatistics.isDrawing([flat, flat, flat]))
    #expect(!PixelStatistics.isDrawing(try noisy(100)))
    #expect(PixelStatistics.hasSharpColor(chroma: [flat]))
    let smooth = try Plane(width: 100, height: 100)
    for y in 0..<100 { for x in 0..<100 { smooth.row(y)[x] = UInt8(2 * x) } }
    #expect(!PixelStatistics.hasSharpColor(chroma: [smooth]))
    #expect(PixelStatistics.hasSharpColor(rgb: [flat, smooth, smooth]))
    #expect(!PixelStatistics.hasSharpColor(rgb: [flat, flat, flat]))
  }
}

@Suite("Remembering prepared pictures")
struct PreparedImageCacheTests {
  private func image(_ size: Int) -> PreparedImage {
    PreparedImage(
      bytes: [UInt8](repeating: 1, count: size), format: .png, width: 1, height: 1,
      originalWidth: 1, originalHeight: 1, orientation: .up, action: .reencoded)
  }

  private func key(_ number: UInt8) -> PreparedImageCache.Key {
    .init(sha256: [number], orientation: .up, policy: .default)
  }

  @Test func leastRecentlyUsedGoFirst() throws {
    let cache = PreparedImageCache(byteLimit: 100)
    func get(_ number: UInt8, _ size: Int = 40) throws -> Bool {
      var isMade = false
      _ = try cache.image(for: key(number)) { () throws(ImageProblem) in
        isMade = true
        return image(size)
      }
      return isMade
    }
    #expect(try get(1))
    #expect(try get(2))
    #expect(try !get(1))
    #expect(try get(3))
    #expect(cache.info.byteCount == 80 && cache.info.count == 2)
    #expect(try !get(1))
    #expect(try get(2))
    // One that is larger than the whole cache is not kept and drives nothing out.
    #expect(try get(4, 101))
    #expect(try get(4, 101))
    #expect(cache.info.byteCount == 80)
  }

  @Test func failuresAreNotKept() throws {
    let cache = PreparedImageCache(byteLimit: 100)
    #expect(throws: ImageProblem(.corrupt, "x")) {
      try cache.image(for: key(1)) { () throws(ImageProblem) in throw ImageProblem(.corrupt, "x") }
    }
    #expect(try cache.image(for: key(1)) { () throws(ImageProblem) in image(5) }.bytes.count == 5)
    #expect(cache.info.count == 1)
  }

  /// Keys are content, orientation and policy.
  @Test func nothingIsMistaken() throws {
    let preparer = ImagePreparer()
    let source = try SourceImage(bytes: Pictures.jpeg())
    let one = try preparer.prepare(source, policy: ImagePolicy(maxLongEdge: 20))
    let two = try preparer.prepare(source, policy: ImagePolicy(maxLongEdge: 20, quality: 10))
    let three = try preparer.prepare(
      source, orientation: .down, policy: ImagePolicy(maxLongEdge: 20))
    #expect(one.bytes != two.bytes && one.bytes != three.bytes)
    #expect(preparer.cacheInfo.count == 3)
  }

  @Test func callersOfTheSamePictureShareOnePreparation() async throws {
    let cache = PreparedImageCache(byteLimit: 1000)
    /// How often the picture was made.
    final class Counter: Sendable {
      let value = Mutex(0)
    }
    let made = Counter()
    let key = key(1)
    let result = image(10)
    await withTaskGroup(of: Int.self) { group in
      for _ in 0..<8 {
        group.addTask {
          let image = try? cache.image(for: key) { () throws(ImageProblem) in
            made.value.withLock { $0 += 1 }
            return result
          }
          return image?.bytes.count ?? 0
        }
      }
      for await count in group { #expect(count == 10) }
    }
    #expect(made.value.withLock { $0 } == 1)
  }
}
