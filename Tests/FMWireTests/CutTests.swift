import Foundation
import Testing

@testable import FMWire

extension NetworkTests {
  /// Every answer, cut off after each byte: the call ends soon, with what came before and an error
  /// that fits, and never passes for complete.
  @Suite struct CutTests {
    /// Of these tests alone, which run one after the other.
    private static let server = ScriptedServer()
    private var server: ScriptedServer { Self.server }

    /// None of these waits for anything by itself.
    static let scenarios = [
      "echo", "plain?reasoning=Hm", "fast-stream?chunks=4",
      "fast-stream?chunks=3&eol=crlf&comments=1",
      "fast-stream?chunks=3&eol=cr&bom=1", "fast-stream?chunks=3&done=0&final_blank=0",
      "fast-stream?chunks=3&finish=none&usage=absent", "fast-stream?chunks=2&usage=with-finish",
      "until-close?chunks=3", "reasoning", "refusal", "content-parts", "comment-as-data",
      "empty", "eof", "error?status=400", "error?status=503&shape=html",
      "error?status=500&shape=string",
      "unauthorized", "no-model", "too-large", "rate-limit", "overloaded", "no-images", "redirect",
      "ok-with-error", "ok-with-error?shape=string", "overflow", "overflow?which=vllm-decoder",
      "midstream-error?hang=0", "midstream-error?hang=0&spelling=field",
      "midstream-error?hang=0&spelling=event-text", "bad-chunk?hang=0", "garbage", "html",
    ]

    struct Outcome: Equatable {
      var text = ""
      var reasoning = ""
      var isFinished = false
      var kind: WireError.Kind?
    }

    func run(_ scenario: String) async throws -> Outcome {
      let client = server.client(
        headers: ["Connection": "close"], timeouts: HTTPTimeouts(firstByte: 10, idle: 10))
      let (events, error) = await collect(client, ScriptedServer.body(scenario))
      let failure = try error.map { try #require($0 as? WireError, "\(scenario): \($0)") }
      return Outcome(
        text: events.text, reasoning: events.reasoning, isFinished: !events.finishReasons.isEmpty,
        kind: failure?.kind)
    }

    private func cut(_ scenario: String, after bytes: Int, _ how: String) -> String {
      scenario + (scenario.contains("?") ? "&" : "?") + "cut=\(bytes)&cut_how=\(how)"
    }

    private func check(_ outcome: Outcome, _ whole: Outcome, _ name: String) {
      #expect(whole.text.hasPrefix(outcome.text), "\(name): \(outcome)")
      #expect(whole.reasoning.hasPrefix(outcome.reasoning), "\(name): \(outcome)")
      switch outcome.kind {
      case nil:
        // As good as whole: only what comes after the finish reason may be missing, or, where the
        // connection's end is the answer's, nothing.
        #expect(outcome.text == whole.text && whole.kind == nil, "\(name): \(outcome)")
        #expect(outcome.isFinished || !whole.isFinished, "\(name): \(outcome)")
      case .connect?, .endedEarly?, whole.kind: break
      // Cut JSON and cut events; an error's status without its words.
      case .invalidResponse?, .server?: break
      default:
        Issue.record("\(name): \(outcome)")
      }
    }

    /// Those of the server's table of findings, but for those that rest.
    private func findings() async throws -> [String] {
      let (_, body) = try await HTTPClient.shared.send(
        HTTPRequest(method: "GET", url: server.baseURL + "/_findings"))
      let all = try #require(JSONValue(parsing: body).arrayValue).compactMap(\.stringValue)
      try #require(all.count > 30)
      return all.filter { !$0.hasPrefix("hang") && !Self.scenarios.contains($0) }
    }

    @Test func answersCutAnywhereEndWell() async throws {
      let isSoak = ProcessInfo.processInfo.environment["OPENFM_SOAK"] == "1"
      var random = SeededGenerator(state: 20_260)
      for scenario in Self.scenarios + (try await findings()) {
        let whole = try await run(scenario)
        let log = try await server.log()
        let length = try #require(
          log.last { $0["path"] == "/v1/chat/completions" }?["wire_bytes"]?.intValue)
        try #require(length > 100, "\(scenario)")
        let places =
          isSoak
          ? Array(0..<length) : (0..<12).map { _ in Int.random(in: 0..<length, using: &random) }
        for place in places {
          let how = place % 3 == 0 ? "reset" : "close"
          let name = cut(scenario, after: place, how)
          check(try await run(name), whole, name)
        }
        try await server.clear()
      }
      // The way is free for others.
      #expect(try await run("echo").text == "Hello")
    }
  }
}
