import CText

/// Writes a body out, as much at a time as there is room for.
struct RequestBodyReader {
  private let body: RequestBody
  /// The piece at hand, and how much of what it was made of has been read.
  private var index = 0
  private var offset = 0
  /// The end of an escape or of a group of base64 that was begun where there was no room for it.
  private var rest: ArraySlice<UInt8> = []

  init(_ body: RequestBody) { self.body = body }

  /// Fills `room`, or less of it at the body's end; returns how many bytes it wrote, 0 at the end.
  mutating func read(into room: UnsafeMutableRawBufferPointer) -> Int {
    var written = 0
    while written < room.count {
      let left = UnsafeMutableRawBufferPointer(rebasing: room[written...])
      if !rest.isEmpty {
        let part = rest.prefix(left.count)
        left.copyBytes(from: part)
        rest = rest.dropFirst(part.count)
        written += part.count
      } else if index < body.pieces.count {
        written += write(body.pieces[index], into: left)
      } else {
        break
      }
    }
    return written
  }

  /// To a place in the body as it is sent. Costs what lies before it.
  mutating func seek(to position: Int) {
    self = RequestBodyReader(body)
    withUnsafeTemporaryAllocation(byteCount: 1 << 16, alignment: 16) { room in
      var left = position
      while left > 0 {
        let count = read(
          into: UnsafeMutableRawBufferPointer(rebasing: room[..<min(left, room.count)]))
        if count == 0 { break }
        left -= count
      }
    }
  }

  /// Some of a piece; 0 where it was at its end, or where only a part of what comes next has room.
  private mutating func write(
    _ piece: RequestBody.Piece, into room: UnsafeMutableRawBufferPointer
  ) -> Int {
    switch piece {
    case .bytes(let bytes):
      return bytes.withUnsafeBytes { copy($0, into: room) }
    case .escaped(var text):
      return text.withUTF8 { escape($0, into: room) }
    case .base64(let bytes):
      return bytes.withUnsafeBufferPointer { encode($0, into: room) }
    }
  }

  private mutating func advance(by count: Int, of size: Int) {
    offset += count
    if offset == size {
      index += 1
      offset = 0
    }
  }

  private mutating func copy(
    _ source: UnsafeRawBufferPointer, into room: UnsafeMutableRawBufferPointer
  ) -> Int {
    let count = min(room.count, source.count - offset)
    room.copyMemory(from: UnsafeRawBufferPointer(rebasing: source[offset..<(offset + count)]))
    advance(by: count, of: source.count)
    return count
  }

  private mutating func escape(
    _ source: UnsafeBufferPointer<UInt8>, into room: UnsafeMutableRawBufferPointer
  ) -> Int {
    let start = source.baseAddress! + offset
    let left = source.count - offset
    var written = 0
    let count = ctext_escape(
      start, left, room.baseAddress!.assumingMemoryBound(to: UInt8.self), room.count, &written)
    if count == 0 {
      rest =
        [UInt8](unsafeUninitializedCapacity: 6) { escape, length in
          _ = ctext_escape(start, 1, escape.baseAddress, escape.count, &length)
        }[...]
    }
    advance(by: max(count, 1), of: source.count)
    return written
  }

  private mutating func encode(
    _ source: UnsafeBufferPointer<UInt8>, into room: UnsafeMutableRawBufferPointer
  ) -> Int {
    // Whole groups of three bytes; the last one may be shorter.
    let groups = max(room.count / 4, 1)
    let part = UnsafeBufferPointer(
      rebasing: source[offset..<min(offset + groups * 3, source.count)])
    advance(by: part.count, of: source.count)
    let size = Base64.encodedCount(part.count)
    if room.count < 4 {
      rest =
        [UInt8](unsafeUninitializedCapacity: 4) { group, length in
          Base64.encode(part, into: UnsafeMutableRawBufferPointer(group))
          length = size
        }[...]
      return 0
    }
    Base64.encode(part, into: UnsafeMutableRawBufferPointer(rebasing: room[..<size]))
    return size
  }
}
