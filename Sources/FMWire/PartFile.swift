import Glibc

/// A file that is being fetched, with what has to hold for its fetching to go on later; owns its
/// descriptor. One process at a time has it open.
///
/// Beside `PATH` lies `PATH.json`, which names the version of the file that the bytes are of: without
/// it, or with another, they are worth nothing.
final class PartFile {
  /// What the server said of the file when its first byte was fetched.
  struct Version: Equatable {
    var url: String
    /// A strong entity tag.
    var tag: String
  }

  let path: String
  let descriptor: Int32
  private(set) var size: Int64 = 0
  private(set) var version: Version?

  /// Opens or makes the file. What is in it without a version is dropped.
  init(path: String) throws(ModelError) {
    self.path = path
    descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else { throw Self.failure("cannot write \(path)", Errno.current) }
    guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
      throw ModelError(
        kind: .storage,
        message: "another process is fetching the same file (\(path)); wait for it, or end it")
    }
    var status = stat()
    guard fstat(descriptor, &status) == 0 else {
      throw Self.failure("cannot read \(path)", Errno.current)
    }
    size = Int64(status.st_size)
    if let text = Self.read(path + ".json"), let json = try? JSONValue(parsing: text),
      let url = json["url"]?.stringValue, let tag = json["etag"]?.stringValue
    {
      version = Version(url: url, tag: tag)
    } else {
      try restart(as: nil)
    }
  }

  /// A file that is complete already.
  init(keeping path: String) throws(ModelError) {
    self.path = path
    descriptor = open(path, O_RDWR | O_CLOEXEC)
    var status = stat()
    guard descriptor >= 0, fstat(descriptor, &status) == 0 else {
      throw Self.failure("cannot read \(path)", Errno.current)
    }
    size = Int64(status.st_size)
  }

  deinit {
    if descriptor >= 0 { close(descriptor) }
  }

  /// Drops all bytes; the next ones are of that version.
  func restart(as version: Version?) throws(ModelError) {
    guard ftruncate(descriptor, 0) == 0 else {
      throw Self.failure("cannot write \(path)", Errno.current)
    }
    size = 0
    self.version = version
    guard let version else {
      unlink(path + ".json")
      return
    }
    let json: JSONValue = ["url": .string(version.url), "etag": .string(version.tag)]
    try Self.write(json.jsonText + "\n", to: path + ".json")
  }

  func append(_ bytes: [UInt8]) throws(ModelError) {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes {
        pwrite(descriptor, $0.baseAddress, $0.count, off_t(size))
      }
      if count < 0, errno == EINTR { continue }
      guard count > 0 else {
        throw Self.failure("cannot write \(path)", count < 0 ? Errno.current : Errno(code: ENOSPC))
      }
      rest = rest.dropFirst(count)
      size += Int64(count)
    }
  }

  /// Throws when the file system has no room for so many more bytes.
  func requireSpace(_ bytes: Int64) throws(ModelError) {
    var status = statvfs()
    guard fstatvfs(descriptor, &status) == 0 else { return }
    let free = Int64(clamping: UInt64(status.f_bavail) * UInt64(status.f_frsize))
    guard free >= bytes else {
      throw ModelError(
        kind: .storage,
        message: "\(path) needs \(bytes) more bytes and its file system has \(free); make room, or "
          + "set XDG_CACHE_HOME to a folder elsewhere")
    }
  }

  func sha256() throws(ModelError) -> String {
    do {
      return try FileDigest.sha256(descriptor: descriptor)
    } catch {
      throw Self.failure("cannot read \(path)", error)
    }
  }

  /// Takes the file away, with what is known of it.
  func discard() {
    unlink(path)
    unlink(path + ".json")
  }

  /// Puts the complete file at another path in one step, replacing what is there.
  func move(to target: String) throws(ModelError) {
    guard fsync(descriptor) == 0 else { throw Self.failure("cannot write \(path)", Errno.current) }
    if rename(path, target) != 0 {
      guard errno == EXDEV else { throw Self.failure("cannot write \(target)", Errno.current) }
      // Another file system: a copy beside the target, which then takes its place.
      let slash = target.lastIndex(of: "/").map { target.index(after: $0) } ?? target.startIndex
      let copy = target[..<slash] + "." + target[slash...] + ".part"
      try copyBytes(to: String(copy))
      guard rename(String(copy), target) == 0 else {
        let error = Errno.current
        unlink(String(copy))
        throw Self.failure("cannot write \(target)", error)
      }
      unlink(path)
    }
    unlink(path + ".json")
  }

  private func copyBytes(to copy: String) throws(ModelError) {
    let output = open(copy, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    guard output >= 0 else { throw Self.failure("cannot write \(copy)", Errno.current) }
    defer { close(output) }
    var offset: off_t = 0
    while offset < off_t(size) {
      let count = sendfile(output, descriptor, &offset, Int(size) - Int(offset))
      if count < 0, errno == EINTR { continue }
      guard count > 0 else {
        let error = Errno.current
        unlink(copy)
        throw Self.failure("cannot write \(copy)", error)
      }
    }
    guard fsync(output) == 0 else { throw Self.failure("cannot write \(copy)", Errno.current) }
  }

  static func failure(_ what: String, _ error: Errno) -> ModelError {
    ModelError(kind: .storage, message: "\(what): \(error); make room, or choose another place")
  }

  /// The text of a small file; nil when it is not there or no UTF-8.
  static func read(_ path: String) -> String? {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return nil }
    defer { close(descriptor) }
    var bytes = [UInt8](repeating: 0, count: 64 << 10)
    let count = Glibc.read(descriptor, &bytes, bytes.count)
    return count >= 0 ? String(validating: bytes[..<count], as: UTF8.self) : nil
  }

  /// Replaces a small file in one step.
  static func write(_ text: String, to path: String) throws(ModelError) {
    let new = path + ".new"
    let descriptor = open(new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    guard descriptor >= 0 else { throw failure("cannot write \(path)", Errno.current) }
    let bytes = Array(text.utf8)
    let count = Glibc.write(descriptor, bytes, bytes.count)
    let error = Errno.current
    close(descriptor)
    guard count == bytes.count, rename(new, path) == 0 else {
      throw failure("cannot write \(path)", count == bytes.count ? Errno.current : error)
    }
  }
}
