import CSPNG

extension PNGStructure {
  /// Whether the picture's data holds its rows and nothing besides: no bytes behind the last row or
  /// behind the compressed stream, which decoders pass over and which can say anything.
  ///
  /// `bytes` is the file. Costs inflating it.
  func holdsNothingButRows(_ bytes: [UInt8]) -> Bool {
    var stream = z_stream()
    guard inflateInit_(&stream, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) == Z_OK else {
      return false
    }
    defer { inflateEnd(&stream) }
    var status = Z_OK
    let isWhole = withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 1 << 16) { room in
      essentials.allSatisfy { chunk in
        guard bytes[chunk.lowerBound + 4..<chunk.lowerBound + 8].elementsEqual("IDAT".utf8) else {
          return true
        }
        // zlib counts in 32 bits, and a chunk's length has 31; it writes nothing to what it reads.
        return bytes[chunk.lowerBound + 8..<chunk.upperBound - 4].withUnsafeBufferPointer { part in
          guard !part.isEmpty else { return true }
          guard status == Z_OK else { return false }
          stream.next_in = UnsafeMutablePointer(mutating: part.baseAddress)
          stream.avail_in = UInt32(part.count)
          repeat {
            stream.next_out = room.baseAddress
            stream.avail_out = UInt32(room.count)
            status = inflate(&stream, Z_NO_FLUSH)
          } while status == Z_OK && (stream.avail_in > 0 || stream.avail_out == 0)
          // It waits for more bytes: the next chunk has them.
          if status == Z_BUF_ERROR { status = Z_OK }
          return status == Z_OK || status == Z_STREAM_END && stream.avail_in == 0
        }
      }
    }
    return isWhole && status == Z_STREAM_END && stream.total_out == UInt(rowByteCount)
  }

  /// Of all rows with their filter bytes. Source: PNG specification, third edition, sections 7.2, 8.
  private var rowByteCount: Int {
    let channels = [1, 0, 3, 1, 2, 0, 4][colorType]
    func bytes(_ width: Int, _ height: Int) -> Int {
      width == 0 ? 0 : height * (1 + (width * channels * bitDepth + 7) / 8)
    }
    guard isInterlaced else { return bytes(width, height) }
    // Adam7: the first column and row of each pass, and the steps.
    let passes = [
      (0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
      (0, 1, 1, 2),
    ]
    return passes.reduce(0) { sum, pass in
      let (x, y, stepX, stepY) = pass
      return sum
        + bytes((width - x + stepX - 1) / stepX, max(0, (height - y + stepY - 1) / stepY))
    }
  }
}
