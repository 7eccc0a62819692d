import Testing

@testable import FMWire

extension NetworkTests {
  /// Which failures are tried again over a real connection, and what is told of it.
  @Suite struct RetryTests {
    static let quick = RetryPolicy(maximumRetries: 2, baseDelay: 0.02, maximumDelay: 0.05)
    /// Of these tests alone, which run one after the other.
    private static let server = ScriptedServer()
    private var server: ScriptedServer { Self.server }

    init() async throws { try await Self.server.clear() }

    /// Uses no connection twice: libcurl would replace a broken one unseen.
    func client(_ policy: RetryPolicy = quick, timeouts: HTTPTimeouts = HTTPTimeouts())
      -> ChatCompletionsClient
    {
      server.client(headers: ["Connection": "close"], timeouts: timeouts, retry: policy)
    }

    static func named(_ name: String, _ options: [String: JSONValue] = [:]) -> JSONValue {
      ["name": .string(name), "options": .object(JSONObject(options.map { ($0.key, $0.value) }))]
    }

    static let good = named("text", ["text": "fine"])

    struct Outcome {
      var events: [ChatEvent] = []
      var error: WireError?
      var attempts: [RequestAttempt] = []
      var rateLimits: [(name: String, value: String)] = []
    }

    func run(_ client: ChatCompletionsClient) async throws -> Outcome {
      var outcome = Outcome()
      do {
        let stream = try await client.stream(body: ScriptedServer.body("echo"))
        do {
          for try await event in stream { outcome.events.append(event) }
        } catch let error as WireError {
          outcome.error = error
        }
        outcome.attempts = stream.report.attempts
        outcome.rateLimits = stream.report.rateLimits
      } catch let error as WireError {
        outcome.error = error
        outcome.attempts = error.attempts
        outcome.rateLimits = error.rateLimits.map { ($0.name, $0.value) }
      }
      return outcome
    }

    func requestCount() async throws -> Int { try await server.log().count }

    @Test(arguments: [408, 425, 429, 500, 502, 503, 504, 529])
    func triesAgainWhatMayPass(_ status: Int) async throws {
      let bad = Self.named("error", ["status": .number(JSONNumber(status))])
      try await server.script(bad, bad, Self.good)
      let outcome = try await run(client())
      #expect(outcome.error == nil)
      #expect(outcome.events.text == "fine")
      #expect(outcome.attempts.map(\.httpStatus) == [status, status, 200])
      #expect(outcome.attempts.map { $0.failure == nil } == [false, false, true])
      #expect(outcome.attempts.map { $0.delay == nil } == [false, false, true])
      #expect(outcome.attempts[0].message?.contains("\(status)") == true)
      #expect(outcome.attempts.allSatisfy { 0...5 ~= $0.duration })
      #expect(try await requestCount() == 3)
    }

    @Test func givesUpAfterTheLastRetry() async throws {
      let bad = Self.named("error", ["status": 503, "message": "busy"])
      try await server.script(bad, bad, bad, Self.good)
      let outcome = try await run(client())
      let error = try #require(outcome.error)
      #expect(error.kind == .server)
      #expect(error.httpStatus == 503)
      #expect(error.message.hasSuffix("busy"))
      #expect(error.attempts.count == 3)
      #expect(error.attempts.allSatisfy { $0.failure == .server && $0.httpStatus == 503 })
      #expect(error.attempts.last?.delay == nil)
      #expect(try await requestCount() == 3)
    }

    @Test func canBeTurnedOff() async throws {
      try await server.script(Self.named("error", ["status": 503]), Self.good)
      let outcome = try await run(client(.none))
      #expect(outcome.error?.httpStatus == 503)
      #expect(outcome.attempts.count == 1)
      #expect(try await requestCount() == 1)
    }

    /// The same request would fail in the same way.
    @Test(arguments: [
      named("error", ["status": 400]), named("unauthorized"), named("forbidden"),
      named("no-model"), named("too-large"), named("error", ["status": 422]),
      named("error", ["status": 501]), named("overflow", ["which": "llamacpp-text"]),
      named("no-images"), named("redirect"), named("garbage"), named("bad-chunk"), named("eof"),
      named("no-bytes"),
      named("error", ["status": 429, "code": "insufficient_quota"]),
      named("error", ["status": 500, "message": "Failed to parse grammar"]),
      named("error", ["status": 500, "type": "invalid_request_error", "shape": "llamacpp"]),
      ["status": 503, "headers": ["x-should-retry": "false"], "steps": []],
    ])
    func leavesWhatIsFinal(_ scenario: JSONValue) async throws {
      try await server.script(scenario, Self.good)
      let outcome = try await run(client())
      #expect(outcome.error != nil)
      #expect(outcome.error?.attempts.count == 1)
      #expect(try await requestCount() == 1)
    }

    @Test(arguments: ["reset", "close"])
    func triesAgainWhenTheConnectionBreaks(_ how: String) async throws {
      // Before the head, within it, and after it without a word of the answer.
      for scenario: JSONValue in [
        Self.named("reset-before", ["how": .string(how)]),
        ["no_head": true, "steps": [["raw": "HTTP/1.1 200 OK\r\nConte"], [how: true]]],
        [
          "headers": ["Content-Type": "text/event-stream"],
          "steps": [["text": ": hello\n\n"], ["wait": "0.02"], [how: true]],
        ],
      ] {
        try await server.script(scenario, Self.good)
        let outcome = try await run(client())
        #expect(outcome.error == nil, "\(how) \(scenario)")
        #expect(outcome.events.text == "fine")
        #expect(outcome.attempts.count == 2)
      }
    }

    @Test func takesNothingBack() async throws {
      try await server.script(Self.named("broken-off", ["how": "reset"]), Self.good)
      let outcome = try await run(client())
      #expect(outcome.error?.kind == .endedEarly)
      #expect(outcome.events.text == "The quick brown")
      #expect(outcome.error?.attempts.count == 1)
      #expect(outcome.error?.attempts.first?.failure == .endedEarly)
    }

    /// An error inside a good response counts like its status, as long as it comes first.
    @Test func triesAgainForErrorsInsideGoodAnswers() async throws {
      let busy: JSONValue = ["error": ["code": 503, "message": "Loading model"]]
      try await server.script(
        ["headers": ["Content-Type": "text/event-stream"], "steps": [["event": busy]]],
        ["steps": [["json": busy]]], Self.good)
      let outcome = try await run(client())
      #expect(outcome.events.text == "fine")
      #expect(outcome.attempts.count == 3)
      try await server.script(Self.named("midstream-error", ["hang": 0]), Self.good)
      #expect(try await run(client()).error?.attempts.count == 1)
    }

    @Test func triesConnectingAgain() async throws {
      let client = ChatCompletionsClient(
        endpoint: Endpoint(baseURL: "http://127.0.0.1:1", retry: Self.quick))
      let outcome = try await run(client)
      #expect(outcome.error?.kind == .connect)
      #expect(outcome.attempts.count == 3)
      #expect(outcome.attempts.allSatisfy { $0.httpStatus == nil && $0.failure == .connect })
    }

    @Test func waitsAsTheServerAsks() async throws {
      let policy = RetryPolicy(maximumRetries: 2, baseDelay: 0, maximumDelay: 0)
      try await server.script(
        Self.named("rate-limit", ["retry_after": "0.4"]),
        ["status": 429, "headers": ["retry-after-ms": "150"], "steps": []], Self.good)
      let start = ContinuousClock.now
      let outcome = try await run(client(policy))
      #expect(outcome.events.text == "fine")
      #expect(ContinuousClock.now - start >= .milliseconds(550))
      // A date counts whole seconds.
      try await server.script(
        Self.named("rate-limit", ["retry_after": "date2"]), Self.good)
      let dated = try await run(client(policy))
      #expect(dated.events.text == "fine")
      #expect(0.5...2.6 ~= (dated.attempts.first?.delay ?? 0))
      // Longer than the policy allows: the caller is told at once.
      try await server.script(
        Self.named("rate-limit", ["retry_after": "3600"]), Self.good)
      let long = try await run(client())
      #expect(long.error?.kind == .rateLimited)
      #expect(long.error?.retryAfter == 3600)
      #expect(long.attempts.count == 1)
    }

    @Test func staysWithinTheTotalLimit() async throws {
      let slow = Self.named("rate-limit", ["retry_after": "0.25"])
      try await server.script(slow, slow, slow, slow, slow, slow, Self.good)
      let start = ContinuousClock.now
      let outcome = try await run(
        client(
          RetryPolicy(maximumRetries: 50, baseDelay: 0, maximumDelay: 0),
          timeouts: HTTPTimeouts(total: 0.7)))
      // The server's own words, not a bare timeout.
      #expect(outcome.error?.kind == .rateLimited)
      #expect(2...4 ~= outcome.attempts.count)
      #expect(ContinuousClock.now - start < .seconds(2))
      // A retry that hangs has only the rest of the time.
      try await server.clear()
      try await server.script(
        Self.named("error", ["status": 503, "retry_after": "0.3"]), Self.named("hang-before"))
      let hung = try await run(
        client(
          RetryPolicy(maximumRetries: 5), timeouts: HTTPTimeouts(total: 0.8)))
      #expect(hung.error?.kind == .timeout)
      #expect(hung.error?.message.contains("within 0.8 s (total time limit)") == true)
      #expect(hung.attempts.count == 2)
    }

    @Test func stopsWaitingWhenCancelled() async throws {
      try await server.script(Self.named("rate-limit", ["retry_after": "30"]), Self.good)
      let task = Task { try await run(client()) }
      while try await requestCount() == 0 { try await Task.sleep(for: .milliseconds(10)) }
      try await Task.sleep(for: .milliseconds(100))
      let start = ContinuousClock.now
      task.cancel()
      await #expect(throws: CancellationError.self) { try await task.value }
      #expect(ContinuousClock.now - start < .seconds(1))
      #expect(try await requestCount() == 1)
    }

    @Test func tellsRateLimits() async throws {
      let headers: JSONValue = [
        "X-RateLimit-Remaining-Requests": "59", "x-ratelimit-reset-requests": "1s",
        "anthropic-ratelimit-tokens-remaining": "7", "Content-Type": "text/event-stream",
      ]
      let names = [
        "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests",
        "anthropic-ratelimit-tokens-remaining",
      ]
      try await server.script(
        [
          "headers": headers,
          "steps": [
            ["event": ["choices": [["delta": ["content": "x"], "finish_reason": "stop"]]]]
          ],
        ])
      let good = try await run(client())
      #expect(good.events.text == "x")
      #expect(good.rateLimits.map(\.name) == names)
      #expect(good.rateLimits.map(\.value) == ["59", "1s", "7"])
      try await server.script(["status": 400, "headers": headers, "steps": []])
      let bad = try await run(client())
      #expect(bad.error?.rateLimits.map(\.name) == names)
    }

    @Test func sendsTheBodyAgainWhole() async throws {
      let text = String(repeating: "longer than one buffer ", count: 100_000)
      try await server.script(Self.named("reset-before"), Self.named("echo"))
      let stream = try await client().stream(body: ScriptedServer.body("echo", text: text))
      var answer = ""
      for try await event in stream {
        if case .text(let more) = event { answer += more }
      }
      #expect(answer == text)
    }
  }
}
