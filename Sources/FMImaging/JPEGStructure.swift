import Glibc

/// A JPEG file as its markers divide it: what decoding needs, and what can be left out.
///
/// Source: ITU-T T.81, annex B. Decodes nothing; the cost is one pass of memchr over the scans.
struct JPEGStructure {
  struct Component {
    var id: UInt8
    var horizontal: Int
    var vertical: Int
  }

  /// The frame header, SOF0 to SOF15.
  struct Frame {
    var marker: UInt8
    var precision: Int
    var width: Int
    var height: Int
    var components: [Component]
  }

  var frame: Frame
  /// The TIFF block of the first Exif segment.
  var exif: ArraySlice<UInt8>?
  /// Payloads of the ICC_PROFILE segments, by sequence number; their total count as stated.
  var iccChunks: [(number: Int, count: Int, payload: ArraySlice<UInt8>)] = []
  /// Tables, frame and scans: the bytes that decoding needs, in order, without SOI and EOI.
  var essentials: [Range<Int>] = []
  /// EXIF, XMP, IPTC and comments: whole segments, in order.
  var metadata: [Range<Int>] = []
  var scanCount = 0

  /// More scans than any encoder makes; each costs a pass over all coefficients.
  static let maxScans = 500

  init(_ bytes: [UInt8], limits: ImageLimits) throws(ImageProblem) {
    var frame: Frame?
    var position = 2
    reading: while true {
      // Next marker: bytes that belong to nothing are skipped, as libjpeg does.
      guard let start = Self.firstMarkerByte(bytes, from: position) else {
        throw Self.cutShort(scanCount)
      }
      position = start
      while position < bytes.count, bytes[position] == 0xFF { position += 1 }
      guard position < bytes.count else { throw Self.cutShort(scanCount) }
      let marker = bytes[position]
      let markerStart = position - 1
      position += 1

      switch marker {
      case 0x00, 0x01, 0xD0...0xD7:
        continue
      case 0xD8:
        throw ImageProblem(.corrupt, "the JPEG starts twice; it is damaged")
      case 0xD9:
        break reading
      default:
        break
      }

      guard position + 2 <= bytes.count else { throw Self.cutShort(scanCount) }
      let length = Int(bytes[position]) << 8 | Int(bytes[position + 1])
      let end = position + length
      guard length >= 2 else {
        throw ImageProblem(.corrupt, "a JPEG segment has an impossible length; it is damaged")
      }
      guard end <= bytes.count else { throw Self.cutShort(scanCount) }
      let payload = bytes[position + 2..<end]

      switch marker {
      case 0xC0...0xC3, 0xC5...0xC7, 0xC9...0xCB, 0xCD...0xCF:
        guard frame == nil else {
          throw ImageProblem(.corrupt, "the JPEG has two frame headers; it is damaged")
        }
        frame = try Self.readFrame(marker: marker, payload, limits: limits)
        essentials.append(markerStart..<end)
      case 0xC4, 0xCC, 0xDB, 0xDD:
        essentials.append(markerStart..<end)
      case 0xDA:
        guard frame != nil else {
          throw ImageProblem(
            .corrupt, "the JPEG has no frame header before its data; it is damaged")
        }
        scanCount += 1
        if scanCount > Self.maxScans {
          throw ImageProblem(
            .tooLarge,
            "the JPEG has more than \(Self.maxScans) scans, which no camera or program writes")
        }
        let scanEnd = Self.endOfScan(bytes, from: end)
        essentials.append(markerStart..<scanEnd)
        position = scanEnd
        continue
      case 0xE1, 0xED, 0xFE:
        metadata.append(markerStart..<end)
        if marker == 0xE1, exif == nil, payload.starts(with: "Exif\0\0".utf8) {
          exif = payload.dropFirst(6)
        }
      case 0xE2:
        if payload.count > 14, payload.starts(with: "ICC_PROFILE\0".utf8) {
          let start = payload.startIndex + 12
          iccChunks.append(
            (Int(payload[start]), Int(payload[start + 1]), payload[(start + 2)...]))
        }
      default:
        break
      }
      position = end
    }
    guard let frame, scanCount > 0 else {
      throw ImageProblem(.corrupt, "the JPEG holds no picture data; it is damaged")
    }
    self.frame = frame
  }

  /// Whether every decoder in use reads this process: 8-bit Huffman, 1 or 3 components.
  var isPlain: Bool {
    (0xC0...0xC2).contains(frame.marker) && frame.precision == 8
      && (frame.components.count == 1 || frame.components.count == 3)
      && hasWholeSampling
  }

  /// Some decoders want every component's sampling to divide the largest.
  private var hasWholeSampling: Bool {
    let horizontal = frame.components.map(\.horizontal).max() ?? 1
    let vertical = frame.components.map(\.vertical).max() ?? 1
    return frame.components.allSatisfy {
      horizontal % $0.horizontal == 0 && vertical % $0.vertical == 0
    }
  }

  /// Component ids that make some decoders take the samples for RGB.
  var hasRGBComponentIDs: Bool { frame.components.map(\.id) == Array("RGB".utf8) }

  private static func readFrame(
    marker: UInt8, _ payload: ArraySlice<UInt8>, limits: ImageLimits
  ) throws(ImageProblem) -> Frame {
    let data = Array(payload)
    guard data.count >= 6, data.count == 6 + 3 * Int(data[5]) else {
      throw ImageProblem(.corrupt, "the JPEG's frame header is damaged")
    }
    var frame = Frame(
      marker: marker, precision: Int(data[0]), width: Int(data[3]) << 8 | Int(data[4]),
      height: Int(data[1]) << 8 | Int(data[2]), components: [])
    for start in stride(from: 6, to: data.count, by: 3) {
      frame.components.append(
        Component(
          id: data[start], horizontal: Int(data[start + 1] >> 4),
          vertical: Int(data[start + 1] & 15)))
    }
    guard frame.width > 0, frame.height > 0 else {
      throw ImageProblem(
        .corrupt, "the JPEG says it has \(frame.width) x \(frame.height) pixels; it is damaged")
    }
    try limits.check(width: frame.width, height: frame.height)
    // libjpeg's JPEG_MAX_DIMENSION.
    guard frame.width <= 65500, frame.height <= 65500 else {
      throw ImageProblem(
        .tooLarge,
        "\(frame.width) x \(frame.height) pixels; a side has 65500 at most: scale it down")
    }
    let process: String
    switch marker {
    case 0xC0, 0xC1, 0xC2, 0xC9, 0xCA: process = ""
    case 0xC3, 0xCB: process = "lossless"
    default: process = "hierarchical"
    }
    guard process.isEmpty else {
      throw ImageProblem(
        .unsupportedFormat, "\(process) JPEG is not supported; save it as ordinary JPEG or PNG")
    }
    guard frame.precision == 8 else {
      throw ImageProblem(
        .unsupportedFormat,
        "JPEG with \(frame.precision) bits a sample is not supported; save it as 8-bit JPEG or PNG")
    }
    guard [1, 3, 4].contains(frame.components.count) else {
      throw ImageProblem(
        .unsupportedFormat,
        "JPEG with \(frame.components.count) components is not supported; save it as RGB or gray")
    }
    guard
      frame.components.allSatisfy({
        (1...4).contains($0.horizontal) && (1...4).contains($0.vertical)
      })
    else {
      throw ImageProblem(.corrupt, "the JPEG's frame header is damaged")
    }
    return frame
  }

  private static func cutShort(_ scans: Int) -> ImageProblem {
    ImageProblem(
      .corrupt,
      scans == 0
        ? "the JPEG is cut short in its header; copy or download it again"
        : "the JPEG is cut short in its picture data; copy or download it again")
  }

  private static func firstMarkerByte(_ bytes: [UInt8], from start: Int) -> Int? {
    bytes.withUnsafeBytes { buffer in
      guard start < buffer.count, let base = buffer.baseAddress,
        let found = memchr(base + start, 0xFF, buffer.count - start)
      else { return nil }
      return UnsafeRawPointer(found) - base
    }
  }

  /// Where the entropy-coded data that starts at `start` ends: at the 0xFF of the first marker
  /// that is neither a stuffed zero nor a restart marker, or at the end of the bytes.
  private static func endOfScan(_ bytes: [UInt8], from start: Int) -> Int {
    var position = start
    while let found = firstMarkerByte(bytes, from: position) {
      var next = found + 1
      while next < bytes.count, bytes[next] == 0xFF { next += 1 }
      guard next < bytes.count else { return bytes.count }
      switch bytes[next] {
      case 0x00, 0xD0...0xD7: position = next + 1
      default: return found
      }
    }
    return bytes.count
  }
}
