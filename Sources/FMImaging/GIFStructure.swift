/// A GIF file up to its first picture: sizes, colours and where the coded data lies.
///
/// Source: GIF89a specification (CompuServe, 1990), sections 17 to 27. Decodes nothing.
struct GIFStructure {
  /// Size of the canvas; what the first frame does not cover is transparent.
  var width: Int
  var height: Int
  /// Where the frame belongs on the canvas.
  var x: Int
  var y: Int
  var frameWidth: Int
  var frameHeight: Int
  var isInterlaced: Bool
  /// R, G, B, R, G, B ...; the frame's own or the file's.
  var palette: ArraySlice<UInt8>
  var transparentIndex: Int?
  /// Bits of the first code, less one: 2 to 8.
  var codeSize: Int
  /// The sub-blocks of the coded data, from the first length byte to the end of the file.
  var data: ArraySlice<UInt8>

  init(_ bytes: [UInt8], limits: ImageLimits) throws(ImageProblem) {
    var cursor = ByteCursor(bytes[...])
    guard cursor.skip(6), let screenWidth = cursor.little(2), let screenHeight = cursor.little(2),
      let packed = cursor.byte(), cursor.skip(2)
    else { throw Self.cutShort }
    try limits.check(width: screenWidth, height: screenHeight)
    var global: ArraySlice<UInt8> = []
    if packed & 0x80 != 0 { global = try Self.table(&cursor, packed) }

    blocks: while true {
      guard let introducer = cursor.byte() else { throw Self.cutShort }
      switch introducer {
      case 0x2C:
        break blocks
      case 0x21:
        guard let label = cursor.byte() else { throw Self.cutShort }
        // The graphic control extension: flags, a delay of two bytes, the transparent index.
        if label == 0xF9, let control = Self.control(cursor) {
          transparentIndex = control.flags & 1 != 0 ? control.index : nil
        }
        try Self.skipBlocks(&cursor)
      case 0x3B:
        throw ImageProblem(.corrupt, "the GIF holds no picture; it is damaged")
      default:
        throw Self.damaged
      }
    }

    guard let left = cursor.little(2), let top = cursor.little(2), let across = cursor.little(2),
      let down = cursor.little(2), let flags = cursor.byte()
    else { throw Self.cutShort }
    guard across > 0, down > 0 else { throw Self.damaged }
    (x, y, frameWidth, frameHeight) = (left, top, across, down)
    // A frame beyond the canvas enlarges it, as viewers do.
    width = max(screenWidth, left + across)
    height = max(screenHeight, top + down)
    try limits.check(width: width, height: height)
    isInterlaced = flags & 0x40 != 0
    palette = flags & 0x80 != 0 ? try Self.table(&cursor, flags) : global
    guard let size = cursor.byte() else { throw Self.cutShort }
    guard (1...8).contains(size), !palette.isEmpty else { throw Self.damaged }
    codeSize = Int(size)
    data = cursor.bytes[(cursor.bytes.startIndex + cursor.position)...]
  }

  /// Whether pixels may be anything but opaque.
  var hasAlpha: Bool {
    transparentIndex != nil || x > 0 || y > 0 || frameWidth < width || frameHeight < height
  }

  private static func table(_ cursor: inout ByteCursor, _ flags: UInt8) throws(ImageProblem)
    -> ArraySlice<UInt8>
  {
    guard let table = cursor.take(3 << (Int(flags & 7) + 1)) else { throw cutShort }
    return table
  }

  private static func control(_ cursor: ByteCursor) -> (flags: UInt8, index: Int)? {
    var cursor = cursor
    guard let length = cursor.byte(), length >= 4, let flags = cursor.byte(), cursor.skip(2),
      let index = cursor.byte()
    else { return nil }
    return (flags, Int(index))
  }

  private static func skipBlocks(_ cursor: inout ByteCursor) throws(ImageProblem) {
    while true {
      guard let length = cursor.byte() else { throw cutShort }
      if length == 0 { return }
      guard cursor.skip(Int(length)) else { throw cutShort }
    }
  }

  static var cutShort: ImageProblem {
    ImageProblem(.corrupt, "the GIF is cut short; copy or download it again")
  }

  static var damaged: ImageProblem {
    ImageProblem(.corrupt, "the GIF is damaged; copy or download it again")
  }
}
