import Foundation
import Synchronization

/// A path of its own for one file, which is removed with the object and, at the latest, when the test
/// process exits: statics are never released.
final class TemporaryFile: Sendable {
  let path = FileManager.default.temporaryDirectory
    .appending(path: "openfm-\(UUID().uuidString)").path

  private static let all = Mutex<Set<String>>([])
  private static let removesAtExit: Void = {
    _ = atexit { for path in TemporaryFile.all.withLock({ $0 }) { unlink(path) } }
  }()

  init() {
    _ = Self.removesAtExit
    Self.all.withLock { _ = $0.insert(path) }
  }

  deinit {
    unlink(path)
    Self.all.withLock { _ = $0.remove(path) }
  }
}
