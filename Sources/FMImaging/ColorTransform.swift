import CLCMS
import Glibc

/// One conversion from an embedded colour profile to sRGB; frees what it holds with itself.
///
/// Perceptual intent, as browsers and Pillow's ImageCms take it. Not for several threads at once.
final class ColorTransform {
  /// What the values of a picture mean without regard to their profile.
  enum Model {
    case gray
    case rgb
    /// Cyan, magenta, yellow, black as JPEG files have them: 255 is no ink.
    case inks
  }

  /// What a profile asks for.
  enum Outcome {
    /// Nothing: there is none, or its values are sRGB but for what rounding does.
    case none
    /// Nothing: it is damaged, or of another colour model than the picture.
    case unusable
    case convert(ColorTransform)

    var transform: ColorTransform? {
      if case .convert(let transform) = self { transform } else { nil }
    }

    /// A profile that cannot be used is passed over, and counts.
    var warningCount: Int { if case .unusable = self { 1 } else { 0 } }
  }

  private let context: cmsContext
  private let transform: cmsHTRANSFORM
  private let profile: cmsHPROFILE
  private let standard: cmsHPROFILE
  private let model: Model
  /// The input format is R, G, B though the picture is gray.
  private let isGrayInRGB: Bool
  /// Made once it is needed.
  private var transformWithAlpha: cmsHTRANSFORM?

  /// - Returns: what is to be done with a picture of that model. Never fails: what cannot be used
  ///   is told apart from what is not there, and the picture is taken as sRGB.
  static func make(_ profile: ColorProfile, model: Model) -> Outcome {
    let bytes: [UInt8]
    switch profile {
    case .absent:
      return .none
    case .unreadable:
      return .unusable
    case .icc(let icc):
      bytes = icc
    case .codePoints(let primaries, let transfer):
      guard model == .rgb, let gamut = Gamut(primaries: primaries, transfer: transfer) else {
        return .none
      }
      guard
        let transform = ColorTransform(model: model, isGrayInRGB: false, open: gamut.profile)
      else { return .unusable }
      return transform.changesNothing ? .none : .convert(transform)
    }
    guard let space = colorSpace(bytes) else { return .unusable }
    let fits: Bool
    switch model {
    // Gray files often carry the profile of the RGB picture that they were made from.
    case .gray: fits = space == "GRAY" || space == "RGB "
    case .rgb: fits = space == "RGB "
    case .inks: fits = space == "CMYK"
    }
    guard fits,
      let transform = ColorTransform(
        model: model, isGrayInRGB: model == .gray && space == "RGB ",
        open: { cmsOpenProfileFromMemTHR($0, bytes, UInt32(bytes.count)) })
    else { return .unusable }
    return transform.changesNothing ? .none : .convert(transform)
  }

  /// Primaries that are wider than sRGB's, with a curve like sRGB's.
  private struct Gamut {
    let red: (Double, Double)
    let green: (Double, Double)
    let blue: (Double, Double)

    /// Source: ITU-T H.273 (2021), tables 2 and 3. nil for sRGB's own primaries, for those that no
    /// picture uses, and for light that is not meant for such a screen (PQ and HLG), which stays as
    /// it is.
    init?(primaries: Int, transfer: Int) {
      guard [1, 2, 6, 13, 14, 15].contains(transfer) else { return nil }
      switch primaries {
      case 9: (red, green, blue) = ((0.708, 0.292), (0.170, 0.797), (0.131, 0.046))
      case 12: (red, green, blue) = ((0.680, 0.320), (0.265, 0.690), (0.150, 0.060))
      default: return nil
      }
    }

    func profile(_ context: cmsContext) -> cmsHPROFILE? {
      func point(_ xy: (Double, Double)) -> cmsCIExyY { cmsCIExyY(x: xy.0, y: xy.1, Y: 1) }
      var white = point((0.3127, 0.3290))
      var primaries = cmsCIExyYTRIPLE(Red: point(red), Green: point(green), Blue: point(blue))
      // sRGB's curve: ((x + 0.055) / 1.055) ^ 2.4, and x / 12.92 below 0.04045.
      let parameters = [2.4, 1 / 1.055, 0.055 / 1.055, 1 / 12.92, 0.04045]
      guard let curve = cmsBuildParametricToneCurve(context, 4, parameters) else { return nil }
      defer { cmsFreeToneCurve(curve) }
      let curves: [OpaquePointer?] = [curve, curve, curve]
      return cmsCreateRGBProfileTHR(context, &white, &primaries, curves)
    }
  }

  /// The colour space that an input, display, output or colour space profile states.
  ///
  /// Source: ICC.1:2022, section 7.2.
  private static func colorSpace(_ bytes: [UInt8]) -> String? {
    guard bytes.count >= 132, bytes[36..<40].elementsEqual("acsp".utf8),
      ["scnr", "mntr", "prtr", "spac"].contains(String(decoding: bytes[12..<16], as: UTF8.self))
    else { return nil }
    return String(decoding: bytes[16..<20], as: UTF8.self)
  }

  private init?(
    model: Model, isGrayInRGB: Bool, open: (cmsContext) -> cmsHPROFILE?
  ) {
    // A context of its own: lcms keeps state and errors there, and prints nothing.
    guard let context = cmsCreateContext(nil, nil) else { return nil }
    guard let profile = open(context) else {
      cmsDeleteContext(context)
      return nil
    }
    guard let standard = cmsCreate_sRGBProfileTHR(context) else {
      cmsCloseProfile(profile)
      cmsDeleteContext(context)
      return nil
    }
    let format: UInt32
    switch model {
    case .gray: format = isGrayInRGB ? fm_lcms_rgb8 : fm_lcms_gray8
    case .rgb: format = fm_lcms_rgb8
    case .inks: format = fm_lcms_cmyk8_reversed
    }
    guard
      let transform = cmsCreateTransformTHR(
        context, profile, format, standard, fm_lcms_rgb8, UInt32(INTENT_PERCEPTUAL), 0)
    else {
      cmsCloseProfile(standard)
      cmsCloseProfile(profile)
      cmsDeleteContext(context)
      return nil
    }
    self.context = context
    self.profile = profile
    self.standard = standard
    self.transform = transform
    self.model = model
    self.isGrayInRGB = isGrayInRGB
  }

  deinit {
    if let transformWithAlpha { cmsDeleteTransform(transformWithAlpha) }
    cmsDeleteTransform(transform)
    cmsCloseProfile(standard)
    cmsCloseProfile(profile)
    cmsDeleteContext(context)
  }

  /// Whether no value of a 9 x 9 x 9 grid (or no gray) moves by more than two of 255 levels: the
  /// profile is one of the many spellings of sRGB.
  private var changesNothing: Bool {
    switch model {
    case .inks:
      return false
    case .gray:
      return grayTable.enumerated().allSatisfy { abs($0.offset - Int($0.element)) <= 2 }
    case .rgb:
      let steps = (0...8).map { UInt8(min(255, $0 * 32)) }
      var grid: [UInt8] = []
      for r in steps { for g in steps { for b in steps { grid += [r, g, b] } } }
      var converted = grid
      cmsDoTransform(transform, grid, &converted, UInt32(grid.count / 3))
      return zip(grid, converted).allSatisfy { abs(Int($0) - Int($1)) <= 2 }
    }
  }

  /// What each gray becomes; gray stays gray.
  private lazy var grayTable: [UInt8] = {
    let width = isGrayInRGB ? 3 : 1
    let grays = (0..<256 * width).map { UInt8($0 / width) }
    var colors = [UInt8](repeating: 0, count: 256 * 3)
    cmsDoTransform(transform, grays, &colors, 256)
    return (0..<256).map { colors[3 * $0 + 1] }
  }()

  /// Converts in place.
  func convert(gray plane: Plane) {
    grayTable.withUnsafeBufferPointer { table in
      for y in 0..<plane.height {
        let row = plane.row(y)
        for x in 0..<plane.width { row[x] = table[Int(row[x])] }
      }
    }
  }

  /// Converts R, G, B in place, or the three planes of Y, Cb, Cr to R, G, B.
  func convert(_ planes: [Plane], isYCbCr: Bool) throws(ImageProblem) {
    if isYCbCr { YCbCr.convertToRGB(planes) }
    try convert(planes, samples: 3)
  }

  /// Converts four planes of inks; the first three become R, G, B.
  func convert(inks planes: [Plane]) throws(ImageProblem) { try convert(planes, samples: 4) }

  /// Converts R, G, B of pixels with alpha in place.
  func convert(rgba row: UnsafeMutablePointer<UInt8>, count: Int) {
    if model == .gray {
      for sample in 0..<4 * count where sample & 3 != 3 {
        row[sample] = grayTable[Int(row[sample])]
      }
    } else {
      if transformWithAlpha == nil {
        transformWithAlpha = cmsCreateTransformTHR(
          context, profile, fm_lcms_rgba8, standard, fm_lcms_rgba8, UInt32(INTENT_PERCEPTUAL),
          UInt32(cmsFLAGS_COPY_ALPHA))
      }
      guard let transformWithAlpha else { return }
      cmsDoTransform(transformWithAlpha, row, row, UInt32(count))
    }
  }

  /// The same for 16 bits a sample. Colours go through 8 bits: lcms interpolates those of 16 bits in
  /// a coarse table, which is further off than one rounding. Alpha keeps its bits.
  func convert(deepRGBA row: UnsafeMutablePointer<UInt16>, count: Int) {
    let shallow = UnsafeMutablePointer<UInt8>.allocate(capacity: 4 * count)
    defer { shallow.deallocate() }
    for sample in 0..<4 * count {
      shallow[sample] = UInt8(truncatingIfNeeded: (UInt32(row[sample]) * 255 + 32767) / 65535)
    }
    convert(rgba: shallow, count: count)
    for sample in 0..<4 * count where sample & 3 != 3 {
      row[sample] = UInt16(shallow[sample]) * 257
    }
  }

  private func convert(_ planes: [Plane], samples: Int) throws(ImageProblem) {
    let width = planes[0].width
    guard let memory = malloc(width * (samples + 3)) else {
      throw .outOfMemory(width, planes[0].height)
    }
    defer { free(memory) }
    let input = memory.assumingMemoryBound(to: UInt8.self)
    let output = input + width * samples
    for y in 0..<planes[0].height {
      for (index, plane) in planes.enumerated() {
        let row = plane.row(y)
        for x in 0..<width { input[samples * x + index] = row[x] }
      }
      cmsDoTransform(transform, input, output, UInt32(width))
      for (index, plane) in planes.prefix(3).enumerated() {
        let row = plane.row(y)
        for x in 0..<width { row[x] = output[3 * x + index] }
      }
    }
  }
}
