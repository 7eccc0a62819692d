import CCrypto
import Glibc

/// The SHA-256 of a file that may be larger than memory.
enum FileDigest {
  /// 64 hexadecimal digits in lower case. About a second a gigabyte; nothing is kept in memory.
  ///
  /// - Throws: the errno of the read that failed.
  static func sha256(descriptor: Int32) throws(Errno) -> String {
    guard let context = EVP_MD_CTX_new() else { throw Errno(code: ENOMEM) }
    defer { EVP_MD_CTX_free(context) }
    guard EVP_DigestInit_ex(context, EVP_sha256(), nil) == 1 else { throw Errno(code: ENOMEM) }
    var buffer = [UInt8](repeating: 0, count: 1 << 20)
    var offset: off_t = 0
    while true {
      let count = pread(descriptor, &buffer, buffer.count, offset)
      if count < 0, errno == EINTR { continue }
      if count < 0 { throw Errno.current }
      if count == 0 { break }
      EVP_DigestUpdate(context, buffer, count)
      offset += off_t(count)
    }
    var digest = [UInt8](repeating: 0, count: 32)
    EVP_DigestFinal_ex(context, &digest, nil)
    return hexadecimal(digest)
  }

  static func sha256(_ bytes: [UInt8]) -> [UInt8] {
    var digest = [UInt8](repeating: 0, count: 32)
    let status = EVP_Digest(bytes, bytes.count, &digest, nil, EVP_sha256(), nil)
    // Fails only when libcrypto cannot allocate or has no SHA-256 at all.
    precondition(status == 1, "libcrypto has no working SHA-256")
    return digest
  }

  static func hexadecimal(_ bytes: [UInt8]) -> String {
    let digits = Array("0123456789abcdef".utf8)
    return String(
      decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
  }

  /// Whether a text is a SHA-256 as hexadecimal digits.
  static func isSHA256(_ text: String) -> Bool {
    text.utf8.count == 64
      && text.utf8.allSatisfy {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
          || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0 | 0x20)
      }
  }
}
