import CCrypto

/// Pictures in a body, told by their hashes and no more.
enum PictureHashes {
  /// The text with the base64 of every data URL replaced by the SHA-256 of its bytes and their
  /// number, as in `data:image/jpeg;sha256,HEX;bytes=N`.
  static func inPlace(of body: [UInt8]) -> [UInt8] {
    let text = ByteText(bytes: body)
    var result: [UInt8] = []
    var start = 0
    while let range = text.range(of: ";base64,", from: start) {
      result += body[start..<range.lowerBound]
      let data = body[range.upperBound...].prefix(while: isBase64)
      let bytes = decoded(Array(data))
      let digest = FileDigest.hexadecimal(FileDigest.sha256(bytes))
      result += ";sha256,\(digest);bytes=\(bytes.count)".utf8
      start = data.endIndex
    }
    return result + body[start...]
  }

  private static func isBase64(_ byte: UInt8) -> Bool {
    switch byte {
    case 48...57, 65...90, 97...122, UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "="): true
    default: false
    }
  }

  /// The bytes; those of the text itself where it is no base64.
  private static func decoded(_ base64: [UInt8]) -> [UInt8] {
    guard !base64.isEmpty, base64.count % 4 == 0 else { return base64 }
    let padding = base64.suffix(2).count { $0 == UInt8(ascii: "=") }
    var failed = false
    let bytes = [UInt8](unsafeUninitializedCapacity: base64.count / 4 * 3) { output, count in
      let length = EVP_DecodeBlock(output.baseAddress, base64, Int32(clamping: base64.count))
      failed = length < padding
      count = failed ? 0 : Int(length) - padding
    }
    return failed ? base64 : bytes
  }
}
