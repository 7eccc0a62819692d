/// Chooses format, chroma subsampling, quality and, where bytes are short, size.
///
/// - JPEG sources stay JPEG: their losses are done, and a PNG of them would be several times larger.
/// - Drawings from lossless sources stay PNG while that takes at most `drawingBudget`; other
///   pictures become JPEG unless the PNG is tiny.
/// - Colours of drawings and of coloured text keep all their samples; others are halved both ways.
struct PictureEncoder {
  var policy: ImagePolicy
  /// Whether the source's format loses nothing.
  var isLossless: Bool
  /// Bytes that are added to the file afterwards.
  var overhead = 0

  struct Encoded {
    var bytes: [UInt8]
    var format: ImageFormat
    var width: Int
    var height: Int
  }

  /// Bytes that a PNG may take whatever it shows: icons and small cuttings.
  private static let tinyBudget = 32 << 10

  /// Bytes that a drawing's PNG may take: a quarter of a megabyte, and half a byte a pixel.
  private static func drawingBudget(_ pixels: Int) -> Int { (256 << 10) + pixels / 2 }

  private var byteLimit: Int { max(1, (policy.maxBytes ?? .max) - overhead) }

  func encode(_ image: UprightImage) throws(ImageProblem) -> Encoded {
    var image = image
    let mayBeJPEG = policy.allows(.jpeg)
    let mayBePNG = policy.allows(.png) && (isLossless || !mayBeJPEG)
    if !mayBeJPEG { image.convertToRGB() }
    let isDrawing = mayBePNG && mayBeJPEG && PixelStatistics.isDrawing(image.planes)
    // What a JPEG had was decided when it was scaled.
    if image.model == .rgb, isLossless {
      let keepsColor = isDrawing || PixelStatistics.hasSharpColor(rgb: image.planes)
      image.subsampling = keepsColor ? .none : .both
    }
    while true {
      let (width, height) = (image.planes[0].width, image.planes[0].height)
      func result(_ bytes: [UInt8], _ format: ImageFormat) -> Encoded {
        Encoded(bytes: bytes, format: format, width: width, height: height)
      }
      // Of a PNG that does not fit only that is known; it is taken to be a third too large.
      var excess = 4.0 / 3
      if mayBePNG {
        let budget =
          mayBeJPEG
          ? isDrawing ? Self.drawingBudget(width * height) : Self.tinyBudget : Int.max
        if let png = try PNGEncoder.encode(image.planes, budget: min(budget, byteLimit)) {
          return result(png, .png)
        }
      }
      if mayBeJPEG {
        let jpeg = try encodeJPEG(image)
        if jpeg.count <= byteLimit { return result(jpeg, .jpeg) }
        excess = Double(jpeg.count) / Double(byteLimit)
      }
      guard width > 1 || height > 1 else {
        throw ImageProblem(
          .tooLarge,
          "no picture fits into max_bytes, \(policy.maxBytes ?? 0); allow at least a kilobyte")
      }
      try image.shrink(by: 0.95 / excess.squareRoot())
    }
  }

  /// The highest quality up to the policy's that fits; the lowest one's bytes when none does.
  private func encodeJPEG(_ image: UprightImage) throws(ImageProblem) -> [UInt8] {
    let best = try encodeJPEG(image, quality: policy.quality)
    var low = min(ImagePolicy.leastQuality, policy.quality)
    if best.count <= byteLimit || low == policy.quality { return best }
    var fitting = try encodeJPEG(image, quality: low)
    if fitting.count > byteLimit { return fitting }
    var high = policy.quality
    while high - low > 1 {
      let middle = (low + high) / 2
      let bytes = try encodeJPEG(image, quality: middle)
      if bytes.count <= byteLimit {
        (low, fitting) = (middle, bytes)
      } else {
        high = middle
      }
    }
    return fitting
  }

  private func encodeJPEG(_ image: UprightImage, quality: Int) throws(ImageProblem) -> [UInt8] {
    switch image.model {
    case .gray, .yCbCr:
      try JPEGEncoder.encode(
        planes: image.planes, subsampling: image.subsampling, quality: quality)
    case .rgb:
      try JPEGEncoder.encode(rgb: image.planes, subsampling: image.subsampling, quality: quality)
    }
  }
}

extension UprightImage {
  /// For PNG; the chroma planes must have a sample for each pixel.
  mutating func convertToRGB() {
    guard model == .yCbCr else { return }
    YCbCr.convertToRGB(planes)
    model = .rgb
  }

  /// Scales every side by a factor below 1, by at least one pixel.
  mutating func shrink(by factor: Double) throws(ImageProblem) {
    let (width, height) = (planes[0].width, planes[0].height)
    func smaller(_ side: Int) -> Int { max(1, min(side - 1, Int(Double(side) * factor))) }
    let target = (width: smaller(width), height: smaller(height))
    let scaler = PlaneScaler()
    for (index, plane) in planes.enumerated() {
      let (across, down) =
        index == 0 || model != .yCbCr ? (1, 1) : (subsampling.horizontal, subsampling.vertical)
      // The shared samples of an odd side reach beyond the picture.
      func extent(_ side: Int, _ small: Int, _ step: Int) -> (Double, Int) {
        let count = (small + step - 1) / step
        return (Double(side) / Double(step) * Double(count * step) / Double(small), count)
      }
      let (x, columns) = extent(width, target.width, across)
      let (y, rows) = extent(height, target.height, down)
      planes[index] = try scaler.scale(
        plane, region: .init(x: 0, y: 0, width: x, height: y), width: columns, height: rows)
    }
  }
}
