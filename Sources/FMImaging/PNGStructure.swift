import CSPNG

/// A PNG file as its chunks divide it: what decoding needs, and what can be left out.
///
/// Source: PNG specification, third edition, section 5. Every chunk's CRC is checked; nothing is
/// inflated.
struct PNGStructure {
  var width: Int
  var height: Int
  var bitDepth: Int
  /// 0 gray, 2 RGB, 3 palette, 4 gray with alpha, 6 RGB with alpha.
  var colorType: Int
  var isInterlaced: Bool
  var hasTransparency = false
  var isAnimated = false
  /// Payload of eXIf: a TIFF block.
  var exif: ArraySlice<UInt8>?
  /// Payload of cICP, which overrides every other statement of colour.
  var codePoints: ArraySlice<UInt8>?
  /// Payload of iCCP, unless sRGB overrides it.
  var colorProfile: ArraySlice<UInt8>?
  /// IHDR, PLTE, tRNS, IDAT and IEND, whole chunks in order.
  var essentials: [Range<Int>] = []

  /// EXIF, texts and the time: whole chunks, in order.
  var metadata: [Range<Int>] = []

  static let signature: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]

  init(_ bytes: [UInt8], limits: ImageLimits) throws(ImageProblem) {
    guard bytes.starts(with: Self.signature) else {
      throw ImageProblem(
        .corrupt, "the PNG's signature is damaged, perhaps by a transfer as text; copy it again")
    }
    func word(_ offset: Int) -> Int {
      bytes[offset..<offset + 4].reduce(0) { $0 << 8 | Int($1) }
    }

    // IHDR first, and alone, so that absurd sizes are refused before the rest is walked.
    guard bytes.count >= 33 else { throw Self.cutShort }
    guard word(8) == 13, bytes[12..<16].elementsEqual("IHDR".utf8) else {
      throw ImageProblem(.corrupt, "the PNG does not begin with its header; it is damaged")
    }
    guard Self.hasGoodChecksum(bytes, chunkAt: 8, length: 13) else { throw Self.damaged("IHDR") }
    width = word(16)
    height = word(20)
    bitDepth = Int(bytes[24])
    colorType = Int(bytes[25])
    isInterlaced = bytes[28] == 1
    guard width > 0, height > 0 else {
      throw ImageProblem(
        .corrupt, "the PNG says it has \(width) x \(height) pixels; it is damaged")
    }
    guard width <= Int32.max, height <= Int32.max else {
      throw ImageProblem(.corrupt, "the PNG's size is impossible; it is damaged")
    }
    try limits.check(width: width, height: height)
    let depths: [Int]
    switch colorType {
    case 0: depths = [1, 2, 4, 8, 16]
    case 3: depths = [1, 2, 4, 8]
    case 2, 4, 6: depths = [8, 16]
    default: depths = []
    }
    guard depths.contains(bitDepth), bytes[26] == 0, bytes[27] == 0, bytes[28] <= 1 else {
      throw ImageProblem(.corrupt, "the PNG's header states an impossible format; it is damaged")
    }

    var position = 8
    var hasPalette = false
    var hasData = false
    var hasStandardColors = false
    while true {
      guard position + 12 <= bytes.count else { throw Self.cutShort }
      let length = word(position)
      let end = position + 12 + length
      guard end <= bytes.count else { throw Self.cutShort }
      let type = String(decoding: bytes[position + 4..<position + 8], as: UTF8.self)
      guard Self.hasGoodChecksum(bytes, chunkAt: position, length: length) else {
        throw Self.damaged(type)
      }
      let payload = bytes[position + 8..<position + 8 + length]
      switch type {
      case "IHDR", "IDAT", "PLTE", "IEND":
        essentials.append(position..<end)
        hasData = hasData || type == "IDAT"
        hasPalette = hasPalette || type == "PLTE"
      case "tRNS":
        hasTransparency = true
        essentials.append(position..<end)
      case "acTL":
        isAnimated = true
      case "eXIf":
        exif = exif ?? payload
        metadata.append(position..<end)
      case "tEXt", "zTXt", "iTXt", "tIME":
        metadata.append(position..<end)
      case "iCCP":
        colorProfile = colorProfile ?? payload
      case "cICP":
        codePoints = codePoints ?? payload
      case "sRGB":
        hasStandardColors = true
      case "CgBI":
        throw ImageProblem(
          .unsupportedFormat, "Apple's CgBI variant of PNG is not supported; save it as plain PNG")
      default:
        // A lower-case first letter marks a chunk that decoders may leave out.
        if bytes[position + 4] & 0x20 == 0 {
          throw ImageProblem(.corrupt, "the PNG has an unknown critical chunk; it is damaged")
        }
      }
      position = end
      if type == "IEND" { break }
    }
    guard hasData, hasPalette || colorType != 3 else {
      throw ImageProblem(.corrupt, "the PNG holds no picture data; it is damaged")
    }
    if hasStandardColors { colorProfile = nil }
  }

  /// Whether pixels may be anything but opaque.
  var hasAlpha: Bool { hasTransparency || colorType == 4 || colorType == 6 }

  var isGray: Bool { colorType == 0 || colorType == 4 }

  /// The same picture with nothing but the chunks that its pixels come from.
  func withoutMetadata(_ bytes: [UInt8]) -> [UInt8] {
    var output: [UInt8] = []
    output.reserveCapacity(essentials.reduce(8) { $0 + $1.count })
    output += Self.signature
    for range in essentials { output += bytes[range] }
    return output
  }

  private static var cutShort: ImageProblem {
    ImageProblem(.corrupt, "the PNG is cut short; copy or download it again")
  }

  private static func damaged(_ chunk: String) -> ImageProblem {
    let isName = chunk.utf8.count == 4 && chunk.allSatisfy { $0.isASCII && $0.isLetter }
    return ImageProblem(
      .corrupt,
      "the PNG is damaged: the checksum of \(isName ? "its \(chunk) chunk" : "a chunk") is wrong; "
        + "copy or download it again")
  }

  private static func hasGoodChecksum(_ bytes: [UInt8], chunkAt start: Int, length: Int) -> Bool {
    let stored = bytes[start + 8 + length..<start + 12 + length].reduce(0) { $0 << 8 | UInt($1) }
    let computed = bytes.withUnsafeBufferPointer {
      crc32_z(0, $0.baseAddress! + start + 4, 4 + length)
    }
    return UInt(computed) == stored
  }
}
