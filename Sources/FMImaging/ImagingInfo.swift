import CWebP
import CZimg

/// What the libraries of the pictures are that a release carries inside itself.
public enum ImagingInfo {
  /// Versions by the libraries' usual names: "libwebp" and "zimg".
  public static let versions: [(name: String, version: String)] = {
    let webp = WebPGetDecoderVersion()
    var major: UInt32 = 0
    var minor: UInt32 = 0
    var micro: UInt32 = 0
    zimg_get_version_info(&major, &minor, &micro)
    return [
      ("libwebp", "\(webp >> 16).\(webp >> 8 & 0xff).\(webp & 0xff)"),
      ("zimg", "\(major).\(minor).\(micro)"),
    ]
  }()
}
