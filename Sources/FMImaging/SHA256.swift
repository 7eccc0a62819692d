import CCrypto

enum SHA256 {
  /// The 32 bytes of the digest, computed by libcrypto.
  static func digest(_ bytes: [UInt8]) -> [UInt8] {
    [UInt8](unsafeUninitializedCapacity: Int(EVP_MAX_MD_SIZE)) { output, count in
      var length: UInt32 = 0
      let status = bytes.withUnsafeBytes {
        EVP_Digest($0.baseAddress, $0.count, output.baseAddress, &length, EVP_sha256(), nil)
      }
      // Fails only when libcrypto cannot allocate or has no SHA-256 at all.
      precondition(status == 1 && length == 32, "libcrypto has no working SHA-256")
      count = Int(length)
    }
  }

  /// A digest in lower-case hexadecimal.
  static func text(_ digest: [UInt8]) -> String {
    let digits = Array("0123456789abcdef".utf8)
    return String(
      decoding: digest.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
  }
}
