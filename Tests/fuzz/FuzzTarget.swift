import Glibc

// Compiled together with the sources of FMImaging by scripts/fuzz, so that nothing has to be public.

/// What a run feeds its bytes to, named by OPENFM_FUZZ_TARGET.
private enum FuzzTarget: String {
  /// The sniffer and every header parser of ours, each on bytes meant for any of them.
  case headers
  /// The way that a file goes: reading, decoding, scaling, turning, converting, encoding.
  case prepare

  static let chosen: FuzzTarget = {
    let name = getenv("OPENFM_FUZZ_TARGET").map { String(cString: $0) } ?? ""
    guard let target = FuzzTarget(rawValue: name) else {
      fatalError("OPENFM_FUZZ_TARGET must be headers or prepare, not '\(name)'")
    }
    return target
  }()

  /// Small, so that a run takes milliseconds.
  private static let limits = ImageLimits(maxFileBytes: 1 << 20, maxPixels: 1 << 18)

  func run(_ bytes: [UInt8]) {
    switch self {
    case .headers: Self.parseHeaders(bytes)
    case .prepare: Self.prepare(bytes)
    }
  }

  private static func parseHeaders(_ bytes: [UInt8]) {
    _ = FileKind(bytes)
    _ = EXIFReader.orientation(ofTIFF: bytes[...])
    _ = ColorTransform.make(.icc(bytes), model: .rgb)
    _ = HEIFStructure(bytes)
    if let jpeg = try? JPEGStructure(bytes, limits: limits) {
      _ = jpeg.colorProfile
      _ = jpeg.exif.flatMap(EXIFReader.orientation(ofTIFF:))
      _ = jpeg.withoutMetadata(bytes, colors: .grayOrYCbCr)
    }
    if let png = try? PNGStructure(bytes, limits: limits) {
      _ = png.unpackedColorProfile
      _ = png.withoutMetadata(bytes)
    }
    // Each wants its own first bytes; the sniffer would send only one of them here.
    if let webp = try? WebPStructure(Array("RIFF".utf8) + bytes, limits: limits) {
      precondition(webp.frame.x + webp.frame.width <= webp.width)
      precondition(webp.frame.y + webp.frame.height <= webp.height)
    }
    _ = try? WebPStructure(bytes, limits: limits)
    if let gif = try? GIFStructure(bytes, limits: limits) {
      precondition(gif.x + gif.frameWidth <= gif.width && gif.y + gif.frameHeight <= gif.height)
    }
    if let bmp = try? BMPStructure(bytes, limits: limits) {
      precondition(bmp.coding == .runs || bmp.rowBytes * bmp.height <= bmp.data.count)
    }
  }

  private static func prepare(_ bytes: [UInt8]) {
    guard let source = try? SourceImage(bytes: bytes, limits: limits) else { return }
    // The last byte chooses the turn: every decoder meets every one.
    let orientation = ImageOrientation(rawValue: UInt32(bytes.last ?? 0) % 9)
    let policy = ImagePolicy(maxLongEdge: 64)
    guard
      let image = try? ImagePreparer(cacheByteLimit: 0)
        .prepare(source, orientation: orientation, policy: policy)
    else { return }
    precondition(max(image.width, image.height) <= 64)
    guard let sent = try? SourceImage(bytes: image.bytes) else {
      fatalError("what was prepared cannot be read")
    }
    precondition(sent.info.storedWidth == image.width && sent.info.storedHeight == image.height)
    precondition(sent.info.orientation == .up)
  }
}

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOneInput(_ data: UnsafePointer<UInt8>?, _ size: Int) -> CInt {
  FuzzTarget.chosen.run(Array(UnsafeBufferPointer(start: data, count: size)))
  return 0
}
