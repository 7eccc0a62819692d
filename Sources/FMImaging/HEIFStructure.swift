/// How the primary picture of a HEIF or AVIF file is to be turned, and what its colours mean where it
/// has numbers instead of a profile.
///
/// Source: ISO/IEC 23008-12 (HEIF), sections 6.5.10 (irot) and 6.5.12 (imir); ISO/IEC 14496-12,
/// sections 8.11 and 12.1.5 (colr). Reads nothing else: libheif does the rest.
struct HEIFStructure {
  /// All turns together; `.up` when there are none.
  var orientation: ImageOrientation = .up
  /// What colr says in numbers. Not asked of libheif: 1.15 loses memory over numbers it does not know.
  var colorProfile = ColorProfile.absent
  /// The picture is cropped, which only the decoder does.
  var isCropped = false

  /// Boxes in boxes, at most.
  private static let maxBoxes = 4096

  /// Never fails: what cannot be understood is left to the decoder.
  init(_ bytes: [UInt8]) {
    guard let meta = Self.boxes(bytes[...]).first(where: { $0.type == "meta" }) else { return }
    let children = Self.boxes(meta.payload.dropFirst(4))
    guard let primary = children.first(where: { $0.type == "pitm" }),
      let item = Self.primaryItem(primary.payload),
      let properties = children.first(where: { $0.type == "iprp" })
    else { return }
    let parts = Self.boxes(properties.payload)
    guard let container = parts.first(where: { $0.type == "ipco" }) else { return }
    let all = Self.boxes(container.payload)
    for association in parts where association.type == "ipma" {
      for index in Self.properties(of: item, association.payload) where all.indices ~= index - 1 {
        apply(all[index - 1])
      }
    }
  }

  private mutating func apply(_ property: Box) {
    switch property.type {
    case "irot":
      // Quarter turns against the clock.
      for _ in 0..<(property.payload.first ?? 0) & 3 { orientation = orientation.then(.left) }
    case "imir":
      // 0 exchanges top and bottom, 1 left and right.
      let isSideways = (property.payload.first ?? 0) & 1 == 1
      orientation = orientation.then(isSideways ? .upMirrored : .downMirrored)
    case "colr":
      var cursor = ByteCursor(property.payload)
      if cursor.name() == "nclx", let primaries = cursor.big(2), let transfer = cursor.big(2) {
        colorProfile = .codePoints(primaries: primaries, transfer: transfer)
      }
    case "clap":
      isCropped = true
    default:
      break
    }
  }

  private struct Box {
    var type: String
    var payload: ArraySlice<UInt8>
  }

  private static func boxes(_ bytes: ArraySlice<UInt8>) -> [Box] {
    var cursor = ByteCursor(bytes)
    var boxes: [Box] = []
    while boxes.count < maxBoxes, let short = cursor.big(4), let type = cursor.name() {
      var length = short - 8
      if short == 1 {
        guard cursor.byte() == 0, let long = cursor.big(7) else { break }
        length = long - 16
      } else if short == 0 {
        length = cursor.remaining
      }
      guard let payload = cursor.take(length) else { break }
      boxes.append(Box(type: type, payload: payload))
    }
    return boxes
  }

  private static func primaryItem(_ payload: ArraySlice<UInt8>) -> Int? {
    var cursor = ByteCursor(payload)
    guard let version = cursor.byte(), cursor.skip(3) else { return nil }
    return cursor.big(version == 0 ? 2 : 4)
  }

  /// Numbers, from 1, of an item's properties, in the order in which they apply.
  private static func properties(of item: Int, _ payload: ArraySlice<UInt8>) -> [Int] {
    var cursor = ByteCursor(payload)
    guard let version = cursor.byte(), let flags = cursor.big(3), let entries = cursor.big(4) else {
      return []
    }
    let isWide = flags & 1 == 1
    for _ in 0..<entries {
      guard let id = cursor.big(version < 1 ? 2 : 4), let count = cursor.byte() else { return [] }
      var numbers: [Int] = []
      for _ in 0..<count {
        guard let value = cursor.big(isWide ? 2 : 1) else { return [] }
        // The highest bit marks properties that a reader must understand.
        numbers.append(value & (isWide ? 0x7FFF : 0x7F))
      }
      if id == item { return numbers }
    }
    return []
  }
}
