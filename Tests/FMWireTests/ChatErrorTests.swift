import Foundation
import Testing

@testable import FMWire

extension NetworkTests {
  /// Every way in which a server does not answer, over a real connection.
  @Suite struct ChatErrorTests {
    let server = ScriptedServer.shared

    func error(
      _ scenario: String, client: ChatCompletionsClient? = nil
    ) async throws -> (WireError, [ChatEvent]) {
      let (events, error) = await collect(client ?? server.client(), ScriptedServer.body(scenario))
      return (
        try #require(error as? WireError, "\(scenario): \(String(describing: error))"), events
      )
    }

    @Test(arguments: [
      ("openai", "it broke"), ("llamacpp", "it broke"), ("string", "it broke"),
      ("vllm", "it broke"),
      ("nest", "it broke"), ("detail", "it broke"), ("detail-list", "it broke"),
      ("html", "500 it broke"), ("text", "it broke"), ("empty", "nothing more"),
    ])
    func readsErrorBodies(_ shape: String, _ words: String) async throws {
      let (error, _) = try await error("error?status=500&message=it%20broke&shape=" + shape)
      #expect(error.kind == .server)
      #expect(error.httpStatus == 500)
      #expect(error.message.contains("answered 500"))
      #expect(error.message.hasSuffix(": " + words))
      #expect(error.message.contains(server.baseURL))
      #expect(error.url == server.baseURL + "/v1/chat/completions")
      #expect(error.body?.contains("it broke") ?? false || shape == "empty")
    }

    @Test(arguments: [
      ("unauthorized", WireError.Kind.authentication, 401), ("forbidden", .authentication, 403),
      ("no-model", .notFound, 404), ("no-endpoint", .notFound, 404),
      ("too-large", .requestTooLarge, 413), ("rate-limit", .rateLimited, 429),
      ("overloaded", .server, 503), ("no-images", .imagesUnsupported, 500),
      ("html?status=502", .server, 502), ("html?status=400", .invalidResponse, 400),
      ("html?status=403", .authentication, 403),
      ("error?status=400&code=rate_limit_exceeded", .rateLimited, 400),
      ("error?status=400&message=payload%20too%20large", .requestTooLarge, 400),
    ])
    func mapsStatus(_ scenario: String, _ kind: WireError.Kind, _ status: Int) async throws {
      let (error, _) = try await error(scenario)
      #expect(error.kind == kind)
      #expect(error.httpStatus == status)
      #expect(!error.message.contains("\n"))
    }

    @Test func readsRetryAfter() async throws {
      #expect(try await error("rate-limit").0.retryAfter == 2)
      #expect(try await error("error?status=503&retry_after=1.5").0.retryAfter == 1.5)
      let date = try await error("rate-limit?retry_after=date30").0.retryAfter
      #expect(25...31 ~= (date ?? 0))
      #expect(try await error("rate-limit?retry_after=date-100").0.retryAfter == 0)
      #expect(try await error("rate-limit?retry_after=soon").0.retryAfter == nil)
      #expect(RetryAfter.epochSeconds(ofDate: "Sun, 06 Nov 1994 08:49:37 GMT") == 784_111_777)
    }

    /// Texts of all servers, with both numbers where they tell them, whatever the status.
    @Test(
      arguments: [
        ("llamacpp", true), ("llamacpp-text", false), ("llamacpp-numbers", true),
        ("vllm-maximum", true), ("vllm-decoder", true), ("vllm-prompt", true), ("vllm-total", true),
        ("lmstudio", false), ("ollama", false), ("apple", false), ("apple-numbers", true),
      ], ["", "&status=500", "&status=200", "&midstream=1"])
    func knowsOverflows(_ which: (String, Bool), _ how: String) async throws {
      let (error, _) = try await error("overflow?which=\(which.0)&prompt=5123&context=4096" + how)
      #expect(error.kind == .contextSizeExceeded)
      #expect(error.tokenCount == (which.1 ? 5123 : nil))
      #expect(error.contextSize == (which.1 ? 4096 : nil))
    }

    @Test(arguments: [
      "field", "event", "event-object", "event-text", "object", "string", "vllm",
    ])
    func endsAtMidstreamErrors(_ spelling: String) async throws {
      let start = ContinuousClock.now
      let (error, events) = try await error("midstream-error?spelling=" + spelling)
      #expect(error.kind == .server)
      #expect(error.message.hasSuffix("reported an error: the GPU went away"))
      // The server keeps the stream open: the error must end it on this side.
      #expect(ContinuousClock.now - start < .seconds(5))
      #expect(events.text == "The quick")
    }

    @Test func readsPlainTextErrors() async throws {
      let (error, _) = try await error(
        "midstream-error?spelling=plain&message=Number%20of%20choices%20is%20wrong")
      #expect(error.kind == .invalidResponse)
      #expect(error.message.contains("Number of choices is wrong"))
      let (overflow, _) = try await self.error(
        "midstream-error?spelling=plain&message=Context%20size%20has%20been%20exceeded")
      #expect(overflow.kind == .contextSizeExceeded)
    }

    @Test(arguments: ["openai", "string", "vllm", "llamacpp"])
    func readsErrorsOfStatus200(_ shape: String) async throws {
      let (error, events) = try await error("ok-with-error?shape=" + shape)
      #expect(error.kind == .server)
      #expect(error.message.hasSuffix("reported an error: broken"))
      #expect(events.isEmpty)
    }

    @Test(arguments: ["eof", "no-bytes", "broken-off", "broken-off?how=reset"])
    func knowsAnswersThatEndEarly(_ scenario: String) async throws {
      let (error, events) = try await error(scenario)
      #expect(error.kind == .endedEarly)
      #expect(events.text == (scenario == "no-bytes" ? "" : "The quick brown"))
    }

    @Test func refusesWhatIsNoJSON() async throws {
      let (chunk, events) = try await error("bad-chunk")
      #expect(chunk.kind == .invalidResponse)
      #expect(chunk.message.contains(#"{"choices":[{"delta":{"content":"x"}"#))
      #expect(events.text == "Hi")
      let (garbage, _) = try await error("garbage")
      #expect(garbage.kind == .invalidResponse)
      let (object, _) = try await error("garbage?text=%7B%22a%22:1%7D")
      #expect(object.kind == .invalidResponse)
      let (page, _) = try await error("html")
      #expect(page.kind == .invalidResponse)
      #expect(page.message.contains("Sign in &amp; go"))
      let (cut, _) = try await error("short-body")
      #expect(cut.kind == .endedEarly)
    }

    @Test func refusesGiantLines() async throws {
      let (error, _) = try await error("giant-line")
      #expect(error.kind == .invalidResponse)
      #expect(error.message.contains("8388608"))
    }

    @Test func followsNoRedirects() async throws {
      let (error, _) = try await error("redirect?to=http://127.0.0.1:9/other%3Fkey=1")
      #expect(error.kind == .server)
      #expect(error.httpStatus == 307)
      #expect(error.message.contains("http://127.0.0.1:9/other"))
      #expect(!error.message.contains("key=1"))
    }

    /// A server may repeat a key or a picture; messages must not.
    @Test func hidesSecrets() async throws {
      let picture = String(repeating: "QUJD", count: 100)
      let client = server.client(apiKey: "sk-secret-9", headers: ["X-Token": "tok-12345"])
      let (error, _) = try await error(
        "error?status=401&message=bad%20key%20sk-secret-9%20or%20tok-12345%20for%20"
          + "data:image/png;base64,\(picture)", client: client)
      for text in [error.message, error.body ?? ""] {
        #expect(!text.contains("sk-secret-9"))
        #expect(!text.contains("tok-12345"))
        #expect(!text.contains(picture))
        #expect(text.contains("bad key [secret] or [secret] for data:image/png;base64,..."))
      }
    }
  }
}
