extension JPEGStructure {
  /// How a decoder has to understand three components.
  enum Colors {
    case grayOrYCbCr
    case rgb
  }

  /// The same picture with nothing but what decoding needs: tables, frame and scans bit for bit,
  /// and one segment that states the colour space.
  func withoutMetadata(_ bytes: [UInt8], colors: Colors) -> [UInt8] {
    let header: [UInt8]
    switch colors {
    case .grayOrYCbCr:
      // JFIF 1.01, square pixels, no thumbnail.
      header = [
        0xFF, 0xE0, 0, 16, 0x4A, 0x46, 0x49, 0x46, 0, 1, 1, 0, 0, 1, 0, 1, 0, 0,
      ]
    case .rgb:
      // Adobe, version 100, transform 0: without it the samples would be taken for YCbCr.
      header = [
        0xFF, 0xEE, 0, 14, 0x41, 0x64, 0x6F, 0x62, 0x65, 0, 100, 0, 0, 0, 0, 0,
      ]
    }
    let size = essentials.reduce(4 + header.count) { $0 + $1.count }
    // A file of this very form, as many programs write it, is not copied.
    if bytes.count == size, bytes[2...].starts(with: header),
      essentials.first?.lowerBound == 2 + header.count,
      zip(essentials, essentials.dropFirst()).allSatisfy({ $0.upperBound == $1.lowerBound }),
      bytes[(size - 2)...].elementsEqual([0xFF, 0xD9])
    {
      return bytes
    }
    var output: [UInt8] = []
    output.reserveCapacity(size)
    output += [0xFF, 0xD8]
    output += header
    for range in essentials { output += bytes[range] }
    output += [0xFF, 0xD9]
    return output
  }
}
