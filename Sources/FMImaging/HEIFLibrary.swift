import CHEIF
import Synchronization

/// The libheif libraries of this machine, opened when the first HEIC or AVIF picture is met.
public enum HEIFLibrary {
  /// A library that was opened; it stays open as long as the process.
  struct Handle: @unchecked Sendable {
    let pointer: OpaquePointer
  }

  private struct State {
    /// Files to try, in order; the system's first, which alone can read AVIF.
    var candidates = ["libheif.so.1"]
    var opened: [Handle] = []
  }

  private static let state = Mutex(State())

  /// Names one more library to try after the system's: a path, for example of the one that a Python
  /// package carries. Opens nothing.
  public static func offer(path: String) {
    state.withLock { state in
      if !state.candidates.contains(path) { state.candidates.append(path) }
    }
  }

  /// The first library that decodes the codec; nil when none is there.
  static func handle(for codec: cheif_codec) -> Handle? {
    state.withLock { state in
      // A library that could not be opened is tried again: it may have been installed meanwhile.
      var remaining: [String] = []
      for file in state.candidates {
        var why = [CChar](repeating: 0, count: 256)
        if let pointer = cheif_library_open(file, &why, why.count) {
          state.opened.append(Handle(pointer: pointer))
        } else {
          remaining.append(file)
        }
      }
      state.candidates = remaining
      return state.opened.first { cheif_library_decodes($0.pointer, codec) != 0 }
    }
  }
}
