import Glibc

/// Reads a regular file whole and keeps nothing open.
struct FileReader {
  /// The calls into the system, replaceable so that each can be made to fail.
  struct System: Sendable {
    var open: @Sendable (String) -> CInt
    var status: @Sendable (CInt, inout stat) -> CInt
    var read: @Sendable (CInt, UnsafeMutableRawBufferPointer) -> Int
    var close: @Sendable (CInt) -> CInt

    static let real = System(
      // Non-blocking, so that a FIFO does not hang before fstat can tell what it is; no controlling
      // terminal, in case it is one.
      open: { Glibc.open($0, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) },
      status: { Glibc.fstat($0, &$1) },
      read: { Glibc.read($0, $1.baseAddress, $1.count) },
      close: { Glibc.close($0) })
  }

  var system = System.real

  /// The file's bytes. The descriptor is closed on every path.
  ///
  /// - Parameter limit: Largest file read, in bytes; checked before anything is allocated.
  func read(path: String, limit: Int) throws(ImageProblem) -> [UInt8] {
    if path.isEmpty {
      throw ImageProblem(.invalidPath, "an empty path names no file; give the picture's path")
    }
    if path.utf8.contains(0) {
      throw ImageProblem(
        .invalidPath, "the path holds a NUL character, which no file name can; check the path")
    }

    let descriptor = try open(path)
    defer { _ = system.close(descriptor) }

    var info = stat()
    guard system.status(descriptor, &info) == 0 else {
      throw ImageProblem(.notReadable, "reading failed: \(Self.text(errno))")
    }
    try Self.requireRegularFile(info.st_mode)
    let size = Int(info.st_size)
    if size > limit {
      throw ImageProblem(
        .tooLarge,
        "the file has \(size) bytes, more than the limit of \(limit); scale the picture down")
    }
    let bytes = try read(descriptor, expecting: size, limit: limit)
    if bytes.isEmpty {
      throw ImageProblem(.empty, "the file is empty (0 bytes); write or copy the picture again")
    }
    return bytes
  }

  private func open(_ path: String) throws(ImageProblem) -> CInt {
    while true {
      let descriptor = system.open(path)
      if descriptor >= 0 { return descriptor }
      switch errno {
      case EINTR: continue
      case ENOENT, ENOTDIR:
        throw ImageProblem(.notFound, "no such file; check the path")
      case EACCES, EPERM:
        throw ImageProblem(
          .notReadable, "no permission to read the file; check its mode and its folders' modes")
      case ENXIO, ENODEV:
        throw ImageProblem(
          .notAFile, "this is a socket or a device, not a file; give a picture file's path")
      case ENAMETOOLONG:
        throw ImageProblem(.invalidPath, "the path is too long for a file name; check the path")
      default:
        throw ImageProblem(.notReadable, "opening failed: \(Self.text(errno))")
      }
    }
  }

  private static func requireRegularFile(_ mode: mode_t) throws(ImageProblem) {
    let what: String
    switch mode & S_IFMT {
    case S_IFREG: return
    case S_IFDIR: what = "a directory"
    case S_IFIFO: what = "a pipe"
    case S_IFSOCK: what = "a socket"
    default: what = "a device"
    }
    throw ImageProblem(.notAFile, "this is \(what), not a file; give a picture file's path")
  }

  /// Reads to the end of the file. One byte more than `size` is asked for, so that the usual file
  /// needs no second buffer and one that has grown is noticed.
  private func read(_ descriptor: CInt, expecting size: Int, limit: Int) throws(ImageProblem)
    -> [UInt8]
  {
    var failure: CInt = 0
    var isAtEnd = false
    var bytes = [UInt8](unsafeUninitializedCapacity: size + 1) { buffer, count in
      while count < buffer.count {
        let rest = UnsafeMutableRawBufferPointer(
          rebasing: UnsafeMutableRawBufferPointer(buffer)[count...])
        let got = system.read(descriptor, rest)
        if got > 0 {
          count += got
        } else if got == 0 {
          isAtEnd = true
          return
        } else if errno != EINTR {
          failure = errno
          return
        }
      }
    }
    // Files of procfs and the like state a size of 0 and have content all the same.
    while failure == 0, !isAtEnd, size == 0, bytes.count <= limit {
      bytes += [UInt8](unsafeUninitializedCapacity: 1 << 16) { buffer, count in
        let got = system.read(descriptor, UnsafeMutableRawBufferPointer(buffer))
        if got > 0 {
          count = got
        } else if got == 0 {
          isAtEnd = true
        } else if errno != EINTR {
          failure = errno
        }
      }
    }
    if failure != 0 {
      throw ImageProblem(.notReadable, "reading failed: \(Self.text(failure))")
    }
    if bytes.count > limit {
      throw ImageProblem(
        .tooLarge, "the file has more than the limit of \(limit) bytes; scale the picture down")
    }
    if size != 0, bytes.count != size {
      throw ImageProblem(
        .notReadable, "the file changed while it was read; try again when it is written")
    }
    return bytes
  }

  private static func text(_ code: CInt) -> String { String(cString: strerror(code)) }
}
