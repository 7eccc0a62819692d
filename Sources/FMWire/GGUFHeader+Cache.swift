import Glibc
import Synchronization

extension GGUFHeader {
  /// A file as it was when its header was read; another file, or new contents, make another key.
  private struct Identity: Hashable {
    var path: String
    var device: dev_t
    var inode: ino_t
    var size: Int
    var seconds: Int
    var nanoseconds: Int
  }

  private static let known = Mutex<[Identity: GGUFHeader]>([:])
  private static let maximumKnown = 256

  /// The header of `init(path:)`, read again only when the file is not the one it was: every request
  /// asks for it, and stepping over a vocabulary takes milliseconds. Errors are not remembered.
  static func remembered(path: String) throws(GGUFError) -> GGUFHeader {
    var status = stat()
    guard stat(path, &status) == 0 else { return try GGUFHeader(path: path) }
    let identity = Identity(
      path: path, device: status.st_dev, inode: status.st_ino, size: Int(status.st_size),
      seconds: Int(status.st_mtim.tv_sec), nanoseconds: Int(status.st_mtim.tv_nsec))
    if let header = known.withLock({ $0[identity] }) { return header }
    let header = try GGUFHeader(path: path)
    known.withLock { headers in
      if headers.count >= maximumKnown { headers.removeAll() }
      headers[identity] = header
    }
    return header
  }
}
