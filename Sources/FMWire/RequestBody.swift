import CText

/// The body of a request, of pieces that are written out only while they are sent: long texts and
/// pictures are not copied to be escaped or encoded, and a request that is sent again costs no memory.
package struct RequestBody: Sendable {
  package enum Piece: Sendable {
    case bytes([UInt8])
    /// The inside of a JSON string.
    case escaped(String)
    case base64([UInt8])

    /// Bytes of the body. Costs a look at all of an escaped text.
    var count: Int {
      switch self {
      case .bytes(let bytes): bytes.count
      case .escaped(var text): text.withUTF8 { ctext_escaped_size($0.baseAddress, $0.count) }
      case .base64(let bytes): Base64.encodedCount(bytes.count)
      }
    }
  }

  private(set) var pieces: [Piece] = []
  /// Bytes of the whole body.
  package private(set) var count = 0

  package init(_ bytes: [UInt8] = []) { append(.bytes(bytes)) }

  var isEmpty: Bool { count == 0 }

  mutating func append(_ piece: Piece) {
    let added = piece.count
    guard added > 0 else { return }
    pieces.append(piece)
    count += added
  }

  /// The whole body at once.
  package var bytes: [UInt8] {
    if case .bytes(let bytes)? = pieces.first, pieces.count == 1 { return bytes }
    var reader = RequestBodyReader(self)
    return [UInt8](unsafeUninitializedCapacity: count) { room, length in
      length = reader.read(into: UnsafeMutableRawBufferPointer(room))
    }
  }

  /// The body without `part` where it stands last among what was given as bytes; nil where it does
  /// not.
  func removing(_ part: [UInt8]) -> RequestBody? {
    for index in pieces.indices.reversed() {
      guard case .bytes(let bytes) = pieces[index], bytes.count >= part.count else { continue }
      for start in (0...(bytes.count - part.count)).reversed()
      where bytes[start..<(start + part.count)].elementsEqual(part) {
        var result = RequestBody()
        for piece in pieces[..<index] { result.append(piece) }
        result.append(.bytes(Array(bytes[..<start]) + bytes[(start + part.count)...]))
        for piece in pieces[(index + 1)...] { result.append(piece) }
        return result
      }
    }
    return nil
  }
}
