import Glibc

/// The folders in which a Python looks for packages, found without starting it.
///
/// Those of a virtual environment (PEP 405), of an installation (the module `site`), of the user and
/// of PYTHONPATH. Not found are packages of an editable installation, and of a Python that a script
/// of the same name chooses, such as pyenv's: those only the Python itself can tell.
struct EnginePythonFolders {
  /// In the order in which the Python would look.
  let paths: [String]

  /// Reads a few folders' names.
  init(of python: String, _ settings: EngineSettings) {
    var paths = (settings["PYTHONPATH"] ?? "").split(separator: ":").map(String.init)
      .filter { $0.hasPrefix("/") }
    let own = Self.parent(Self.parent(python))
    let resolved = Self.resolved(python)
    if let marker = PartFile.read(own + "/pyvenv.cfg") {
      paths += Self.packages(in: own, of: resolved)
      let values = Self.values(of: marker)
      if values["include-system-site-packages"]?.lowercased() == "true", let home = values["home"] {
        paths += Self.shared(Self.parent(home), of: resolved, settings)
      }
    } else {
      paths += Self.shared(Self.parent(Self.parent(resolved)), of: resolved, settings)
    }
    self.paths = paths
  }

  /// The first folder of that name.
  func find(_ package: String) -> String? {
    paths.lazy.map { "\($0)/\(package)" }.first { access($0 + "/", R_OK | X_OK) == 0 }
  }

  /// Those of an installation, with the user's, which come first.
  private static func shared(
    _ prefix: String, of python: String, _ settings: EngineSettings
  ) -> [String] {
    let user = settings["HOME"].map { packages(in: $0 + "/.local", of: python) } ?? []
    // Debian's own Python has the packages of the administrator there.
    let local = prefix == "/usr" ? packages(in: "/usr/local", of: python) : []
    return user + local + packages(in: prefix, of: python)
  }

  private static func packages(in prefix: String, of python: String) -> [String] {
    let name = python.split(separator: "/").last ?? ""
    var found: [String] = []
    for library in ["lib", "lib64"] {
      let folder = "\(prefix)/\(library)"
      for version in names(in: folder).sorted()
      // One that is named python3 alone may be any.
      where version.hasPrefix("python3")
        && (version == name || version == "python3" || !name.hasPrefix("python3."))
      {
        found += ["\(folder)/\(version)/site-packages", "\(folder)/\(version)/dist-packages"]
      }
    }
    return found
  }

  private static func names(in folder: String) -> [String] {
    guard let directory = opendir(folder) else { return [] }
    defer { closedir(directory) }
    var names: [String] = []
    while let entry = readdir(directory) {
      names.append(
        withUnsafePointer(to: &entry.pointee.d_name) {
          $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
        })
    }
    return names
  }

  /// `NAME = VALUE` a line.
  private static func values(of text: String) -> [String: String] {
    var values: [String: String] = [:]
    for line in text.split(whereSeparator: \.isNewline) {
      let parts = line.split(separator: "=", maxSplits: 1)
      guard parts.count == 2 else { continue }
      values[String(parts[0]).trimmingASCIIWhitespace().lowercased()] =
        String(parts[1]).trimmingASCIIWhitespace()
    }
    return values
  }

  private static func parent(_ path: String) -> String {
    path.lastIndex(of: "/").map { String(path[..<$0]) } ?? ""
  }

  private static func resolved(_ path: String) -> String {
    guard let resolved = realpath(path, nil) else { return path }
    defer { free(resolved) }
    return String(cString: resolved)
  }
}
