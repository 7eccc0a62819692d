/// A BMP file's header: sizes, colours and where the pixels lie.
///
/// Source: Microsoft, "Bitmap Storage" and the BITMAP*HEADER structures. Decodes nothing.
struct BMPStructure {
  enum Coding {
    case plain
    /// Run lengths of 8- or 4-bit indices.
    case runs
  }

  var width: Int
  var height: Int
  var isTopDown: Bool
  /// 1, 4, 8, 16, 24 or 32.
  var bitsPerPixel: Int
  var coding: Coding
  /// Which bits of a 16- or 32-bit pixel are red, green, blue and alpha (0: opaque).
  var masks: [UInt32]
  /// B, G, R, 0 or, in the oldest files, B, G, R.
  var palette: ArraySlice<UInt8>
  var paletteStep: Int
  /// From the first pixel to the end of the file.
  var data: ArraySlice<UInt8>
  var colorProfile: ColorProfile = .absent

  init(_ bytes: [UInt8], limits: ImageLimits) throws(ImageProblem) {
    var cursor = ByteCursor(bytes[...])
    guard cursor.skip(10), let offset = cursor.little(4), let size = cursor.little(4) else {
      throw Self.cutShort
    }
    guard let header = cursor.take(size - 4) else {
      throw (12...124).contains(size) ? Self.cutShort : Self.damaged
    }
    var fields = ByteCursor(header)
    var compression = 0
    var colorCount = 0
    if size == 12 {
      guard let w = fields.little(2), let h = fields.little(2), fields.skip(2),
        let bits = fields.little(2)
      else { throw Self.damaged }
      (width, height, bitsPerPixel, isTopDown, paletteStep) = (w, h, bits, false, 3)
    } else {
      guard size >= 16, let w = fields.little(4), let h = fields.little(4), fields.skip(2),
        let bits = fields.little(2)
      else { throw Self.damaged }
      let signed = Int32(truncatingIfNeeded: h)
      isTopDown = signed < 0
      (width, height, bitsPerPixel, paletteStep) = (w, Int(signed.magnitude), bits, 4)
      if size >= 40 {
        guard let method = fields.little(4), fields.skip(12), let used = fields.little(4),
          fields.skip(4)
        else { throw Self.damaged }
        (compression, colorCount) = (method, used)
      }
    }
    guard width > 0, height > 0, width <= Int32.max else {
      throw ImageProblem(
        .corrupt, "the BMP says it has \(width) x \(height) pixels; it is damaged")
    }
    try limits.check(width: width, height: height)

    masks = bitsPerPixel == 16 ? [0x7C00, 0x3E0, 0x1F, 0] : [0xFF_0000, 0xFF00, 0xFF, 0]
    switch (compression, bitsPerPixel) {
    case (0, 1), (0, 4), (0, 8), (0, 16), (0, 24), (0, 32):
      coding = .plain
    case (1, 8), (2, 4):
      coding = .runs
      guard !isTopDown else { throw Self.damaged }
    case (3, 16), (3, 32), (6, 16), (6, 32):
      coding = .plain
      // In the header where it is long enough, else right after it; alpha only in longer ones.
      let count = size >= 56 || compression == 6 ? 4 : 3
      for index in 0..<count {
        guard let mask = size >= 52 ? fields.little(4) : cursor.little(4) else {
          throw Self.cutShort
        }
        masks[index] = UInt32(mask)
      }
      guard masks.allSatisfy(Self.isOneRun) else { throw Self.damaged }
    case (4, _), (5, _):
      throw ImageProblem(
        .unsupportedFormat, "BMP with JPEG or PNG inside is not supported; save it as JPEG or PNG")
    default:
      throw ImageProblem(
        .unsupportedFormat,
        "BMP with \(bitsPerPixel) bits a pixel and method \(compression) is not supported; "
          + "save it as JPEG or PNG")
    }

    palette = []
    if bitsPerPixel <= 8 {
      let most = 1 << bitsPerPixel
      // Some files count more colours than their pixels can name, and some lack a few.
      let count = colorCount == 0 ? most : min(colorCount, most)
      let room = max(0, offset - 14 - size)
      let length = min(count * paletteStep, offset >= 14 + size ? room : count * paletteStep)
      guard let table = cursor.take(length) else { throw Self.cutShort }
      palette = table
    }
    guard offset >= 14 + size, offset <= bytes.count else { throw Self.cutShort }
    data = bytes[offset...]
    if coding == .plain, data.count < rowBytes * height { throw Self.cutShort }
    if size >= 124 { colorProfile = Self.profile(header, bytes) }
  }

  /// Bytes of a row that is not coded; rows are padded to four.
  var rowBytes: Int { (width * bitsPerPixel + 31) / 32 * 4 }

  /// An embedded profile, as the longest header may have one.
  private static func profile(_ header: ArraySlice<UInt8>, _ bytes: [UInt8]) -> ColorProfile {
    // Counted from the header's start, whose first four bytes are its size.
    var fields = ByteCursor(header)
    guard fields.skip(52), let kind = fields.take(4), kind.elementsEqual("DEBM".utf8),
      fields.skip(52), let start = fields.little(4), let length = fields.little(4),
      length <= ColorProfile.maxByteCount, 14 + start + length <= bytes.count
    else { return .absent }
    return .icc(Array(bytes[14 + start..<14 + start + length]))
  }

  /// Whether the set bits lie side by side.
  private static func isOneRun(_ mask: UInt32) -> Bool {
    let shifted = mask == 0 ? 0 : mask >> UInt32(mask.trailingZeroBitCount)
    return shifted & (shifted &+ 1) == 0
  }

  static var cutShort: ImageProblem {
    ImageProblem(.corrupt, "the BMP is cut short; copy or download it again")
  }

  static var damaged: ImageProblem {
    ImageProblem(.corrupt, "the BMP's header contradicts itself; it is damaged")
  }
}
