extension SourceImage {
  /// The file's content as lower-case hexadecimal SHA-256.
  public var sha256Text: String { SHA256.text(sha256) }

  /// Reads the file again and checks that it is still the one whose hash was kept; nil = any.
  public convenience init(contentsOfFile path: String, expectedSHA256: String?) throws(ImageError) {
    try self.init(contentsOfFile: path)
    if let expectedSHA256, expectedSHA256.lowercased() != sha256Text {
      throw ImageError(
        kind: .changed,
        message: "\(path): the file has changed since it was attached; attach it again.",
        path: path)
    }
  }
}
