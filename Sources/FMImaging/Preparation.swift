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
    let unlimited = ImageLimits(maxFileBytes: .max, maxPixels: .max)
    switch source.info.format {
    case .jpeg:
      return try prepare(try JPEGStructure(source.bytes, limits: unlimited))
    case .png:
      return try prepare(try PNGStructure(source.bytes, limits: unlimited))
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
      if keepsPixels, structure.isPlain,
        let colors = Self.passThroughColors(decoder, structure)
      {
        if policy.verify { try decoder.verify() }
        return result(
          structure.withoutMetadata(source.bytes, colors: colors), .jpeg, .passThrough)
      }
      return result(try reencode(decoder), .jpeg, .reencoded)
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

  private func reencode(_ decoder: JPEGDecoder) throws(ImageProblem) -> [UInt8] {
    switch decoder.header.color {
    case CJPEG_COLOR_GRAY, CJPEG_COLOR_YCBCR:
      return try reencodePlanes(decoder)
    case CJPEG_COLOR_RGB:
      let planes = try decoder.decodePlanes(denominator: geometry.denominator)
      var fitted: [Plane] = []
      for (plane, component) in zip(planes, decoder.components) {
        fitted.append(try geometry.fit(plane, extent: decoder.extent(of: component)))
      }
      return try JPEGEncoder.encode(rgb: fitted, subsampling: .none, quality: policy.quality)
    case CJPEG_COLOR_CMYK:
      let denominator = geometry.denominator
      let planes = try decoder.decodeInks(denominator: denominator)
      let extent = (
        width: Double(geometry.storedWidth) / Double(denominator),
        height: Double(geometry.storedHeight) / Double(denominator)
      )
      var fitted: [Plane] = []
      for plane in planes { fitted.append(try geometry.fit(plane, extent: extent)) }
      return try JPEGEncoder.encode(rgb: fitted, subsampling: .none, quality: policy.quality)
    default:
      throw ImageProblem(
        .unsupportedFormat, "the JPEG's colour space is not supported; save it as RGB or gray")
    }
  }

  /// Gray and YCbCr are never converted: the planes are scaled and turned as they are.
  private func reencodePlanes(_ decoder: JPEGDecoder) throws(ImageProblem) -> [UInt8] {
    let planes = try decoder.decodePlanes(denominator: geometry.denominator)
    let components = decoder.components
    // The source's subsampling, 4:1:1 and rarer ones as the nearest of the four usual ones.
    var subsampling = JPEGEncoder.Subsampling.none
    if components.count == 3 {
      let header = decoder.header
      subsampling.horizontal = min(
        2, Int(header.max_h_samp / max(components[1].h_samp, components[2].h_samp)))
      subsampling.vertical = min(
        2, Int(header.max_v_samp / max(components[1].v_samp, components[2].v_samp)))
    }
    var fitted: [Plane] = []
    for (index, plane) in planes.enumerated() {
      fitted.append(
        try geometry.fit(
          plane, extent: decoder.extent(of: components[index]),
          across: index == 0 ? 1 : subsampling.horizontal,
          down: index == 0 ? 1 : subsampling.vertical))
    }
    return try JPEGEncoder.encode(
      planes: fitted, subsampling: subsampling.turned(geometry.orientation),
      quality: policy.quality)
  }

  // MARK: PNG

  private func prepare(_ structure: PNGStructure) throws(ImageProblem) -> PreparedImage {
    let bytes = structure.withoutMetadata(source.bytes)
    return try bytes.withUnsafeBufferPointer { buffer throws(ImageProblem) in
      let decoder = try PNGDecoder(buffer, structure: structure)
      if keepsPixels, structure.bitDepth == 8, !structure.hasAlpha, !structure.isAnimated {
        if policy.verify { try decoder.verify() }
        return result(bytes, .png, .passThrough)
      }
      let planes = try decoder.decode(background: policy.background)
      let extent = (
        width: Double(geometry.storedWidth), height: Double(geometry.storedHeight)
      )
      var fitted: [Plane] = []
      for plane in planes { fitted.append(try geometry.fit(plane, extent: extent)) }
      return try encodeLosslessWhereSmall(fitted)
    }
  }

  /// Drawings, screenshots and small pictures stay PNG: lossless is preferred while it costs at
  /// most `losslessFloor` bytes or twice the JPEG. Photos, several times their JPEG, become JPEG.
  private func encodeLosslessWhereSmall(_ planes: [Plane]) throws(ImageProblem) -> PreparedImage {
    let losslessFloor = 32 << 10
    let jpeg =
      planes.count == 1
      ? try JPEGEncoder.encode(planes: planes, subsampling: .none, quality: policy.quality)
      : try JPEGEncoder.encode(rgb: planes, subsampling: .both, quality: policy.quality)
    if let png = try PNGEncoder.encode(planes, budget: max(losslessFloor, 2 * jpeg.count)) {
      return result(png, .png, .reencoded)
    }
    return result(jpeg, .jpeg, .reencoded)
  }
}
