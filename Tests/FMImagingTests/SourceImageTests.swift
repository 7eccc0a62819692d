import Foundation
import Synchronization
import Testing

@testable import FMImaging

/// A folder of its own for one test.
private struct Folder: ~Copyable {
  let path: String

  init() throws {
    path = NSTemporaryDirectory() + "openfm-imaging-" + UUID().uuidString
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }

  func write(_ name: String, _ bytes: [UInt8]) throws -> String {
    let file = path + "/" + name
    try Data(bytes).write(to: URL(fileURLWithPath: file))
    return file
  }
}

private func failure(_ path: String, limits: ImageLimits = .default) -> ImageError? {
  do throws(ImageError) {
    _ = try SourceImage(contentsOfFile: path, limits: limits)
    return nil
  } catch {
    return error
  }
}

private func problem(_ bytes: [UInt8], limits: ImageLimits = .default) -> ImageError? {
  do throws(ImageError) {
    _ = try SourceImage(bytes: bytes, path: "a.jpg", limits: limits)
    return nil
  } catch {
    return error
  }
}

@Suite("Reading a picture file")
struct SourceImageTests {
  @Test func goodFiles() throws {
    let folder = try Folder()
    let jpeg = try Pictures.jpeg()
    let source = try SourceImage(contentsOfFile: folder.write("wrong name.png", jpeg))
    #expect(source.bytes == jpeg)
    #expect(
      source.info == ImageInfo(format: .jpeg, storedWidth: 48, storedHeight: 32, orientation: .up))
    let png = try SourceImage(contentsOfFile: folder.write("ü.jpg", Pictures.png(7, 5)))
    #expect(png.info.format == .png)
    #expect(png.info.storedWidth == 7 && png.info.storedHeight == 5)
  }

  /// The vector of FIPS 180-4 for "abc".
  @Test func hash() {
    let hex = SHA256.digest(Array("abc".utf8)).map { String(format: "%02x", $0) }.joined()
    #expect(hex == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
  }

  @Test func everyBadPathHasItsOwnError() throws {
    let folder = try Folder()
    let expectations: [(String, ImageError.Kind)] = [
      ("", .invalidPath),
      (folder.path + "/a\0b.jpg", .invalidPath),
      (folder.path + "/" + String(repeating: "x", count: 5000), .invalidPath),
      (folder.path + "/missing.jpg", .notFound),
      (try folder.write("plain", [1]) + "/below.jpg", .notFound),
      (folder.path, .notAFile),
      ("/dev/null", .notAFile),
      (try folder.write("empty.png", []), .empty),
      (try folder.write("text.jpg", Array("just words\n".utf8)), .notAnImage),
      (try folder.write("page.png", Array("<!DOCTYPE html><html></html>".utf8)), .notAnImage),
      (try folder.write("cut.jpg", Array(Pictures.jpeg().prefix(60))), .corrupt),
      (try folder.write("bomb.png", Pictures.pngHeader(50000, 50000)), .tooLarge),
    ]
    for (path, kind) in expectations {
      let error = try #require(failure(path), "\(path)")
      #expect(error.kind == kind, "\(error)")
      #expect(error.path == path)
      #expect(error.message.hasPrefix(path + ":") || path.isEmpty)
    }
  }

  /// Reading a pipe nobody writes to must not hang; a socket is told apart too.
  @Test func pipesAndSockets() throws {
    let folder = try Folder()
    let pipe = folder.path + "/pipe"
    #expect(mkfifo(pipe, 0o600) == 0)
    #expect(failure(pipe)?.kind == .notAFile)

    let descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    defer { close(descriptor) }
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    let path = folder.path + "/s"
    try withUnsafeMutableBytes(of: &address.sun_path) { target in
      try #require(path.utf8.count < target.count)
      target.copyBytes(from: Array(path.utf8))
    }
    let bound = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    try #require(bound == 0)
    #expect(failure(path)?.kind == .notAFile)
  }

  @Test(.enabled(if: geteuid() != 0, "root may read every file"))
  func unreadableFile() throws {
    let folder = try Folder()
    let path = try folder.write("secret.jpg", Pictures.jpeg())
    chmod(path, 0)
    #expect(failure(path)?.kind == .notReadable)
  }

  @Test func limitsAreCheckedFirst() throws {
    let folder = try Folder()
    let jpeg = try Pictures.jpeg()
    let path = try folder.write("a.jpg", jpeg)
    let few = ImageLimits(maxFileBytes: jpeg.count - 1)
    let message = try #require(failure(path, limits: few))
    #expect(message.kind == .tooLarge && message.message.contains("\(jpeg.count)"))
    let small = ImageLimits(maxPixels: 48 * 32 - 1)
    #expect(failure(path, limits: small)?.message.contains("48 x 32") == true)
    #expect(failure(path, limits: ImageLimits(maxPixels: 48 * 32)) == nil)
  }

  @Test func noDescriptorStays() throws {
    let folder = try Folder()
    let good = try folder.write("good.jpg", Pictures.jpeg())
    let bad = try folder.write("bad.jpg", Array("words".utf8))
    func open() throws -> Set<String> {
      Set(
        try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").filter {
          let target = try? FileManager.default.destinationOfSymbolicLink(
            atPath: "/proc/self/fd/" + $0)
          return target?.hasPrefix(folder.path) == true
        })
    }
    for _ in 0..<50 {
      #expect(failure(good) == nil)
      #expect(failure(bad)?.kind == .notAnImage)
      #expect(failure(folder.path)?.kind == .notAFile)
    }
    #expect(try open().isEmpty)
  }

  @Test(arguments: [
    ("8BPS\0\u{1}", "Photoshop"), ("II*\0\u{8}\0\0\0", "TIFF"), ("qoif\0\0", "QOI"),
    ("MM\0*\0\0\0\u{8}", "TIFF"), ("P6\n2 2\n255\n", "Netpbm"),
  ])
  func pictureOfAnotherKind(start: String, name: String) {
    let error = problem(Array(start.utf8))
    #expect(error?.kind == .unsupportedFormat)
    #expect(error?.message.contains(name) == true)
  }

  /// Where libheif is missing, HEIC and AVIF are refused as such; elsewhere all are found broken.
  @Test(arguments: [
    ("RIFF\0\0\0\0WEBPVP8 ", "WebP"), ("GIF89a\0\0", "GIF"),
    ("\0\0\0\u{18}ftypheic\0\0\0\0mif1heic", "HEIC"),
    ("\0\0\0\u{18}ftypavif\0\0\0\0mif1", "AVIF"),
    ("\0\0\0\u{18}ftypmif1\0\0\0\0mif1heic", "HEIC"),
  ])
  func barelyBegunPicture(start: String, name: String) {
    let error = problem(Array(start.utf8))
    #expect(error?.kind == .corrupt || error?.kind == .unsupportedFormat)
    #expect(error?.message.contains(name) == true)
  }

  @Test(arguments: [
    ("%PDF-1.7\n", "PDF"), ("PK\u{3}\u{4}\u{14}\0", "ZIP"), ("{\"a\": 1}", "JSON"),
    ("  <HTML><body>", "HTML"), ("<?xml version=\"1.0\"?><html xmlns=\"\">", "HTML"),
    ("<?xml version=\"1.0\"?>\n<svg xmlns=\"\">", "SVG"), ("Grüße", "plain text"),
    ("version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
    ("\0\0\0\u{18}ftypisom\0\0\0\0isom", "MP4"), ("\0\0\0\0", "zero bytes"),
  ])
  func noPicture(start: String, name: String) {
    let error = problem(Array(start.utf8))
    #expect(error?.kind == .notAnImage)
    #expect(error?.message.contains(name) == true)
  }

  @Test func absurdSizes() throws {
    #expect(problem(Pictures.pngHeader(0, 10))?.kind == .corrupt)
    #expect(problem(Pictures.pngHeader(0x8000_0000, 1))?.kind == .corrupt)
    #expect(problem(Pictures.pngHeader(0x7FFF_FFFF, 0x7FFF_FFFF))?.kind == .tooLarge)
    var jpeg = try Pictures.jpeg()
    let frame = try #require(jpeg.indices.first { jpeg[$0] == 0xFF && jpeg[$0 + 1] == 0xC0 })
    jpeg.replaceSubrange(frame + 5..<frame + 7, with: [0, 0])
    #expect(problem(jpeg)?.kind == .corrupt)
    jpeg.replaceSubrange(frame + 5..<frame + 9, with: [0xFF, 0xFF, 0xFF, 0xFF])
    #expect(problem(jpeg)?.kind == .tooLarge)
  }

  @Test func brokenChecksumInAnyChunk() throws {
    let png = Pictures.inserting(
      chunk: Pictures.chunk("tEXt", Array("Comment\0words".utf8)), into: try Pictures.png())
    #expect(problem(png) == nil)
    var position = 8
    while position < png.count {
      let length = png[position..<position + 4].reduce(0) { $0 << 8 | Int($1) }
      var damaged = png
      damaged[position + 8 + length] ^= 1
      #expect(problem(damaged)?.kind == .corrupt)
      position += 12 + length
    }
  }

  @Test(arguments: ImageOrientation.allCases, [false, true])
  func orientation(_ orientation: ImageOrientation, bigEndian: Bool) throws {
    let tiff = Pictures.tiff(orientation: UInt8(orientation.rawValue), bigEndian: bigEndian)
    let jpeg = Pictures.inserting(Pictures.exif(tiff), into: try Pictures.jpeg())
    #expect(try SourceImage(bytes: jpeg).info.orientation == orientation)
    let png = Pictures.inserting(chunk: Pictures.chunk("eXIf", tiff), into: try Pictures.png())
    #expect(try SourceImage(bytes: png).info.orientation == orientation)
  }

  /// Malformed EXIF never fails a good picture: every truncation, every byte replaced, nonsense.
  @Test func brokenMetadataIsIgnored() throws {
    let tiff = Pictures.tiff(orientation: 6, bigEndian: false)
    let jpeg = try Pictures.jpeg()
    for length in 0..<tiff.count {
      let cut = Pictures.inserting(Pictures.exif(Array(tiff.prefix(length))), into: jpeg)
      _ = try SourceImage(bytes: cut)
    }
    for index in tiff.indices {
      for value in [0, 0x7F, 0xFF] as [UInt8] {
        var broken = tiff
        broken[index] = value
        _ = try SourceImage(bytes: Pictures.inserting(Pictures.exif(broken), into: jpeg))
      }
    }
    for value in [0, 9, 255] as [UInt8] {
      let odd = Pictures.exif(Pictures.tiff(orientation: value, bigEndian: true))
      #expect(
        try SourceImage(bytes: Pictures.inserting(odd, into: jpeg)).info.orientation == .up)
    }
  }
}

@Suite("Every call into the system fails in turn")
struct FileReaderTests {
  /// What a scripted system saw.
  final class Script: Sendable {
    let closed = Mutex(0)
    let reads = Mutex(0)
  }

  /// A regular file of `size` bytes; `read` is asked with the number of the call.
  private func reader(
    _ script: Script, size: Int, open: Int32 = 1000,
    read: @escaping @Sendable (Int, UnsafeMutableRawBufferPointer) -> Int
  ) -> FileReader {
    FileReader(
      system: .init(
        open: { _ in
          if open < 0 {
            errno = -open
            return -1
          }
          return open
        },
        status: { _, info in
          info.st_mode = S_IFREG
          info.st_size = size
          return 0
        },
        read: { _, buffer in
          read(
            script.reads.withLock {
              $0 += 1
              return $0
            }, buffer)
        },
        close: { _ in
          script.closed.withLock { $0 += 1 }
          return 0
        }))
  }

  @Test(arguments: [
    (ENOENT, ImageError.Kind.notFound), (ENOTDIR, .notFound), (EACCES, .notReadable),
    (EMFILE, .notReadable), (ELOOP, .notReadable), (ENXIO, .notAFile), (ENAMETOOLONG, .invalidPath),
  ])
  func opening(code: Int32, kind: ImageError.Kind) {
    let script = Script()
    let reader = reader(script, size: 4, open: -code) { _, _ in 0 }
    #expect { try reader.read(path: "a", limit: 10) } throws: {
      ($0 as? ImageProblem)?.kind == kind
    }
    #expect(script.closed.withLock { $0 } == 0)
  }

  @Test func interruptedAndShortReads() throws {
    let script = Script()
    let reader = reader(script, size: 4) { call, buffer in
      if call % 2 == 1 {
        errno = EINTR
        return -1
      }
      if call > 8 { return 0 }
      buffer[0] = UInt8(call)
      return 1
    }
    #expect(try reader.read(path: "a", limit: 10) == [2, 4, 6, 8])
    #expect(script.closed.withLock { $0 } == 1)
  }

  @Test(arguments: 1...4)
  func failingReads(at failing: Int) {
    let script = Script()
    let reader = reader(script, size: 3) { call, buffer in
      if call == failing {
        errno = EIO
        return -1
      }
      if call == 4 { return 0 }
      buffer[0] = 1
      return 1
    }
    #expect { try reader.read(path: "a", limit: 10) } throws: {
      ($0 as? ImageProblem)?.kind == .notReadable
    }
    #expect(script.closed.withLock { $0 } == 1)
  }

  /// Shorter or longer than fstat said: half written, and no picture to send.
  @Test(arguments: [2, 4])
  func changedWhileRead(actual: Int) {
    let script = Script()
    let reader = reader(script, size: 3) { call, buffer in
      if call > 1 { return 0 }
      return min(actual, buffer.count)
    }
    #expect { try reader.read(path: "a", limit: 10) } throws: {
      ($0 as? ImageProblem)?.kind == .notReadable
    }
    #expect(script.closed.withLock { $0 } == 1)
  }

  /// Files of procfs state no size.
  @Test func unknownSize() throws {
    let script = Script()
    let reader = reader(script, size: 0) { call, buffer in
      if call > 3 { return 0 }
      buffer[0] = UInt8(call)
      return 1
    }
    #expect(try reader.read(path: "a", limit: 10) == [1, 2, 3])
    #expect { try reader.read(path: "a", limit: 10) } throws: {
      ($0 as? ImageProblem)?.kind == .empty
    }
  }
}
