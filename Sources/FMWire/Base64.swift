import CBase64

/// Base64 (RFC 4648 section 4, with padding) straight into a buffer.
package enum Base64 {
  /// Two characters for each 12-bit number, in the order they are written.
  private static let pairs: [UInt16] = {
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)
    return (0..<4096).map { number in
      (UInt16(alphabet[number >> 6]) | UInt16(alphabet[number & 63]) << 8).littleEndian
    }
  }()

  static func encodedCount(_ count: Int) -> Int { (count + 2) / 3 * 4 }

  /// Appends the encoding of `bytes`. Costs one pass, a piece at a time through the processor's
  /// nearest cache, so that the output is written once.
  static func append(_ bytes: [UInt8], to output: inout [UInt8]) {
    let piece = 12 << 10
    output.reserveCapacity(output.count + encodedCount(bytes.count))
    bytes.withUnsafeBufferPointer { source in
      withUnsafeTemporaryAllocation(byteCount: encodedCount(piece), alignment: 64) { room in
        var start = 0
        while start < source.count {
          let part = UnsafeBufferPointer(rebasing: source[start..<min(start + piece, source.count)])
          let target = UnsafeMutableRawBufferPointer(
            rebasing: room[..<encodedCount(part.count)])
          encode(part, into: target)
          output.append(contentsOf: target)
          start += part.count
        }
      }
    }
  }

  /// `target` holds `encodedCount` of the bytes, and is filled.
  static func encode(
    _ source: UnsafeBufferPointer<UInt8>, into target: UnsafeMutableRawBufferPointer
  ) {
    guard let from = source.baseAddress, let to = target.baseAddress else { return }
    pairs.withUnsafeBufferPointer { pairs in
      let table = pairs.baseAddress!
      let inVectors = cbase64_encode_vectors(
        from, source.count, to.assumingMemoryBound(to: UInt8.self))
      let whole = source.count / 3
      var read = from + inVectors
      var write = to + inVectors / 3 * 4
      for _ in 0..<whole - inVectors / 3 {
        let number = Int(read[0]) << 16 | Int(read[1]) << 8 | Int(read[2])
        write.storeBytes(of: table[number >> 12], as: UInt16.self)
        write.storeBytes(of: table[number & 0xFFF], toByteOffset: 2, as: UInt16.self)
        read += 3
        write += 4
      }
      let padding = UInt8(ascii: "=")
      switch source.count - whole * 3 {
      case 1:
        write.storeBytes(of: table[Int(read[0]) << 4], as: UInt16.self)
        write.storeBytes(of: padding, toByteOffset: 2, as: UInt8.self)
        write.storeBytes(of: padding, toByteOffset: 3, as: UInt8.self)
      case 2:
        let number = Int(read[0]) << 16 | Int(read[1]) << 8
        write.storeBytes(of: table[number >> 12], as: UInt16.self)
        write.storeBytes(of: table[number & 0xFFF], toByteOffset: 2, as: UInt16.self)
        write.storeBytes(of: padding, toByteOffset: 3, as: UInt8.self)
      default: break
      }
    }
  }
}
