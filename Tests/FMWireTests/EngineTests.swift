import Foundation
import Synchronization
import Testing

@testable import FMWire

extension EngineTestSupport {
  static let fakeEngine = root.appending(path: "Tests/engine/fake_engine.py").path

  /// A configuration of its own for each test: engines are shared by configuration.
  static func fake(
    _ mode: String, idleSeconds: Double = 600, startSeconds: Double = 20
  ) throws -> EngineConfiguration {
    EngineConfiguration(
      command: [try python(), fakeEngine, mode], modelPath: "model of \(UUID().uuidString)",
      idleSeconds: idleSeconds, startSeconds: startSeconds)
  }

  static func get(_ path: String, from endpoint: Endpoint) async throws -> JSONValue {
    let (head, body) = try await HTTPClient.shared.send(request("GET", path, endpoint))
    try #require(head.status == 200, "\(path): \(String(decoding: body, as: UTF8.self))")
    return try JSONValue(parsing: body)
  }

  static func expectAnswer(from endpoint: Endpoint) async throws {
    let answer = try await get("/hello", from: endpoint)
    #expect(answer == "hello")
  }

  static func request(_ method: String, _ path: String, _ endpoint: Endpoint) -> HTTPRequest {
    HTTPRequest(
      method: method, url: endpoint.baseURL + path, unixSocketPath: endpoint.unixSocketPath,
      headers: [
        ("Authorization", "Bearer \(endpoint.apiKey ?? "")"), ("Content-Type", "application/json"),
      ], timeouts: endpoint.timeouts)
  }

  static func end(_ engine: Engine) {
    let process = engine.stop(grace: .zero)
    #expect(process?.waitUntilEnded(seconds: 5) != false)
  }

  /// What an attempt to use that engine throws.
  static func failure(
    of configuration: EngineConfiguration, sourceLocation: SourceLocation = #_sourceLocation
  ) async throws -> EngineError {
    try #require(
      await #expect(throws: EngineError.self, sourceLocation: sourceLocation) {
        try await Engine.shared(configuration).withEndpoint { _ in }
      }, sourceLocation: sourceLocation)
  }

  /// Polls until `condition` holds; false when it does not within that time.
  static func eventually(within seconds: Double, _ condition: () -> Bool) async throws -> Bool {
    let deadline = ContinuousClock.now.advanced(by: .seconds(seconds))
    while !condition() {
      if ContinuousClock.now > deadline { return false }
      try await Task.sleep(for: .milliseconds(10))
    }
    return true
  }

  /// Whether a process runs; a zombie does not.
  static func isAlive(_ processID: Int32) -> Bool {
    state(of: processID).map { $0 != "Z" } ?? false
  }

  /// Whether a process is in the table at all.
  static func exists(_ processID: Int32) -> Bool { state(of: processID) != nil }

  private static func state(of processID: Int32) -> Character? {
    guard let text = try? String(contentsOfFile: "/proc/\(processID)/stat", encoding: .utf8),
      let end = text.lastIndex(of: ")")
    else { return nil }
    return text[text.index(after: end)...].first { $0 != " " }
  }

  static func openDescriptors() throws -> Int {
    try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
  }
}

/// Serialized, to leave the machine to other suites too. No test may use `stopAll`, which concerns
/// the whole process: `EngineHostTests` does, in one of its own.
@Suite(.serialized, .timeLimit(.minutes(3))) struct EngineTests {
  private typealias Support = EngineTestSupport

  // MARK: Starting

  @Test func startsOneChildForAll() async throws {
    let engine = Engine.shared(try Support.fake("slow"))
    defer { Support.end(engine) }
    #expect(engine.processID == nil)
    let pids = try await withThrowingTaskGroup(of: Int?.self) { group in
      for _ in 0..<8 {
        group.addTask {
          try await engine.withEndpoint {
            try await Support.get("/info", from: $0)["pid"]?.intValue
          }
        }
      }
      return try await group.reduce(into: Set<Int?>()) { $0.insert($1) }
    }
    #expect(pids.count == 1)
    #expect(pids.first == engine.processID.map(Int.init))
    // The same object for an equal configuration, another for another.
    #expect(Engine.shared(engine.configuration) === engine)
    var other = engine.configuration
    other.slots = 3
    #expect(Engine.shared(other) !== engine)
  }

  @Test func givesTheChildWhatItNeedsAndNothingElse() async throws {
    // Neither a descriptor that is not close-on-exec nor a key of another server reaches the child.
    let leak = dup(0)
    setenv("OPENFM_API_KEY", "another server's", 1)
    setenv("LLAMA_ARG_API_PREFIX", "/moved", 1)
    defer {
      close(leak)
      unsetenv("OPENFM_API_KEY")
      unsetenv("LLAMA_ARG_API_PREFIX")
    }
    var configuration = try Support.fake("ok")
    configuration.projectorPath = "a projector"
    configuration.contextSize = 1000
    configuration.slots = 3
    configuration.threads = 2
    let engine = Engine.shared(configuration)
    defer { Support.end(engine) }
    defer { Support.end(engine) }
    let (endpoint, info) = try await engine.withEndpoint {
      ($0, try await Support.get("/info", from: $0))
    }
    let socket = try #require(endpoint.unixSocketPath)
    let key = try #require(endpoint.apiKey)
    #expect(
      info["argv"]?.arrayValue?.compactMap(\.stringValue) == [
        "ok", "--model", configuration.modelPath, "--mmproj", "a projector", "--ctx-size", "3000",
        "--parallel", "3", "--threads", "2", "--jinja", "--no-webui", "--host", socket, "--port",
        "0",
      ])
    #expect(key.count == 64)
    #expect(info["key_length"] == 64)
    #expect(info["descriptors"] == [0, 1, 2, 3])
    #expect(info["blocked"] == "0000000000000000")
    #expect(info["session"] == info["pid"])
    let names = info["environment"]?.arrayValue?.compactMap(\.stringValue) ?? []
    #expect(names.contains("PATH"))
    #expect(!names.contains("OPENFM_API_KEY") && !names.contains("LLAMA_ARG_API_PREFIX"))

    let folder = URL(filePath: socket).deletingLastPathComponent().path
    let mode = try FileManager.default.attributesOfItem(atPath: folder)[.posixPermissions]
    #expect(mode as? Int == 0o700)
    Support.end(engine)
    #expect(!FileManager.default.fileExists(atPath: folder))
  }

  @Test func listensOnLoopbackWhereThereCanBeNoSocket() async throws {
    let engine = Engine.shared(try Support.fake("socketless"))
    defer { Support.end(engine) }
    try await engine.withEndpoint { endpoint in
      #expect(endpoint.unixSocketPath == nil)
      #expect(endpoint.baseURL.hasPrefix("http://127.0.0.1:"))
      try await Support.expectAnswer(from: endpoint)
      var stranger = endpoint
      stranger.apiKey = "guessed"
      let head = try await HTTPClient.shared.send(Support.request("GET", "/hello", stranger)).head
      #expect(head.status == 401)
    }
  }

  @Test func saysWhyItCannotStart() async throws {
    try await Support.withFolder { folder in
      try Support.write([0, 1, 2, 3], to: "\(folder)/no-program", executable: true)
      try Support.write(
        Array("#!/nonexistent/interpreter\n".utf8), to: "\(folder)/no-interpreter",
        executable: true)
      for command in ["/nonexistent/engine", "\(folder)/no-program", "\(folder)/no-interpreter"] {
        let error = try await Support.failure(
          of: EngineConfiguration(command: [command], modelPath: "m"))
        #expect(error.kind == .notStarted)
        #expect(error.message.contains(command))
        #expect(error.message.contains("OPENFM_ENGINE"))
        #expect(error.logTail == "")
      }
    }
  }

  @Test func saysWhyTheChildEnded() async throws {
    let begin = ContinuousClock.now
    let error = try await Support.failure(of: try Support.fake("exit"))
    #expect(ContinuousClock.now - begin < .seconds(5))
    #expect(error.kind == .failed)
    #expect(error.message.contains("exit code 9"))
    #expect(error.message.contains("the model is missing"))
    #expect(error.logTail == "a first line\nthe model is missing")
  }

  @Test func givesUpOnAChildThatIsNeverReady() async throws {
    let configuration = try Support.fake("never", startSeconds: 1)
    let begin = ContinuousClock.now
    let error = try await Support.failure(of: configuration)
    #expect((0.9...4).contains((ContinuousClock.now - begin).seconds))
    #expect(error.kind == .failed)
    #expect(error.message.contains("within 1 seconds"))
    #expect(error.message.contains("OPENFM_ENGINE_START_TIMEOUT"))
    #expect(error.logTail.contains("listening"))
  }

  @Test func refusesAServerOfAnotherKind() async throws {
    let error = try await Support.failure(of: try Support.fake("teapot"))
    #expect(error.kind == .failed)
    #expect(error.message.contains("418"))
  }

  @Test func drainsALogOfAnyLength() async throws {
    let engine = Engine.shared(try Support.fake("chatty"))
    defer { Support.end(engine) }
    let error = await #expect(throws: EngineError.self) {
      try await engine.withEndpoint { endpoint in
        kill(try #require(engine.processID), SIGKILL)
        _ = try await Support.get("/hang", from: endpoint)
      }
    }
    let lines = error?.logTail.split(separator: "\n") ?? []
    #expect(lines.count <= 40)
    #expect(lines.contains { $0.contains("the last of many lines") })
  }

  @Test func cancellingAWaiterLeavesTheStartGoing() async throws {
    let engine = Engine.shared(try Support.fake("slow"))
    defer { Support.end(engine) }
    let impatient = Task { try await engine.withEndpoint { _ in } }
    try await Task.sleep(for: .milliseconds(300))
    let begin = ContinuousClock.now
    impatient.cancel()
    await #expect(throws: CancellationError.self) { try await impatient.value }
    #expect(ContinuousClock.now - begin < .milliseconds(500))
    // Nobody waits, and it becomes ready all the same.
    #expect(try await Support.eventually(within: 5) { engine.processID != nil })
    let cancelled = Task {
      withUnsafeCurrentTask { $0?.cancel() }
      try await engine.withEndpoint { _ in }
    }
    await #expect(throws: CancellationError.self) { try await cancelled.value }
  }

  // MARK: Dying

  @Test func aDeathWhileAnsweringIsToldAndMended() async throws {
    let engine = Engine.shared(try Support.fake("ok"))
    defer { Support.end(engine) }
    let first = try await engine.withEndpoint { _ in try #require(engine.processID) }
    let error = await #expect(throws: EngineError.self) {
      try await engine.withEndpoint { endpoint in
        async let answer = Support.get("/hang", from: endpoint)
        try await Task.sleep(for: .milliseconds(200))
        kill(first, SIGKILL)
        _ = try await answer
      }
    }
    #expect(error?.kind == .died)
    #expect(error?.message.contains("signal 9") == true)
    #expect(error?.logTail.contains("hanging") == true)
    #expect(!Support.exists(first))

    let second = try await engine.withEndpoint { endpoint in
      try await Support.expectAnswer(from: endpoint)
      return try #require(engine.processID)
    }
    #expect(second != first)
    // A death between two requests is nobody's error.
    kill(second, SIGKILL)
    #expect(try await Support.eventually(within: 2) { engine.processID == nil })
    try await engine.withEndpoint { endpoint in
      try await Support.expectAnswer(from: endpoint)
    }
  }

  @Test func otherErrorsPassThrough() async throws {
    struct Mine: Error {}
    let engine = Engine.shared(try Support.fake("ok"))
    defer { Support.end(engine) }
    await #expect(throws: Mine.self) { try await engine.withEndpoint { _ in throw Mine() } }
    let error = await #expect(throws: WireError.self) {
      try await engine.withEndpoint { _ in throw WireError(kind: .endedEarly, message: "m") }
    }
    #expect(error?.kind == .endedEarly)
  }

  // MARK: Stopping

  @Test func stopsWhenIdleAndNotBefore() async throws {
    let engine = Engine.shared(try Support.fake("ok", idleSeconds: 0.5))
    defer { Support.end(engine) }
    let first = try await engine.withEndpoint { endpoint in
      // Longer than the idle time, but not idle.
      try await Task.sleep(for: .seconds(1.2))
      try await Support.expectAnswer(from: endpoint)
      return try #require(engine.processID)
    }
    #expect(Support.isAlive(first))
    #expect(try await Support.eventually(within: 3) { !Support.exists(first) })
    #expect(engine.processID == nil)
    try await engine.withEndpoint { endpoint in
      try await Support.expectAnswer(from: endpoint)
    }
  }

  @Test func removesWhatKilledProcessesLeft() async throws {
    try await Support.withFolder { folder in
      let settings = EngineSettings(environment: ["TMPDIR": folder])
      let living = try #require(EngineDirectory(environment: settings))
      let dead = "\(folder)/openfm-engine-killed"
      let foreign = "\(folder)/another-killed"
      for path in [dead, foreign] { try Support.write([], to: "\(path)/engine.sock") }
      #expect(living.path.hasPrefix(folder))
      EngineDirectory.sweep(folder)
      #expect(FileManager.default.fileExists(atPath: dead), "it may be another's new one")
      EngineDirectory.sweep(folder, minimumAge: 0)
      #expect(!FileManager.default.fileExists(atPath: dead))
      #expect(FileManager.default.fileExists(atPath: living.path))
      #expect(FileManager.default.fileExists(atPath: foreign))
      living.remove()
      #expect(!FileManager.default.fileExists(atPath: living.path))
    }
  }

  @Test func takesAFolderInWhichASocketsPathIsShortEnough() throws {
    let long = "/" + String(repeating: "x", count: 200)
    let settings = EngineSettings(environment: ["XDG_RUNTIME_DIR": "relative", "TMPDIR": long])
    let directory = try #require(EngineDirectory(environment: settings))
    #expect(directory.path.contains("/openfm-engine-") && directory.path.utf8.count < 80)
  }
}
