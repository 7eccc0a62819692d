import Glibc

/// The environment, read with checks.
struct EngineSettings {
  let environment: [String: String]

  /// nil also for an empty variable.
  subscript(name: String) -> String? {
    guard let value = environment[name], !value.isEmpty else { return nil }
    return value
  }

  func wholeNumber(
    _ name: String, _ range: ClosedRange<Int>
  ) throws(EngineUnavailable) -> Int? {
    guard let text = self[name] else { return nil }
    guard let value = Int(text), range.contains(value) else {
      throw EngineUnavailable(
        kind: .badSetting,
        message: "\(name) is \"\(text)\"; it must be a whole number from \(range.lowerBound) to "
          + "\(range.upperBound)")
    }
    return value
  }

  func seconds(_ name: String) throws(EngineUnavailable) -> Double? {
    guard let text = self[name] else { return nil }
    guard let value = Double(text), value.isFinite, value > 0, value <= 1e9 else {
      throw EngineUnavailable(
        kind: .badSetting,
        message: "\(name) is \"\(text)\"; it must be a number of seconds above 0")
    }
    return value
  }

  /// Where installed models are; nil when neither XDG_DATA_HOME nor HOME tells.
  var modelsFolder: String? {
    // The XDG base directory specification: a relative path is to be ignored.
    if let data = self["XDG_DATA_HOME"], data.hasPrefix("/") { return data + "/openfm/models" }
    return self["HOME"].map { $0 + "/.local/share/openfm/models" }
  }

  /// Where what can be fetched again lies; nil when neither XDG_CACHE_HOME nor HOME tells.
  var cacheFolder: String? {
    if let cache = self["XDG_CACHE_HOME"], cache.hasPrefix("/") { return cache + "/openfm" }
    return self["HOME"].map { $0 + "/.cache/openfm" }
  }

  /// The program's path: the name itself where it has a slash, else the first match on PATH.
  func executable(_ name: String) -> String? {
    guard !name.isEmpty else { return nil }
    if name.contains("/") { return isExecutableFile(name) ? name : nil }
    for folder in (self["PATH"] ?? "").split(separator: ":") where folder.hasPrefix("/") {
      let path = "\(folder)/\(name)"
      if isExecutableFile(path) { return path }
    }
    return nil
  }

  private func isExecutableFile(_ path: String) -> Bool {
    var status = stat()
    return stat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFREG
      && access(path, X_OK) == 0
  }
}
