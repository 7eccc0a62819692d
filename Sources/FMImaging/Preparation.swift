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
      info: source.info, orientation: orientation, maxLongEdge: policy.maxLongEdge)
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
      return try encodeLosslessWhereSmall(
        try source.decodeWhole(background: policy.background).upright(geometry))
    }
  }

  /// Whether the stored pixels are those to send.
  private var keepsPixels: Bool { geometry.orientation == .up && !geometry.isScaled }

  private func result(_ bytes: [UInt8], _ format: ImageFormat, _ route: PreparedImage.Route)
    -> PreparedImage
  {
    PreparedImage(
      bytes: bytes, format: format, width: geometry.width, height: geometry.height,
      sourceWidth: geometry.sourceWidth, sourceHeight: geometry.sourceHeight, route: route)
  }

  // MARK: JPEG

  private func prepare(_ structure: JPEGStructure) throws(ImageProblem) -> PreparedImage {
    // A closure with typed throws: withUnsafeBufferPointer rethrows the error as it is.
    try source.bytes.withUnsafeBufferPointer { bytes throws(ImageProblem) in
      let decoder = try JPEGDecoder(bytes)
      let transform = decoder.colorModel.flatMap {
        ColorTransform.make(structure.colorProfile, model: $0).transform
      }
      if keepsPixels, transform == nil, structure.isPlain,
        let colors = Self.passThroughColors(decoder, structure)
      {
        if policy.verify { try decoder.verify() }
        return result(
          structure.withoutMetadata(source.bytes, colors: colors), .jpeg, .passThrough)
      }
      let image = try decoder.decode(denominator: geometry.denominator, transform: transform)
        .upright(geometry)
      return result(try encodeJPEG(image), .jpeg, .reencoded)
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

  private func encodeJPEG(_ image: UprightImage) throws(ImageProblem) -> [UInt8] {
    switch image.model {
    case .gray, .yCbCr:
      try JPEGEncoder.encode(
        planes: image.planes, subsampling: image.subsampling, quality: policy.quality)
    case .rgb:
      try JPEGEncoder.encode(
        rgb: image.planes, subsampling: image.subsampling, quality: policy.quality)
    }
  }

  // MARK: PNG

  private func prepare(_ structure: PNGStructure) throws(ImageProblem) -> PreparedImage {
    let bytes = structure.withoutMetadata(source.bytes)
    return try bytes.withUnsafeBufferPointer { buffer throws(ImageProblem) in
      let decoder = try PNGDecoder(buffer, structure: structure)
      let transform = ColorTransform.make(
        structure.unpackedColorProfile, model: structure.isGray ? .gray : .rgb
      ).transform
      if keepsPixels, transform == nil, structure.bitDepth == 8, !structure.hasAlpha,
        !structure.isAnimated
      {
        if policy.verify { try decoder.verify() }
        return result(bytes, .png, .passThrough)
      }
      let image = try decoder.decode(background: policy.background, transform: transform)
        .upright(geometry)
      return try encodeLosslessWhereSmall(image)
    }
  }

  /// Drawings, screenshots and small pictures stay PNG: lossless is preferred while it costs at
  /// most `losslessFloor` bytes or twice the JPEG. Photos, several times their JPEG, become JPEG.
  private func encodeLosslessWhereSmall(_ image: UprightImage) throws(ImageProblem)
    -> PreparedImage
  {
    let losslessFloor = 32 << 10
    var lossy = image
    if image.model == .rgb { lossy.subsampling = .both }
    let jpeg = try encodeJPEG(lossy)
    if let png = try PNGEncoder.encode(image.planes, budget: max(losslessFloor, 2 * jpeg.count)) {
      return result(png, .png, .reencoded)
    }
    return result(jpeg, .jpeg, .reencoded)
  }
}
