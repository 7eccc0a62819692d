import CHEIF

/// A file format, decided by the magic bytes alone; a file's name is never looked at.
public enum ImageFormat: String, Sendable, CaseIterable {
  case jpeg
  case png
  case webp
  case gif
  case bmp
  /// HEIC and other HEIF files but AVIF.
  case heic
  case avif

  public var mediaType: String { "image/\(rawValue)" }

  /// As people write it.
  public var name: String { self == .webp ? "WebP" : rawValue.uppercased() }

  /// Why this machine cannot read the format now and what to install; nil where it can.
  ///
  /// Asking for HEIC or AVIF looks for libheif.
  public var missing: String? {
    switch self {
    case .jpeg, .png, .webp, .gif, .bmp: return nil
    case .heic:
      return heifLibrary != nil
        ? nil
        : "HEIC pictures need libheif; install the package libheif1 (or, for Python, pi-heif), "
          + "or convert the picture to JPEG"
    case .avif:
      return heifLibrary != nil
        ? nil
        : "AVIF pictures need the system's libheif with an AV1 decoder; install the package "
          + "libheif1, or convert the picture to JPEG"
    }
  }

  /// What decodes the format; nil where nothing does or nothing is needed.
  var heifLibrary: HEIFLibrary.Handle? {
    switch self {
    case .heic: HEIFLibrary.handle(for: CHEIF_HEVC)
    case .avif: HEIFLibrary.handle(for: CHEIF_AV1)
    default: nil
    }
  }
}
