/// What a file's first bytes say it is; its name is never looked at.
enum FileKind: Equatable {
  case picture(ImageFormat)
  /// A picture of a kind that is not decoded here, by name: "TIFF".
  case otherPicture(String)
  /// Something that is no picture, by name: "HTML"; nil when nothing is recognised.
  case noPicture(String?)

  init(_ bytes: [UInt8]) {
    func has(_ magic: [UInt8], at offset: Int = 0) -> Bool {
      bytes.count >= offset + magic.count
        && bytes[offset..<offset + magic.count].elementsEqual(magic)
    }
    func has(_ text: StaticString, at offset: Int = 0) -> Bool {
      text.withUTF8Buffer { magic in
        bytes.count >= offset + magic.count
          && bytes[offset..<offset + magic.count].elementsEqual(magic)
      }
    }

    if has([0xFF, 0xD8, 0xFF]) {
      self = .picture(.jpeg)
    } else if has([0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]) {
      self = .picture(.png)
    } else if has("RIFF"), has("WEBP", at: 8) {
      self = .picture(.webp)
    } else if has("GIF87a") || has("GIF89a") {
      self = .picture(.gif)
    } else if has([0x49, 0x49, 0x2A, 0]), has("CR", at: 8) {
      self = .otherPicture("Canon raw (CR2)")
    } else if has([0x49, 0x49, 0x2A, 0]) || has([0x4D, 0x4D, 0, 0x2A])
      || has([0x49, 0x49, 0x2B, 0]) || has([0x4D, 0x4D, 0, 0x2B])
    {
      self = .otherPicture("TIFF")
    } else if has("ftyp", at: 4), let kind = Self.isoMediaKind(bytes) {
      self = kind
    } else if has([0xFF, 0x0A])
      || has([0, 0, 0, 0x0C, 0x4A, 0x58, 0x4C, 0x20, 0x0D, 0x0A, 0x87, 0x0A])
    {
      self = .otherPicture("JPEG XL")
    } else if has([0, 0, 0, 0x0C, 0x6A, 0x50, 0x20, 0x20, 0x0D, 0x0A, 0x87, 0x0A])
      || has([0xFF, 0x4F, 0xFF, 0x51])
    {
      self = .otherPicture("JPEG 2000")
    } else if has([0xFF, 0xD8]) {
      // A start of image and nothing that can follow one.
      self = .picture(.jpeg)
    } else if has([0x89, 0x50, 0x4E, 0x47]) {
      // Line ends converted, as a transfer in text mode does.
      self = .picture(.png)
    } else if has([0x8A, 0x4D, 0x4E, 0x47, 0x0D, 0x0A]) {
      self = .otherPicture("MNG")
    } else if has("8BPS") {
      self = .otherPicture("Photoshop (PSD)")
    } else if has("BM"), bytes.count >= 26, bytes[6..<10].allSatisfy({ $0 == 0 }) {
      self = .picture(.bmp)
    } else if has([0, 0, 1, 0]), bytes.count >= 22, bytes[4] != 0, bytes[9] == 0 {
      self = .otherPicture("ICO")
    } else if has([0, 0, 2, 0]), bytes.count >= 22, bytes[4] != 0, bytes[9] == 0 {
      self = .otherPicture("Windows cursor (CUR)")
    } else if has("qoif") {
      self = .otherPicture("QOI")
    } else if has("DDS ") {
      self = .otherPicture("DDS")
    } else if has([0x76, 0x2F, 0x31, 0x01]) {
      self = .otherPicture("OpenEXR")
    } else if has("#?RADIANCE") || has("#?RGBE") {
      self = .otherPicture("Radiance HDR")
    } else if has("FUJIFILMCCD-RAW") {
      self = .otherPicture("Fujifilm raw (RAF)")
    } else if bytes.count >= 3, bytes[0] == 0x50, (0x31...0x37).contains(bytes[1]),
      [0x09, 0x0A, 0x0D, 0x20].contains(bytes[2])
    {
      self = .otherPicture("Netpbm (PNM)")
    } else {
      self = .noPicture(Self.nameOfOther(bytes, has: { has($0, at: 0) }))
    }
  }

  /// ISO base media files by their brands: HEIC and AVIF are pictures, MP4 and MOV films.
  private static func isoMediaKind(_ bytes: [UInt8]) -> FileKind? {
    guard bytes.count >= 12 else { return nil }
    let size = bytes[0..<4].reduce(0) { $0 << 8 | Int($1) }
    let end = min(bytes.count, max(12, min(size, 256)))
    var brands = [String(decoding: bytes[8..<12], as: UTF8.self)]
    for start in stride(from: 16, to: end - 3, by: 4) {
      brands.append(String(decoding: bytes[start..<start + 4], as: UTF8.self))
    }
    if brands[0] == "crx " { return .otherPicture("Canon raw (CR3)") }
    for brand in brands {
      switch brand {
      case "avif", "avis": return .picture(.avif)
      case "heic", "heix", "hevc", "hevx", "heim", "heis": return .picture(.heic)
      default: continue
      }
    }
    if brands.contains("mif1") || brands.contains("msf1") { return .picture(.heic) }
    return .noPicture(brands[0] == "qt  " ? "a QuickTime film" : "an MP4 film or sound file")
  }

  private static func nameOfOther(_ bytes: [UInt8], has: (StaticString) -> Bool) -> String? {
    if has("%PDF-") { return "a PDF document" }
    if has("%!PS") { return "a PostScript document" }
    if has("PK\u{3}\u{4}") || has("PK\u{5}\u{6}") { return "a ZIP archive" }
    if bytes.starts(with: [0x1F, 0x8B]) { return "a gzip file" }
    if bytes.starts(with: [0xFD, 0x37, 0x7A, 0x58, 0x5A, 0]) { return "an xz file" }
    if bytes.starts(with: [0x28, 0xB5, 0x2F, 0xFD]) { return "a zstd file" }
    if has("BZh") { return "a bzip2 file" }
    if bytes.starts(with: [0x37, 0x7A, 0xBC, 0xAF]) { return "a 7z archive" }
    if has("Rar!") { return "a RAR archive" }
    if bytes.starts(with: [0x7F, 0x45, 0x4C, 0x46]) { return "a program (ELF)" }
    if bytes.starts(with: [0x1A, 0x45, 0xDF, 0xA3]) { return "a Matroska or WebM film" }
    if has("RIFF") { return "a RIFF file (sound or film)" }
    if has("OggS") { return "an Ogg file" }
    if has("ID3") { return "an MP3 file" }
    if has("GGUF") { return "a GGUF model" }
    if has("SQLite format 3") { return "an SQLite database" }
    if has("version https://git-lfs") { return "a Git LFS pointer (run `git lfs pull`)" }
    if bytes.allSatisfy({ $0 == 0 }) { return "nothing but zero bytes" }
    return nameOfText(bytes)
  }

  /// What kind of text the first bytes are; nil when they are not text.
  private static func nameOfText(_ bytes: [UInt8]) -> String? {
    var head = bytes.prefix(1024)
    if head.starts(with: [0xEF, 0xBB, 0xBF]) { head = head.dropFirst(3) }
    let isText = head.allSatisfy { $0 >= 0x20 && $0 != 0x7F || (0x08...0x0D).contains($0) }
    guard isText else { return nil }
    // A sequence that the cut at 1024 bytes broke does not make it another encoding.
    let text = String(decoding: head, as: UTF8.self)
    if text.dropLast(3).contains("\u{FFFD}") { return nil }
    let start = text.drop(while: \.isWhitespace).prefix(512).lowercased()
    if start.hasPrefix("<!doctype html") || start.hasPrefix("<html") || start.hasPrefix("<head")
      || start.hasPrefix("<body") || start.contains("<html")
    {
      return "HTML"
    }
    if start.hasPrefix("<svg") || start.contains("<svg") { return "SVG" }
    if start.hasPrefix("<?xml") || start.hasPrefix("<") { return "XML" }
    if start.hasPrefix("{") || start.hasPrefix("[") { return "JSON" }
    if start.hasPrefix("data:image/") { return "a data: URL as text" }
    return "plain text"
  }
}
