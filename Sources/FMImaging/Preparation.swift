import CJPEG

/// One picture on its way to what a server may see.
struct Preparation {
  var source: SourceImage
  var geometry: ImageGeometry
  var policy: ImagePolicy
  /// Oddities that were passed over so far.
  private var warningCount: Int

  init(source: SourceImage, orientation: ImageOrientation, policy: ImagePolicy) {
    self.source = source
    self.policy = policy
    warningCount = source.info.warningCount
    geometry = ImageGeometry(
      info: source.info, orientation: orientation, policy: policy)
  }

  mutating func run() throws(ImageProblem) -> PreparedImage {
    // The source passed these checks with its own limits.
    let unlimited = ImageLimits.none
    switch source.info.format {
    case .jpeg:
      return try prepare(try JPEGStructure(source.bytes, limits: unlimited))
    case .png:
      return try prepare(try PNGStructure(source.bytes, limits: unlimited))
    case .webp, .gif, .bmp, .heic, .avif:
      // Whether it lost anything is not looked up: photos are told from drawings by their pixels.
      let image = try source.decodeWhole(background: policy.background)
      warningCount += image.warningCount
      return try encode(try image.upright(geometry), isLossless: true)
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
      originalHeight: geometry.sourceHeight, orientation: geometry.orientation, action: action,
      warningCount: warningCount)
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

  private mutating func prepare(_ structure: JPEGStructure) throws(ImageProblem) -> PreparedImage {
    let kept = policy.metadata == .keep ? KeptMetadata(structure, source.bytes) : KeptMetadata()
    // A closure with typed throws: withUnsafeBufferPointer rethrows the error as it is.
    return try source.bytes.withUnsafeBufferPointer { bytes throws(ImageProblem) in
      var decoder = try JPEGDecoder(bytes)
      let profile = decoder.colorModel.map {
        ColorTransform.make(structure.colorProfile, model: $0)
      }
      let oddities = warningCount + (profile?.warningCount ?? 0)
      if !geometry.isScaled, profile?.transform == nil, structure.isPlain, policy.allows(.jpeg),
        let colors = Self.passThroughColors(decoder, structure)
      {
        if keepsPixels {
          let whole = structure.withoutMetadata(source.bytes, colors: colors)
          if var image = acceptable(whole, .jpeg, .passThrough, kept) {
            if policy.verify { try decoder.verify() }
            image.warningCount = oddities + decoder.warningCount
            // What stands between the pixels would go along, whatever it says.
            if !decoder.hasForeignBytes { return image }
          }
        } else if decoder.canTurn(geometry.orientation),
          let turned = try decoder.turned(geometry.orientation)
        {
          warningCount = oddities + decoder.warningCount
          if let image = acceptable(turned, .jpeg, .losslessTurn, kept) { return image }
        }
        decoder = try JPEGDecoder(bytes)
      }
      let image = try decode(bytes, &decoder, profile?.transform)
      warningCount = oddities + decoder.warningCount
      return try encode(
        try image.upright(geometry, needsFullChroma: !policy.allows(.jpeg)), isLossless: false,
        kept)
    }
  }

  /// Decodes at the scale nearest to the result's, `decoder` having read the header of `bytes`.
  ///
  /// Chroma of a picture that is scaled is mostly sent with half the luma's samples and decoded so;
  /// where colours look sharp, a second decode gives it all it has.
  private func decode(
    _ bytes: UnsafeBufferPointer<UInt8>, _ decoder: inout JPEGDecoder, _ transform: ColorTransform?
  ) throws(ImageProblem) -> DecodedImage {
    if geometry.isScaled, transform == nil, policy.allows(.jpeg) {
      let image = try decoder.decode(
        denominator: geometry.denominator, transform: nil, sharesChroma: true)
      guard decoder.header.is_reduced != 0, !image.hasFullChroma(geometry),
        PixelStatistics.mayHaveSharpColor(halvedChroma: image.planes.dropFirst())
      else { return image }
      decoder = try JPEGDecoder(bytes)
    }
    return try decoder.decode(denominator: geometry.denominator, transform: transform)
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

  private mutating func prepare(_ structure: PNGStructure) throws(ImageProblem) -> PreparedImage {
    let kept = policy.metadata == .keep ? KeptMetadata(structure, source.bytes) : KeptMetadata()
    let bytes = structure.withoutMetadata(source.bytes)
    return try bytes.withUnsafeBufferPointer { buffer throws(ImageProblem) in
      var decoder = try PNGDecoder(buffer, structure: structure)
      let profile = ColorTransform.make(
        structure.unpackedColorProfile, model: structure.isGray ? .gray : .rgb)
      warningCount += profile.warningCount
      if keepsPixels, profile.transform == nil, structure.bitDepth == 8, !structure.hasAlpha,
        !structure.isAnimated, policy.allows(.png),
        let image = acceptable(bytes, .png, .passThrough, kept)
      {
        guard policy.verify else { return image }
        try decoder.verify()
        if structure.holdsNothingButRows(source.bytes) { return image }
        decoder = try PNGDecoder(buffer, structure: structure)
      }
      let image = try decoder.decode(
        background: policy.background, transform: profile.transform
      )
      .upright(geometry)
      return try encode(image, isLossless: true, kept)
    }
  }
}
