import Glibc

/// A model of the models folder.
public struct InstalledModel: Sendable, Equatable {
  public var path: String
  public var projectorPath: String?
  /// Bytes of both files.
  public var size: Int64
  let note: ModelNote?

  init(folder: String, file: String, projector: String?) {
    path = "\(folder)/\(file)"
    projectorPath = projector.map { "\(folder)/\($0)" }
    size = ([path] + (projectorPath.map { [$0] } ?? [])).reduce(0) { $0 + fileSize($1) }
    note = ModelNote(besides: path)
  }

  /// The short name it is known by, else the file's name without ".gguf".
  public var name: String { note?.knownName ?? String(file.dropLast(".gguf".count)) }
  public var file: String { path.split(separator: "/").last.map(String.init) ?? path }

  func isCalled(_ text: String) -> Bool {
    text == name || text == file || text == file.dropLast(".gguf".count) || text == note?.source
  }

  /// name, path, mmproj_path, size, and of a file that was pulled: source, sha256, verified,
  /// revision, licence; what is not known is left out.
  public var json: JSONValue {
    var object = JSONObject([("name", .string(name)), ("path", .string(path))])
    if let projectorPath { object["mmproj_path"] = .string(projectorPath) }
    object["size"] = .number(JSONNumber(Int(size)))
    if let note {
      object.members +=
        note.json.objectValue?.members.filter { $0.name != "size" && $0.name != "name" } ?? []
    }
    return .object(object)
  }
}

/// What is known of where a model file came from; lies beside it.
struct ModelNote: Equatable {
  var source: String
  var sha256: String
  var size: Int64
  /// Whether the digest was told by the server or the caller, and not only computed.
  var isVerified: Bool
  /// The hub's commit.
  var revision: String?
  var knownName: String?
  var licence: String?

  init(
    source: String, sha256: String, size: Int64, isVerified: Bool, revision: String?,
    known: KnownModel?
  ) {
    self.source = source
    self.sha256 = sha256
    self.size = size
    self.isVerified = isVerified
    self.revision = revision
    knownName = known?.name
    licence = known?.licence
  }

  /// nil where there is none that can be read.
  init?(besides path: String) {
    guard let text = PartFile.read(path + ".json"), let json = try? JSONValue(parsing: text),
      let source = json["source"]?.stringValue, let sha256 = json["sha256"]?.stringValue,
      let size = json["size"]?.intValue
    else { return nil }
    self.source = source
    self.sha256 = sha256
    self.size = Int64(size)
    isVerified = json["verified"]?.boolValue ?? false
    revision = json["revision"]?.stringValue
    knownName = json["name"]?.stringValue
    licence = json["licence"]?.stringValue
  }

  /// Whether the file still is as long as it was.
  func fits(_ path: String) -> Bool { fileSize(path) == size }

  var json: JSONValue {
    var object = JSONObject()
    if let knownName { object["name"] = .string(knownName) }
    object["source"] = .string(source)
    object["sha256"] = .string(sha256)
    object["size"] = .number(JSONNumber(Int(size)))
    object["verified"] = .bool(isVerified)
    if let revision { object["revision"] = .string(revision) }
    if let licence { object["licence"] = .string(licence) }
    return .object(object)
  }
}

/// Bytes of a file; 0 where there is none.
private func fileSize(_ path: String) -> Int64 {
  var status = stat()
  return stat(path, &status) == 0 ? Int64(status.st_size) : 0
}
