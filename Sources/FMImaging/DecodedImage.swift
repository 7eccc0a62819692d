/// Pixels as a decoder gives them: opaque, not yet at their final size, not yet turned.
///
/// Every decoder ends here and every encoder begins at `UprightImage`; what a format is like is
/// forgotten in between.
struct DecodedImage {
  /// What the planes hold.
  enum Model {
    case gray
    case rgb
    /// The chroma planes have fewer samples, by the given steps.
    case yCbCr(JPEGEncoder.Subsampling)
    /// C, M, Y, K, 255 being no ink.
    case inks
  }

  var model: Model
  var planes: [Plane]
  /// The part of each plane that the picture covers, in samples; may end between samples.
  var extents: [(width: Double, height: Double)]
  /// How the values become sRGB; nil where they are sRGB.
  var transform: ColorTransform?
  /// Oddities that the decoder passed over.
  var warningCount = 0

  /// Planes of one size that the picture covers whole.
  init(_ planes: [Plane], transform: ColorTransform? = nil) {
    model = planes.count == 1 ? .gray : .rgb
    self.planes = planes
    extents = planes.map { (Double($0.width), Double($0.height)) }
    self.transform = transform
  }

  init(
    model: Model, planes: [Plane], extents: [(width: Double, height: Double)],
    transform: ColorTransform?
  ) {
    self.model = model
    self.planes = planes
    self.extents = extents
    self.transform = transform
  }

  /// Brings every plane to its final size, turns it and converts the colours, in this order: the
  /// fewer pixels, the less there is to convert.
  ///
  /// - Parameter needsFullChroma: Every pixel gets chroma samples of its own.
  consuming func upright(_ geometry: ImageGeometry, needsFullChroma: Bool = false)
    throws(ImageProblem) -> UprightImage
  {
    var subsampling = JPEGEncoder.Subsampling.none
    if case .yCbCr(let source) = model, !needsFullChroma {
      subsampling = geometry.isScaled ? scaledSubsampling(geometry) : source
    }
    // Colours are converted pixel by pixel: chroma needs a sample for each.
    let grid = transform == nil ? subsampling : .none
    let scaler = PlaneScaler()
    var fitted: [Plane] = []
    for index in extents.indices {
      // The decoded planes are the largest memory of a preparation: each goes once it is scaled.
      let plane = planes.removeFirst()
      fitted.append(
        try geometry.fit(
          plane, extent: extents[index], scaler: scaler,
          across: index == 0 ? 1 : grid.horizontal, down: index == 0 ? 1 : grid.vertical))
    }
    let turned = subsampling.turned(geometry.orientation)
    switch model {
    case .gray:
      transform?.convert(gray: fitted[0])
      return UprightImage(model: .gray, planes: fitted, subsampling: .none)
    case .rgb:
      try transform?.convert(fitted, isYCbCr: false)
      return UprightImage(model: .rgb, planes: fitted, subsampling: turned)
    case .yCbCr:
      guard let transform else {
        return UprightImage(model: .yCbCr, planes: fitted, subsampling: turned)
      }
      try transform.convert(fitted, isYCbCr: true)
      return UprightImage(model: .rgb, planes: fitted, subsampling: turned)
    case .inks:
      if let transform {
        try transform.convert(inks: fitted)
      } else {
        Inks.convertToRGB(fitted)
      }
      return UprightImage(model: .rgb, planes: Array(fitted.prefix(3)), subsampling: .none)
    }
  }

  /// Scaling down may leave a chroma sample for every pixel where the source had fewer: they are
  /// kept where colours are sharp, and halved both ways where nobody would see them.
  private func scaledSubsampling(_ geometry: ImageGeometry) -> JPEGEncoder.Subsampling {
    hasFullChroma(geometry) && PixelStatistics.hasSharpColor(chroma: planes.dropFirst())
      ? .none : .both
  }

  /// Whether there is a chroma sample at least for every pixel of the result.
  func hasFullChroma(_ geometry: ImageGeometry) -> Bool {
    extents.dropFirst().allSatisfy {
      $0.width >= Double(geometry.scaledWidth) && $0.height >= Double(geometry.scaledHeight)
    }
  }
}
