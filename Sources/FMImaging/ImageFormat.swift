/// A file format, decided by the magic bytes alone; a file's name is never looked at.
public enum ImageFormat: String, Sendable, CaseIterable {
  case jpeg
  case png

  public var mediaType: String {
    switch self {
    case .jpeg: "image/jpeg"
    case .png: "image/png"
    }
  }
}
