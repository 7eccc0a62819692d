import CJPEG

/// One picture on its way to what a server may see.
struct Preparation {
  var source: SourceImage
  var geometry: ImageGeometry
  var policy: ImagePolicy

  init(source: SourceImage, orientation: ImageOrientation, policy: ImagePolicy) {
    self.source = source
    self.policy = policy
    geometry = ImageGeometry(
      info: source.info, orientation: orientation, policy: policy)
  }

  func run() throws(ImageProblem) -> PreparedImage {
    // The source passed these checks with its own limits.
    let unlimited = ImageLimits.none
    switch source.info.format {
    case .jpeg:
      return try prepare(try JPEGStructure(source.bytes, limits: unlimited))
    case .png:
      return try prepare(try PNGStructure(source.bytes, limits: unlimited))
    case .webp, .gif, .bmp, .heic, .avif:
      // Whether it lost anything is not looked up: photos are told from drawings by their pixels.
      return try encode(
        try source.decodeWhole(background: policy.background).upright(geometry), isLossless: true)
    }
  }

  /// Whether the stored pixels are those to send.
  private var keepsPixels: Bool { geometry.orientation == .up && !geometry.isScaled }

  private func result(
    _ bytes: [UInt8], _ format: ImageFormat, _ action: PreparedImage.Action,
    width: Int? = nil, height: Int? = nil
  ) -> PreparedImage {
    PreparedImage(
      bytes: bytes, format: format, width: width ?? geometry.width,
      height: height ?? geometry.height, originalWidth: geometry.sourceWidth,
      originalHeight: geometry.sourceHeight, orientation: geometry.orientation, action: action)
  }

  /// The picture with its metadata, if it may be sent so.
  private func acceptable(
    _ bytes: [UInt8], _ format: ImageFormat, _ action: PreparedImage.Action, _ kept: KeptMetadata
  ) -> PreparedImage? {
    let bytes = kept.added(to: bytes, format)
    return bytes.count <= policy.maxBytes ?? .max ? result(bytes, format, action) : nil
  }

  /// Encodes pixels of a source whose format loses nothing, or of one that does.
  private func encode(_ image: UprightImage, isLossless: Bool, _ kept: KeptMetadata = .init())
    throws(ImageProblem) -> PreparedImage
  {
    var encoder = PictureEncoder(policy: policy, isLossless: isLossless)
    encoder.overhead = kept.byteCount
    let encoded = try encoder.encode(image)
    return result(
      kept.added(to: encoded.bytes, encoded.format), encoded.format, .reencoded,
      width: encoded.width, height: encoded.height)
  }

  // MARK: JPEG

  private func prepare(_ structure: JPEGStructure) throws(ImageProblem) -> PreparedImage {
    let kept = policy.metadata == .keep ? KeptMetadata(structure, source.bytes) : KeptMetadata()
    // A closure with typed throws: withUnsafeBufferPointer rethrows the error as it is.
    return try source.bytes.withUnsafeBufferPointer { bytes throws(ImageProblem) in
      var decoder = try JPEGDecoder(bytes)
      let transform = decoder.colorModel.flatMap {
        ColorTransform.make(structure.colorProfile, model: $0).transform
      }
      if !geometry.isScaled, transform == nil, structure.isPlain, policy.allows(.jpeg),
        let colors = Self.passThroughColors(decoder, structure)
      {
        if keepsPixels {
          let whole = structure.withoutMetadata(source.bytes, colors: colors)
          if let image = acceptable(whole, .jpeg, .passThrough, kept) {
            if policy.verify { try decoder.verify() }
            return image
          }
        } else if decoder.canTurn(geometry.orientation) {
          if let turned = try decoder.turned(geometry.orientation),
            let image = acceptable(turned, .jpeg, .losslessTurn, kept)
          {
            return image
          }
          decoder = try JPEGDecoder(bytes)
        }
      }
      let image = try decoder.decode(denominator: geometry.denominator, transform: transform)
        .upright(geometry, needsFullChroma: !policy.allows(.jpeg))
      return try encode(image, isLossless: false, kept)
    }
  }

  private static func passThroughColors(_ decoder: JPEGDecoder, _ structure: JPEGStructure)
    -> JPEGStructure.Colors?
  {
    switch decoder.header.color {
    case CJPEG_COLOR_GRAY: .grayOrYCbCr
    case CJPEG_COLOR_YCBCR where !structure.hasRGBComponentIDs: .grayOrYCbCr
    case CJPEG_COLOR_RGB: .rgb
    default: nil
    }
  }

  // MARK: PNG

  private func prepare(_ structure: PNGStructure) throws(ImageProblem) -> PreparedImage {
    let kept = policy.metadata == .keep ? KeptMetadata(structure, source.bytes) : KeptMetadata()
    let bytes = structure.withoutMetadata(source.bytes)
    return try bytes.withUnsafeBufferPointer { buffer throws(ImageProblem) in
      let decoder = try PNGDecoder(buffer, structure: structure)
      let transform = ColorTransform.make(
        structure.unpackedColorProfile, model: structure.isGray ? .gray : .rgb
      ).transform
      if keepsPixels, transform == nil, structure.bitDepth == 8, !structure.hasAlpha,
        !structure.isAnimated, policy.allows(.png),
        let image = acceptable(bytes, .png, .passThrough, kept)
      {
        if policy.verify { try decoder.verify() }
        return image
      }
      let image = try decoder.decode(background: policy.background, transform: transform)
        .upright(geometry)
      return try encode(image, isLossless: true, kept)
    }
  }
}
