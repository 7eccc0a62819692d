import Foundation
import Testing

@testable import FMWire

/// What becomes of the child when its host ends, or is an odd one. Each host is this test program,
/// run again for one of the roles below.
@Suite(.serialized, .timeLimit(.minutes(3))) struct EngineHostTests {
  private typealias Support = EngineTestSupport

  private enum Role: String {
    /// Starts an engine and stays.
    case stay
    /// Starts an engine and exits as programs do.
    case exit
    /// Ignores SIGCHLD, so that the kernel takes the status of every child.
    case ignoreChildren
    /// Waits for any child, as some event loops do.
    case waitForAny
    /// Ends all children of its own at once.
    case stopAll
    /// Starts and ends children, and counts its descriptors.
    case count
  }

  private static let variable = "OPENFM_TEST_ROLE"
  private static let role = ProcessInfo.processInfo.environment[variable].flatMap(
    Role.init(rawValue:))

  private func host(_ role: Role) throws -> (process: Process, output: FileHandle) {
    let process = Process()
    process.executableURL = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
    process.arguments = ["--testing-library", "swift-testing", "--filter", "EngineHostTests/plays"]
    process.environment = ProcessInfo.processInfo.environment.merging(
      [Self.variable: role.rawValue]) { $1 }
    let pipe = Pipe()
    process.standardOutput = pipe
    process.standardError = FileHandle.nullDevice
    try process.run()
    return (process, pipe.fileHandleForReading)
  }

  /// The values of the host's "KEY VALUE" lines, up to the one named last.
  private func read(
    _ output: FileHandle, until last: String
  ) async throws -> [String: String] {
    let text = try await Support.offPool {
      var text = ""
      while !text.contains("@\(last) ") || !text.hasSuffix("\n") {
        let data = output.availableData
        if data.isEmpty { break }
        text += String(decoding: data, as: UTF8.self)
      }
      return text
    }
    let pairs = text.split(separator: "\n").filter { $0.hasPrefix("@") }.map { line in
      let words = line.dropFirst().split(separator: " ", maxSplits: 1).map(String.init)
      return (words[0], words.last ?? "")
    }
    return Dictionary(pairs) { $1 }
  }

  /// Not a test of its own: what a host does.
  @Test(.enabled(if: EngineHostTests.role != nil)) func plays() async throws {
    switch try #require(Self.role) {
    case .stopAll: try await stopAllEndsEveryChild()
    case .count: try await leaksNothing()
    case .stay, .exit, .ignoreChildren, .waitForAny: try await playsWithOneEngine()
    }
    print("@end of the play")
  }

  private func playsWithOneEngine() async throws {
    let engine = Engine.shared(try Support.fake("ok"))
    func say(_ key: String, _ value: some Any) {
      print("@\(key) \(value)")
      fflush(nil)
    }
    switch try #require(Self.role) {
    case .ignoreChildren: signal(SIGCHLD, SIG_IGN)
    case .waitForAny:
      Thread.detachNewThread {
        while true {
          while waitpid(-1, nil, 0) > 0 {}
          usleep(1000)
        }
      }
    default: break
    }
    let child = try await engine.withEndpoint { endpoint in
      try await Support.expectAnswer(from: endpoint)
      say(
        "folder",
        URL(filePath: try #require(endpoint.unixSocketPath))
          .deletingLastPathComponent().path)
      return try #require(engine.processID)
    }
    say("child", child)
    switch try #require(Self.role) {
    case .stay: try await Task.sleep(for: .seconds(60))
    case .exit: exit(0)
    default:
      let error = await #expect(throws: EngineError.self) {
        try await engine.withEndpoint { endpoint in
          async let answer = Support.get("/hang", from: endpoint)
          try await Task.sleep(for: .milliseconds(100))
          kill(child, SIGKILL)
          _ = try await answer
        }
      }
      say("error", error?.kind.rawValue ?? "none")
      let second = try await engine.withEndpoint { endpoint in
        try await Support.expectAnswer(from: endpoint)
        return try #require(engine.processID)
      }
      say("second", second)
      Engine.stopAll()
      say("stopped", Support.isAlive(second) ? "no" : "yes")
    }
  }

  private func stopAllEndsEveryChild() async throws {
    var children: [Int32] = []
    // One that obeys, one that ignores SIGTERM, one with a child of its own, one that starts.
    let shell = ["/bin/sh", "-c", "\"$@\" & wait", "sh"]
    var wrapped = try Support.fake("ok")
    wrapped.command = shell + wrapped.command
    for configuration in [try Support.fake("ok"), try Support.fake("deaf"), wrapped] {
      let engine = Engine.shared(configuration)
      let info = try await engine.withEndpoint { try await Support.get("/info", from: $0) }
      children.append(Int32(try #require(info["pid"]?.intValue)))
      children.append(try #require(engine.processID))
    }
    let starting = Engine.shared(try Support.fake("never"))
    let waiter = Task { try await starting.withEndpoint { _ in } }
    try await Task.sleep(for: .milliseconds(500))

    let begin = ContinuousClock.now
    Engine.stopAll()
    #expect(ContinuousClock.now - begin < .seconds(4))
    for child in children { #expect(!Support.isAlive(child)) }
    let error = await #expect(throws: EngineError.self) { try await waiter.value }
    #expect(error?.message.contains("stopped") == true)
    Engine.stopAll()
  }

  private func leaksNothing() async throws {
    func round() async throws {
      let engine = Engine.shared(try Support.fake("ok"))
      let child = try await engine.withEndpoint { endpoint in
        _ = try await Support.get("/hello", from: endpoint)
        return try #require(engine.processID)
      }
      Engine.stopAll()
      #expect(!Support.exists(child))
      _ = try await Support.failure(of: try Support.fake("exit"))
      _ = try await Support.failure(
        of: EngineConfiguration(command: ["/nonexistent"], modelPath: "m"))
    }
    try await round()
    try await Task.sleep(for: .milliseconds(200))
    let before = try Support.openDescriptors()
    for _ in 0..<20 { try await round() }
    // Connections that the client keeps are closed when it notices that their server is gone.
    var after = 0
    _ = try await Support.eventually(within: 3) {
      after = (try? Support.openDescriptors()) ?? .max
      return after <= before
    }
    #expect(after <= before + 4)
  }

  @Test(arguments: ["stopAll", "count"])
  func endsWhatItStarted(role: String) async throws {
    let (process, output) = try host(try #require(Role(rawValue: role)))
    let said = try await Support.offPool {
      String(decoding: output.readDataToEndOfFile(), as: UTF8.self)
    }
    try await Support.offPool { process.waitUntilExit() }
    #expect(process.terminationStatus == 0, "\(said)")
    #expect(said.contains("@end of the play"), "\(said)")
  }

  @Test(arguments: [SIGKILL, SIGTERM]) func theChildDiesWithItsParent(signal: Int32) async throws {
    let (process, output) = try host(.stay)
    let child = try #require(
      try await read(output, until: "child")["child"].flatMap { Int32($0) })
    #expect(Support.isAlive(child))
    kill(process.processIdentifier, signal)
    #expect(try await Support.eventually(within: 2) { !Support.isAlive(child) })
    try await Support.offPool { process.waitUntilExit() }
  }

  @Test func anOrdinaryExitTakesTheChildAndItsFolderAlong() async throws {
    let (process, output) = try host(.exit)
    let values = try await read(output, until: "child")
    try await Support.offPool { process.waitUntilExit() }
    #expect(process.terminationStatus == 0)
    let child = try #require(values["child"].flatMap { Int32($0) })
    let folder = try #require(values["folder"])
    #expect(try await Support.eventually(within: 2) { !Support.isAlive(child) })
    #expect(!FileManager.default.fileExists(atPath: folder))
  }

  @Test(arguments: ["ignoreChildren", "waitForAny"])
  func worksInAHostThatTakesTheStatusOfChildren(role: String) async throws {
    let (process, output) = try host(try #require(Role(rawValue: role)))
    let values = try await read(output, until: "stopped")
    try await Support.offPool { process.waitUntilExit() }
    #expect(values["error"] == "died")
    #expect(values["second"] != nil && values["second"] != values["child"])
    #expect(values["stopped"] == "yes")
    #expect(process.terminationStatus == 0)
  }
}
