/// Reads numbers from bytes of unknown honesty: what lies beyond their end is nil, never a trap.
struct ByteCursor {
  let bytes: ArraySlice<UInt8>
  /// Bytes from the start of the slice.
  var position = 0

  init(_ bytes: ArraySlice<UInt8>) { self.bytes = bytes }

  var remaining: Int { bytes.count - position }

  mutating func skip(_ count: Int) -> Bool {
    guard count >= 0, count <= remaining else { return false }
    position += count
    return true
  }

  mutating func take(_ count: Int) -> ArraySlice<UInt8>? {
    guard count >= 0, count <= remaining else { return nil }
    defer { position += count }
    let start = bytes.startIndex + position
    return bytes[start..<start + count]
  }

  mutating func byte() -> UInt8? { take(1)?.first }

  /// A number of `count` bytes (8 at most), the lowest first.
  mutating func little(_ count: Int) -> Int? {
    take(count)?.reversed().reduce(0) { $0 << 8 | Int($1) }
  }

  /// A number of `count` bytes (7 at most), the highest first.
  mutating func big(_ count: Int) -> Int? { take(count)?.reduce(0) { $0 << 8 | Int($1) } }

  /// Four letters, as chunk names are.
  mutating func name() -> String? { take(4).map { String(decoding: $0, as: UTF8.self) } }
}
