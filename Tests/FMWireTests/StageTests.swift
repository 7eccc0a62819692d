import Foundation
import Testing

@testable import FMWire

extension NetworkTests {
  /// Each step of a request made to fail in turn: the error names the step, and the next request on
  /// the same client works.
  @Suite struct StageTests {
    private static let server = ScriptedServer()
    private var server: ScriptedServer { Self.server }

    enum Stage: CaseIterable {
      case name, connect, tls, send, head, body
    }

    @Test(arguments: Stage.allCases)
    func failsAtItsStepAndRecovers(_ stage: Stage) async throws {
      var endpoint = Endpoint(baseURL: server.baseURL, retry: .none)
      var body = ScriptedServer.body("echo")
      let kind: WireError.Kind
      let words: String
      switch stage {
      case .name:
        endpoint.baseURL = "http://no-such-host.invalid"
        (kind, words) = (.connect, "cannot find the host no-such-host.invalid")
      case .connect:
        endpoint.baseURL = "http://127.0.0.1:1"
        (kind, words) = (.connect, "Connection refused")
      case .tls:
        endpoint.baseURL = "https://127.0.0.1:\(server.port)"
        endpoint.certificateFile = "/etc/ssl/certs/ca-certificates.crt"
        (kind, words) = (.tls, "does not speak TLS")
      case .send:
        body = ScriptedServer.body("echo", text: String(repeating: "x", count: 8 << 20))
        endpoint.headers["X-Refuse-Body"] = "reset"
        (kind, words) = (.connect, server.baseURL)
      case .head:
        body = ScriptedServer.body("echo?cut=30")
        (kind, words) = (.connect, "in the midst of its answer's head")
      case .body:
        body = ScriptedServer.body("fast-stream?chunks=3&cut=600")
        (kind, words) = (.endedEarly, "broke its answer off")
      }
      for _ in 0..<3 {
        let (_, error) = await collect(ChatCompletionsClient(endpoint: endpoint), body)
        let failure = try #require(error as? WireError, "\(stage): \(String(describing: error))")
        #expect(failure.kind == kind, "\(stage): \(failure)")
        #expect(failure.message.contains(words), "\(failure.message)")
        #expect(failure.attempts.count == 1)
        let (events, none) = await collect(server.client(), ScriptedServer.body("echo"))
        #expect(none == nil)
        #expect(events.text == "Hello")
      }
    }

    /// A server that says no while the request is still being sent is heard, whether it then reads
    /// on, waits or hangs up.
    @Test(arguments: ["413", "413-close"])
    func hearsAnEarlyRefusal(_ how: String) async throws {
      let body = ScriptedServer.body("echo", text: String(repeating: "x", count: 24 << 20))
      let client = server.client(headers: ["X-Refuse-Body": how])
      var heard = 0
      for _ in 0..<8 {
        let start = ContinuousClock.now
        let (_, error) = await collect(client, body)
        #expect(ContinuousClock.now - start < .seconds(10))
        let failure = try #require(error as? WireError)
        if failure.kind == .requestTooLarge {
          heard += 1
          #expect(failure.httpStatus == 413)
          #expect(failure.message.contains("the request had \(body.count) bytes"))
        } else {
          // Hanging up throws away what the other side has not read, which may be the answer.
          #expect(failure.kind == .connect && how == "413-close", "\(failure)")
        }
      }
      #expect(heard >= (how == "413" ? 8 : 1))
    }

    @Test func sendsLargeBodiesWithoutACopy() async throws {
      var body = [UInt8](repeating: UInt8(ascii: " "), count: 64 << 20)
      body[0] = UInt8(ascii: "1")
      let request = HTTPRequest(method: "POST", url: server.url("ok"), body: RequestBody(body))
      _ = try await HTTPClient.shared.send(request)
      let before = try Self.resetPeak()
      let (head, _) = try await HTTPClient.shared.send(request)
      #expect(head.status == 200)
      let growth = try Self.status("VmHWM") - before
      #expect(growth < 16 << 10, "\(growth) KiB more for a body of 64 MiB")
    }

    /// KiB resident now, from where the peak counts on.
    private static func resetPeak() throws -> Int {
      try "5".write(toFile: "/proc/self/clear_refs", atomically: false, encoding: .utf8)
      return try status("VmRSS")
    }

    private static func status(_ name: String) throws -> Int {
      let text = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
      let line = try #require(text.split(separator: "\n").first { $0.hasPrefix(name + ":") })
      return try #require(
        line.split(separator: " ").dropFirst().first.flatMap { Int($0) }
          ?? line.split(whereSeparator: { !$0.isNumber }).first.flatMap { Int($0) })
    }
  }
}
