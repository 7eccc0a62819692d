/// A picture's compressed bytes, read once, with what its header says.
///
/// Immutable and shared freely; holds no descriptor and no mapping.
///
/// ```swift
/// let source = try SourceImage(contentsOfFile: "photo.jpg")
/// print(source.info.storedWidth, source.info.orientation)
/// ```
public final class SourceImage: Sendable {
  /// The path as the caller gave it; nil for a picture that came as bytes.
  public let path: String?
  public let bytes: [UInt8]
  public let info: ImageInfo
  /// SHA-256 of `bytes`, 32 bytes.
  public let sha256: [UInt8]

  /// Opens, reads, closes and checks the file: magic bytes, header, orientation, limits.
  ///
  /// Costs one read and one hash of the file; decodes nothing.
  public convenience init(contentsOfFile path: String, limits: ImageLimits = .default)
    throws(ImageError)
  {
    try self.init(contentsOfFile: path, limits: limits, reader: FileReader())
  }

  convenience init(contentsOfFile path: String, limits: ImageLimits, reader: FileReader)
    throws(ImageError)
  {
    let bytes: [UInt8]
    do {
      bytes = try reader.read(path: path, limit: limits.maxFileBytes)
    } catch {
      throw ImageError(error, path: path)
    }
    try self.init(bytes: bytes, path: path, limits: limits)
  }

  /// The same checks on bytes already in memory. `path` only names them in messages.
  public init(bytes: [UInt8], path: String? = nil, limits: ImageLimits = .default)
    throws(ImageError)
  {
    do {
      info = try Self.inspect(bytes, limits: limits)
    } catch {
      throw ImageError(error, path: path)
    }
    self.path = path
    self.bytes = bytes
    sha256 = SHA256.digest(bytes)
  }

  private static func inspect(_ bytes: [UInt8], limits: ImageLimits) throws(ImageProblem)
    -> ImageInfo
  {
    if bytes.isEmpty {
      throw ImageProblem(.empty, "no bytes at all; write or copy the picture again")
    }
    if bytes.count > limits.maxFileBytes {
      throw ImageProblem(
        .tooLarge,
        "\(bytes.count) bytes are more than the limit of \(limits.maxFileBytes); "
          + "scale the picture down")
    }
    switch FileKind(bytes) {
    case .picture(let format):
      return try ImageInfo(format, bytes, limits: limits)
    case .otherPicture(let name):
      throw ImageProblem(
        .unsupportedFormat, "\(name) pictures are not supported; convert it to JPEG or PNG")
    case .noPicture(let name?):
      throw ImageProblem(
        .notAnImage, "the file is \(name), not a picture; give a JPEG, PNG, WebP or HEIC file")
    case .noPicture(nil):
      throw ImageProblem(
        .notAnImage, "the file is no picture of a known kind; give a JPEG, PNG, WebP or HEIC file")
    }
  }
}
