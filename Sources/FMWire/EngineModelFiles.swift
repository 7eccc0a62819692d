import Glibc

/// The model that the environment, the models folder or the host names, with its projector.
struct EngineModelFiles {
  var path: String
  var projectorPath: String?
  var contextLength: Int?

  /// nil when nobody names one.
  init?(_ settings: EngineSettings, default given: String?) throws(EngineUnavailable) {
    if let path = settings["OPENFM_MODEL_PATH"] {
      let header = try Self.header(path, from: "OPENFM_MODEL_PATH")
      guard !header.isProjector else {
        throw EngineUnavailable(
          kind: .badModel,
          message: "OPENFM_MODEL_PATH is \(path), a vision projector; set OPENFM_MMPROJ_PATH to it "
            + "and OPENFM_MODEL_PATH to its model")
      }
      self.init(path: path, header: header)
    } else if let folder = settings.modelsFolder,
      let found = try EngineModelsFolder(path: folder).newest()
    {
      self = found
    } else if let given, access(given, F_OK) == 0 {
      self.init(path: given, header: try Self.header(given, from: "the host's default model"))
    } else {
      return nil
    }

    if let projector = settings["OPENFM_MMPROJ_PATH"] {
      guard try Self.header(projector, from: "OPENFM_MMPROJ_PATH").isProjector else {
        throw EngineUnavailable(
          kind: .badModel,
          message:
            "OPENFM_MMPROJ_PATH is \(projector), which is no vision projector; set it to the "
            + "mmproj file that belongs to \(path)")
      }
      projectorPath = projector
    }
  }

  init(path: String, projectorPath: String? = nil, header: GGUFHeader) {
    self.path = path
    self.projectorPath = projectorPath
    contextLength = header.contextLength
  }

  private static func header(
    _ path: String, from source: String
  ) throws(EngineUnavailable) -> GGUFHeader {
    do {
      return try GGUFHeader.remembered(path: path)
    } catch {
      throw EngineUnavailable(kind: .badModel, message: "\(error.message) (\(source))")
    }
  }
}

/// A folder of GGUF files.
struct EngineModelsFolder {
  var path: String

  private struct File {
    var name: String
    var header: GGUFHeader
    var path: String
  }

  /// nil when the folder is not there or holds no model.
  func newest() throws(EngineUnavailable) -> EngineModelFiles? {
    let names = namesNewestFirst()
    guard !names.isEmpty else { return nil }
    var models: [File] = []
    var projectors: [File] = []
    for name in names {
      let header: GGUFHeader
      do {
        header = try GGUFHeader.remembered(path: "\(path)/\(name)")
      } catch {
        // Taking an older model instead would answer with something the user did not install.
        throw EngineUnavailable(
          kind: .badModel,
          message: "\(error.message); remove it from the models folder or set OPENFM_MODEL_PATH")
      }
      let file = File(name: name, header: header, path: "\(path)/\(name)")
      if header.isProjector { projectors.append(file) } else { models.append(file) }
    }
    guard let model = models.first else { return nil }
    return EngineModelFiles(
      path: model.path,
      projectorPath: projector(of: model, among: projectors, isOnlyModel: models.count == 1)?.path,
      header: model.header)
  }

  private func projector(of model: File, among files: [File], isOnlyModel: Bool) -> File? {
    let stem = model.name.dropLast(".gguf".count)
    if let named = files.first(where: {
      $0.name == "\(stem).mmproj.gguf" || $0.name == "mmproj-\(stem).gguf"
    }) {
      return named
    }
    if files.count == 1 && isOnlyModel { return files[0] }
    guard let name = model.header.name else { return nil }
    let same = files.filter { $0.header.name == name }
    return same.count == 1 ? same[0] : nil
  }

  /// Regular *.gguf files, without the further parts of split models.
  private func namesNewestFirst() -> [String] {
    guard let directory = opendir(path) else { return [] }
    defer { closedir(directory) }
    var found: [(name: String, seconds: Int, nanoseconds: Int)] = []
    while let entry = readdir(directory) {
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      guard name.hasSuffix(".gguf"), !name.hasPrefix("."), !isFurtherPart(name) else { continue }
      var status = stat()
      guard stat("\(path)/\(name)", &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
        continue
      }
      found.append((name, Int(status.st_mtim.tv_sec), Int(status.st_mtim.tv_nsec)))
    }
    return found.sorted {
      ($1.seconds, $1.nanoseconds, $0.name) < ($0.seconds, $0.nanoseconds, $1.name)
    }.map(\.name)
  }

  /// Whether a name ends like "-00002-of-00003.gguf"; llama.cpp finds those parts by the first.
  private func isFurtherPart(_ name: String) -> Bool {
    let parts = name.dropLast(".gguf".count).split(separator: "-")
    guard parts.count >= 4, parts[parts.count - 2] == "of", let total = Int(parts[parts.count - 1]),
      let number = Int(parts[parts.count - 3])
    else { return false }
    return number > 1 && number <= total
  }
}
