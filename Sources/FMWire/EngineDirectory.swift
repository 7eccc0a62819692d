import CLinux
import Glibc
import Synchronization

/// A folder of mode 0700 for one child's socket, under XDG_RUNTIME_DIR, TMPDIR or /tmp.
///
/// It is locked (flock) as long as its owner lives, by which a later process tells what a killed one
/// left behind, across PID namespaces that share a folder, and removes that.
final class EngineDirectory: Sendable {
  private static let prefix = "openfm-engine-"
  private static let socketName = "engine.sock"
  /// `sockaddr_un.sun_path` with its NUL.
  private static let maximumSocketPath = 107
  private static let swept = Mutex<Set<String>>([])

  let path: String
  private let descriptor: Int32

  var socketPath: String { "\(path)/\(Self.socketName)" }

  /// nil when no folder can be made or every path is too long for a socket.
  init?(environment: EngineSettings) {
    for base in [environment["XDG_RUNTIME_DIR"], environment["TMPDIR"], "/tmp"] {
      guard let base, base.hasPrefix("/"),
        base.utf8.count + Self.prefix.count + Self.socketName.count + 8 <= Self.maximumSocketPath
      else { continue }
      if Self.swept.withLock({ $0.insert(base).inserted }) { Self.sweep(base) }
      var template = Array("\(base)/\(Self.prefix)XXXXXX".utf8CString)
      guard mkdtemp(&template) != nil else { continue }
      let path = template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
      let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
      guard descriptor >= 0 else {
        rmdir(path)
        continue
      }
      flock(descriptor, LOCK_EX | LOCK_NB)
      self.path = path
      self.descriptor = descriptor
      return
    }
    return nil
  }

  deinit {
    remove()
    close(descriptor)
  }

  func remove() { Self.remove(path) }

  private static func remove(_ path: String) {
    unlink("\(path)/\(socketName)")
    rmdir(path)
  }

  /// Removes the folders under `base` that killed processes left.
  ///
  /// - Parameter minimumAge: seconds; a folder just made may not be locked yet.
  static func sweep(_ base: String, minimumAge: Int = 60) {
    guard let directory = opendir(base) else { return }
    defer { closedir(directory) }
    var now = timespec()
    clock_gettime(CLOCK_REALTIME, &now)
    while let entry = readdir(directory) {
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      guard name.hasPrefix(prefix) else { continue }
      let path = "\(base)/\(name)"
      var status = stat()
      guard lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFDIR,
        status.st_uid == geteuid(), now.tv_sec - status.st_ctim.tv_sec >= minimumAge
      else { continue }
      let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
      guard descriptor >= 0 else { continue }
      if flock(descriptor, LOCK_EX | LOCK_NB) == 0 { remove(path) }
      close(descriptor)
    }
  }
}
