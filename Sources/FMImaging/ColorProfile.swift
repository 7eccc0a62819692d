import CSPNG

/// The colour profile that a file carries.
enum ColorProfile: Equatable {
  /// None: the values are sRGB.
  case absent
  /// One that cannot be put together or unpacked.
  case unreadable
  /// An ICC profile's bytes, unchecked.
  case icc([UInt8])
  /// Numbers of ITU-T H.273 instead of a profile.
  case codePoints(primaries: Int, transfer: Int)

  /// Larger ones are not read; the largest of printers have some 3 MB.
  static let maxByteCount = 8 << 20
}

extension JPEGStructure {
  /// The profile that the ICC_PROFILE segments make together.
  ///
  /// Source: ICC.1:2022, annex B.4: numbers from 1, each segment naming the same total.
  var colorProfile: ColorProfile {
    guard let total = iccChunks.first?.count else { return .absent }
    let chunks = iccChunks.sorted { $0.number < $1.number }
    guard chunks.count == total, chunks.allSatisfy({ $0.count == total }),
      chunks.map(\.number) == Array(1...max(1, total)),
      chunks.reduce(0, { $0 + $1.payload.count }) <= ColorProfile.maxByteCount
    else { return .unreadable }
    return .icc(chunks.flatMap(\.payload))
  }
}

extension PNGStructure {
  /// The profile in iCCP: a name, a zero, the method (0) and a zlib stream.
  var unpackedColorProfile: ColorProfile {
    if let codePoints, codePoints.count == 4 {
      let numbers = Array(codePoints)
      return .codePoints(primaries: Int(numbers[0]), transfer: Int(numbers[1]))
    }
    guard let payload = colorProfile else { return .absent }
    guard let nameEnd = payload.prefix(80).firstIndex(of: 0), nameEnd + 2 < payload.endIndex,
      payload[nameEnd + 1] == 0
    else { return .unreadable }
    let packed = Array(payload[(nameEnd + 2)...])
    // The unpacked size is not stated: twice the room until it fits.
    var capacity = 1 << 14
    while capacity <= ColorProfile.maxByteCount {
      var status = Z_OK
      let profile = [UInt8](unsafeUninitializedCapacity: capacity) { buffer, count in
        var length = uLongf(capacity)
        status = uncompress(buffer.baseAddress, &length, packed, uLong(packed.count))
        count = status == Z_OK ? Int(length) : 0
      }
      if status == Z_OK { return .icc(profile) }
      guard status == Z_BUF_ERROR else { return .unreadable }
      capacity *= 2
    }
    return .unreadable
  }
}
