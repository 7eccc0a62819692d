/// A WebP file as its chunks divide it: sizes, metadata and the first picture's bitstream.
///
/// Source: RFC 9649 (container), RFC 6386 section 9.1 (lossy header). Decodes nothing.
struct WebPStructure {
  /// Size of the whole picture; what a frame does not cover is transparent.
  var width: Int
  var height: Int
  var isAnimated = false
  /// A TIFF block, without the "Exif\0\0" that some programs put before it.
  var exif: ArraySlice<UInt8>?
  var colorProfile: ArraySlice<UInt8>?
  /// The picture's, or the first frame's, chunks for the decoder: ALPH and VP8, or VP8L.
  var bitstream: ArraySlice<UInt8>
  var frame: Frame

  /// Where the decoded pixels belong.
  struct Frame: Equatable {
    var x = 0
    var y = 0
    var width: Int
    var height: Int
  }

  var coversEverything: Bool { frame == Frame(width: width, height: height) }

  init(_ bytes: [UInt8], limits: ImageLimits) throws(ImageProblem) {
    var file = ByteCursor(bytes[...])
    guard file.skip(4), let stated = file.little(4), file.skip(4) else { throw Self.cutShort }
    guard stated >= 4 else { throw Self.damaged }
    // What follows the stated size is not the picture's. The last chunk's padding byte may lack.
    guard bytes.count >= 8 + stated - 1 else { throw Self.cutShort }
    var chunks = ByteCursor(bytes[12..<min(bytes.count, 8 + stated)])

    guard let first = try Self.chunk(&chunks) else { throw Self.cutShort }
    if first.name == "VP8 " || first.name == "VP8L" {
      let size = try Self.bitstreamSize(first)
      (width, height) = size
      frame = Frame(width: width, height: height)
      bitstream = first.whole
      try limits.check(width: width, height: height)
      return
    }
    guard first.name == "VP8X" else { throw Self.damaged }
    var header = ByteCursor(first.payload)
    guard let flags = header.byte(), header.skip(3), let across = header.little(3),
      let down = header.little(3)
    else { throw Self.damaged }
    width = across + 1
    height = down + 1
    isAnimated = flags & 0x02 != 0
    try limits.check(width: width, height: height)

    var found: (bitstream: ArraySlice<UInt8>, frame: Frame)?
    var alpha: ArraySlice<UInt8>?
    while let chunk = try Self.chunk(&chunks) {
      switch chunk.name {
      case "ICCP":
        colorProfile = colorProfile ?? chunk.payload
      case "EXIF":
        let hasPrefix = chunk.payload.starts(with: "Exif\0\0".utf8)
        exif = exif ?? (hasPrefix ? chunk.payload.dropFirst(6) : chunk.payload)
      case "ANMF" where found == nil && isAnimated:
        found = try Self.firstFrame(chunk.payload)
      case "ALPH" where found == nil && !isAnimated:
        alpha = chunk.whole
      case "VP8 ", "VP8L":
        guard found == nil, !isAnimated else { continue }
        let size = try Self.bitstreamSize(chunk)
        let start = chunk.name == "VP8 " ? alpha?.startIndex : nil
        found = (
          bytes[(start ?? chunk.whole.startIndex)..<chunk.whole.endIndex],
          Frame(width: size.width, height: size.height)
        )
      default:
        continue
      }
    }
    guard let found else {
      throw ImageProblem(.corrupt, "the WebP holds no picture data; it is damaged")
    }
    (bitstream, frame) = found
    guard frame.x + frame.width <= width, frame.y + frame.height <= height,
      isAnimated || coversEverything
    else { throw Self.damaged }
  }

  private struct Chunk {
    var name: String
    var payload: ArraySlice<UInt8>
    /// With name and length.
    var whole: ArraySlice<UInt8>
  }

  private static func chunk(_ cursor: inout ByteCursor) throws(ImageProblem) -> Chunk? {
    // A lone byte at the end is padding that somebody counted differently.
    if cursor.remaining < 8 { return nil }
    let start = cursor.bytes.startIndex + cursor.position
    guard let name = cursor.name(), let length = cursor.little(4),
      let payload = cursor.take(length)
    else { throw cutShort }
    _ = cursor.skip(min(length & 1, cursor.remaining))
    return Chunk(
      name: name, payload: payload, whole: cursor.bytes[start..<payload.endIndex])
  }

  /// The place and the chunks of an animation's frame.
  private static func firstFrame(_ payload: ArraySlice<UInt8>) throws(ImageProblem)
    -> (bitstream: ArraySlice<UInt8>, frame: Frame)
  {
    var cursor = ByteCursor(payload)
    guard let x = cursor.little(3), let y = cursor.little(3), let across = cursor.little(3),
      let down = cursor.little(3), cursor.skip(4)
    else { throw damaged }
    let frame = Frame(x: 2 * x, y: 2 * y, width: across + 1, height: down + 1)
    let start = payload.startIndex + cursor.position
    while let chunk = try chunk(&cursor) {
      guard chunk.name == "VP8 " || chunk.name == "VP8L" else { continue }
      let size = try bitstreamSize(chunk)
      guard size.width == frame.width, size.height == frame.height else { throw damaged }
      return (payload[start..<chunk.whole.endIndex], frame)
    }
    throw damaged
  }

  /// The size that the coded picture itself states.
  private static func bitstreamSize(_ chunk: Chunk) throws(ImageProblem) -> (
    width: Int, height: Int
  ) {
    var cursor = ByteCursor(chunk.payload)
    if chunk.name == "VP8L" {
      guard let signature = cursor.byte(), let bits = cursor.little(4) else { throw cutShort }
      guard signature == 0x2F, bits >> 29 == 0 else { throw damaged }
      return (bits & 0x3FFF + 1, bits >> 14 & 0x3FFF + 1)
    }
    guard let tag = cursor.little(3), let code = cursor.big(3), let across = cursor.little(2),
      let down = cursor.little(2)
    else { throw cutShort }
    // The lowest bit of a key frame is 0; the upper two of the sizes ask for upscaling.
    let size = (width: across & 0x3FFF, height: down & 0x3FFF)
    guard tag & 1 == 0, code == 0x9D012A, size.width > 0, size.height > 0 else { throw damaged }
    return size
  }

  private static var cutShort: ImageProblem {
    ImageProblem(.corrupt, "the WebP is cut short; copy or download it again")
  }

  private static var damaged: ImageProblem {
    ImageProblem(.corrupt, "the WebP's header contradicts itself; it is damaged")
  }
}
