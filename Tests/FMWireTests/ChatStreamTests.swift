import Foundation
import Synchronization
import Testing

@testable import FMWire

extension NetworkTests {
  /// Answers of every good shape, over a real connection.
  @Suite struct ChatStreamTests {
    let server = ScriptedServer.shared
    let words = "The quick brown fox jumps over the lazy dog while"

    @Test func streamsTextFinishAndUsage() async {
      let (events, error) = await collect(
        server.client(), ScriptedServer.body("fast-stream?chunks=10"))
      #expect(error == nil)
      #expect(events.text == words)
      #expect(events.finishReasons == ["stop"])
      #expect(events.usages == [ChatUsage(promptTokens: 5, completionTokens: 10)])
    }

    /// The same answer whatever the line ends, the cuts, the noise and the missing ends.
    @Test(arguments: [
      "eol=crlf", "eol=cr", "split=1", "split=1&eol=crlf", "split=3&comments=1", "split=7&eol=cr",
      "comments=1", "done=0", "final_blank=0", "final_blank=0&final_eol=0", "bom=1&split=1",
      "space=0", "batch=100", "finish=none&usage=absent", "usage=null", "usage=with-finish",
      "ascii=1", "role=0", "done=0&final_blank=0&eol=crlf",
    ])
    func toleratesStyle(_ options: String) async {
      let (events, error) = await collect(
        server.client(), ScriptedServer.body("fast-stream?chunks=10&" + options))
      #expect(error == nil)
      #expect(events.text == words)
      #expect(events.finishReasons == (options.contains("finish=none") ? [] : ["stop"]))
      let hasUsage = !options.contains("usage=absent") && !options.contains("usage=null")
      #expect(events.usages.count == (hasUsage ? 1 : 0))
    }

    @Test func readsTextOverAllUnicode() async {
      let (events, error) = await collect(
        server.client(), ScriptedServer.body("fast-stream?chunks=30&split=1"))
      #expect(error == nil)
      #expect(events.text.contains("— naïve façade, 東京 🦊 done."))
    }

    @Test func readsUsageDetails() async {
      let (events, _) = await collect(
        server.client(), ScriptedServer.body("fast-stream?chunks=1&cached=3&reasoning_tokens=7"))
      #expect(
        events.usages == [
          ChatUsage(
            promptTokens: 5, completionTokens: 1, cachedPromptTokens: 3, reasoningTokens: 7)
        ])
    }

    @Test(arguments: ["reasoning", "reasoning_content"])
    func keepsReasoningApart(_ field: String) async {
      let (events, error) = await collect(
        server.client(), ScriptedServer.body("reasoning?field=" + field))
      #expect(error == nil)
      #expect(events.reasoning == "I think, therefore.")
      #expect(events.text == "Yes.")
    }

    @Test func readsRefusals() async {
      let (events, error) = await collect(server.client(), ScriptedServer.body("refusal"))
      #expect(error == nil)
      #expect(events.refusal == "I cannot do that.")
      #expect(events.text == "")
    }

    @Test func readsContentParts() async {
      let (events, error) = await collect(server.client(), ScriptedServer.body("content-parts"))
      #expect(error == nil)
      #expect(events.text == "Hello")
    }

    @Test(arguments: ["", "&content=parts"])
    func readsPlainCompletions(_ options: String) async {
      let (events, error) = await collect(
        server.client(), ScriptedServer.body("plain?reasoning=Hm.&refusal=No" + options))
      #expect(error == nil)
      #expect(
        events == [
          .reasoning("Hm."), .text("Hello, world!"), .refusal("No"), .finish(reason: "stop"),
          .usage(ChatUsage(promptTokens: 5, completionTokens: 2)),
        ])
    }

    @Test func readsBodiesThatEndWithTheConnection() async {
      let (events, error) = await collect(
        server.client(), ScriptedServer.body("until-close?chunks=10"))
      #expect(error == nil)
      #expect(events.text == words)
    }

    /// No text at all is an answer, which the caller judges.
    @Test func passesEmptyAnswersOn() async {
      let (events, error) = await collect(server.client(), ScriptedServer.body("empty"))
      #expect(error == nil)
      #expect(
        events == [
          .finish(reason: "stop"), .usage(ChatUsage(promptTokens: 5, completionTokens: 0)),
        ])
    }

    /// A server that refuses `stream_options` is asked again without, once; from then on at once.
    @Test(arguments: ["status=400", "status=422&message=extra+fields:+stream_options"])
    func toleratesThatUsageIsRefused(_ options: String) async throws {
      let own = ScriptedServer()
      let scenario = "scenario:no-stream-options?" + options
      var writer = JSONWriter()
      writer.value([
        "model": .string(scenario), "stream": true, "stream_options": ["include_usage": true],
        "messages": [["role": "user", "content": .string(UsageRequest.member)]],
        "user": "after",
      ])
      let body = writer.body
      let text = Mutex("")
      for _ in 0..<2 {
        text.withLock { $0 = "" }
        _ = try await own.client().stream(body: body) { events in
          text.withLock { $0 += events.text }
        }
        #expect(text.withLock { $0 } == "Hello, world!")
      }
      let log = try await own.log().filter { $0["method"] == "POST" }
      #expect(log.map { $0["body"]?["stream_options"] == nil } == [false, true, true])
      // The text that looks like the member is left alone.
      for entry in log {
        let message = entry["body"]?["messages"]?.arrayValue?.first
        #expect(message?["content"]?.stringValue == UsageRequest.member)
        #expect(entry["body"]?["user"] == "after")
      }
    }

    @Test func skipsCommentsWrappedAsData() async {
      let (events, error) = await collect(server.client(), ScriptedServer.body("comment-as-data"))
      #expect(error == nil)
      #expect(events.text == "Hi")
    }

    @Test func sendsTheRequestAsPromised() async throws {
      let client = server.client(
        apiKey: "key-1234\n", headers: ["accept": "text/event-stream, */*", "X-Mine": "yes"])
      let (events, error) = await collect(client, ScriptedServer.body("echo", tag: "as-promised"))
      #expect(error == nil)
      #expect(events.text == "Hello")
      let entry = try #require(try await server.entry(tag: "as-promised"))
      let headers = try #require(entry["headers"])
      #expect(entry["path"] == "/v1/chat/completions")
      #expect(headers["content-type"] == "application/json")
      #expect(headers["accept"] == "text/event-stream, */*")
      #expect(headers["authorization"] == "Bearer key-1234")
      #expect(headers["x-mine"] == "yes")
      #expect(headers["user-agent"] == "openfm/0.1.0")
      #expect(headers["expect"] == nil)
    }

    @Test func talksToUnixSockets() async {
      let client = ChatCompletionsClient(
        endpoint: Endpoint(
          baseURL: "http://localhost", unixSocketPath: server.unixSocketPath))
      let (events, error) = await collect(
        client, ScriptedServer.body("echo", text: "over a socket"))
      #expect(error == nil)
      #expect(events.text == "over a socket")
    }

    @Test func arrivesPieceByPiece() async throws {
      var arrivals: [ContinuousClock.Instant] = []
      let stream = try await server.client().stream(
        body: ScriptedServer.body("slow-stream?chunks=5&delay=0.1"))
      for try await event in stream {
        if case .text = event { arrivals.append(.now) }
      }
      #expect(arrivals.count == 5)
      #expect(arrivals.last! - arrivals.first! > .milliseconds(300))
    }
  }
}
