import CSPNG

/// What a policy with `metadata: .keep` takes over from a file, in the form of each output format.
///
/// The orientation is set to 1 wherever it stands, since the pixels have taken it over.
struct KeptMetadata {
  /// TIFF blocks of EXIF.
  private var exif: [[UInt8]] = []
  /// Other JPEG segments and PNG chunks, whole: each fits its own format only.
  private var segments: [[UInt8]] = []
  private var chunks: [[UInt8]] = []

  init() {}

  init(_ structure: JPEGStructure, _ bytes: [UInt8]) {
    let exifHeader = Array("Exif\0\0".utf8)
    for range in structure.metadata {
      let payload = bytes[range].dropFirst(4)
      if payload.starts(with: exifHeader) {
        keep(exif: Array(payload.dropFirst(exifHeader.count)))
      } else {
        segments.append(Self.withoutTextOrientation(Array(bytes[range])))
      }
    }
  }

  init(_ structure: PNGStructure, _ bytes: [UInt8]) {
    for range in structure.metadata {
      let chunk = Array(bytes[range])
      if chunk[4..<8].elementsEqual("eXIf".utf8) {
        keep(exif: Array(chunk[8..<(chunk.count - 4)]))
      } else {
        let body = Self.withoutTextOrientation(Array(chunk[4..<(chunk.count - 4)]))
        chunks.append(Self.chunk(body))
      }
    }
  }

  /// Bytes that a file grows by, at most.
  var byteCount: Int {
    exif.reduce(0) { $0 + $1.count + 12 } + segments.reduce(0) { $0 + $1.count }
      + chunks.reduce(0) { $0 + $1.count }
  }

  /// Encoded bytes of either format with the metadata put in.
  func added(to bytes: [UInt8], _ format: ImageFormat) -> [UInt8] {
    let isJPEG = format == .jpeg
    var insert: [UInt8] = []
    for block in exif {
      if !isJPEG {
        insert += Self.chunk(Array("eXIf".utf8) + block)
      } else if block.count <= 65535 - 8 {
        let length = block.count + 8
        insert += [0xFF, 0xE1, UInt8(length >> 8), UInt8(length & 255)]
        insert += Array("Exif\0\0".utf8) + block
      }
    }
    insert += (isJPEG ? segments : chunks).joined()
    guard !insert.isEmpty else { return bytes }
    // After JFIF's or Adobe's segment, which is the first; after a PNG's header.
    let position = isJPEG ? 4 + (Int(bytes[4]) << 8 | Int(bytes[5])) : 33
    return Array(bytes[..<position]) + insert + bytes[position...]
  }

  private mutating func keep(exif block: [UInt8]) {
    let upright = Self.withoutOrientation(block)
    // One that still turns the picture would turn it twice.
    if EXIFReader.orientation(ofTIFF: upright[...]).orUp == .up { exif.append(upright) }
  }

  /// The TIFF block with the orientation of its first directory set to 1.
  private static func withoutOrientation(_ block: [UInt8]) -> [UInt8] {
    var block = block
    guard block.count >= 8 else { return block }
    let isBig = block[0] == 0x4D
    func number(_ offset: Int, _ count: Int) -> Int? {
      guard offset >= 0, offset + count <= block.count else { return nil }
      let digits = block[offset..<offset + count]
      return (isBig ? Array(digits) : digits.reversed()).reduce(0) { $0 << 8 | Int($1) }
    }
    guard let directory = number(4, 4), let count = number(directory, 2) else { return block }
    for index in 0..<count {
      let entry = directory + 2 + 12 * index
      guard number(entry, 2) == 0x0112, let type = number(entry + 2, 2), number(entry + 8, 4) != nil
      else { continue }
      let size = type == 4 ? 4 : 2
      for place in 0..<size { block[entry + 8 + place] = 0 }
      block[entry + 8 + (isBig ? size - 1 : 0)] = 1
    }
    return block
  }

  /// XMP says it in words: the digit after "tiff:Orientation" becomes 1.
  private static func withoutTextOrientation(_ bytes: [UInt8]) -> [UInt8] {
    var bytes = bytes
    let name = Array("tiff:Orientation".utf8)
    guard bytes.count > name.count else { return bytes }
    for start in 0..<(bytes.count - name.count)
    where bytes[start] == name[0] && bytes[start..<start + name.count].elementsEqual(name) {
      let end = min(bytes.count, start + name.count + 4)
      if let digit = bytes[start + name.count..<end].firstIndex(where: {
        (0x31...0x38).contains($0)
      }) {
        bytes[digit] = 0x31
      }
    }
    return bytes
  }

  /// A chunk of PNG; the body begins with its type.
  private static func chunk(_ body: [UInt8]) -> [UInt8] {
    func big(_ value: UInt32) -> [UInt8] { (0..<4).map { UInt8(value >> (24 - 8 * $0) & 255) } }
    let checksum = body.withUnsafeBufferPointer { crc32_z(0, $0.baseAddress, $0.count) }
    return big(UInt32(body.count - 4)) + body + big(UInt32(truncatingIfNeeded: checksum))
  }
}
