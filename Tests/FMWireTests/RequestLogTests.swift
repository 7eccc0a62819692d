import Foundation
import Synchronization
import Testing

@testable import FMWire

@Suite struct RequestRecordTests {
  static var record: RequestRecord {
    var record = RequestRecord(
      method: "POST", url: "http://h/v1/chat/completions", model: "m",
      images: [.init(width: 640, height: 480, byteCount: 1234)])
    record.status = 200
    record.requestBytes = 10
    record.responseBytes = 20
    record.secondsToHead = 0.0125
    record.secondsToFirstToken = 0.5
    record.secondsToEnd = 1
    record.retries = 1
    record.usage = ChatUsage(promptTokens: 5, completionTokens: 7, cachedPromptTokens: 3)
    record.finishReason = "stop"
    return record
  }

  @Test func isOneLine() {
    #expect(
      Self.record.line
        == "POST http://h/v1/chat/completions model=m status=200 sent=10B received=20B "
        + "images=1(640x480/1234B) head=12.5ms first=500.0ms end=1000.0ms retries=1 "
        + "tokens=5+7,cached=3 finish=stop")
    var odd = RequestRecord(method: "POST", url: "http://h/", model: "two\nlines \"x\"")
    odd.failure = "connect"
    #expect(
      odd.line
        == #"POST http://h/ model="two\nlines \"x\"" sent=0B received=0B end=0.0ms retries=0 "#
        + "failure=connect")
    #expect(!odd.line.contains("\n"))
  }

  @Test func writesUnknownAsNull() throws {
    let json = RequestRecord(method: "GET", url: "http://h/").json
    for member in ["model", "status", "seconds_to_head", "seconds_to_first_token", "failure"] {
      #expect(json[member] == .null, "\(member)")
    }
    #expect(json["tokens"]?["prompt"] == .null)
    #expect(Self.record.json["tokens"]?["cached"] == 3)
    #expect(Self.record.json["tokens"]?["reasoning"] == .null)
    #expect(Self.record.json["images"]?.arrayValue?.first?["byte_count"] == 1234)
  }

  @Test func keepsTheNewest() {
    let log = RequestLog(printsLines: false)
    #expect(!log.isOn)
    log.keep(true)
    #expect(log.isOn)
    for count in 0..<2500 {
      var record = Self.record
      record.retries = count
      log.emit(record)
    }
    let kept = log.take()
    #expect(kept.count <= 1000)
    #expect(kept.last?.retries == 2499)
    #expect(log.take().isEmpty)
    log.keep(false)
    #expect(!log.isOn)
  }

  @Test func tellsPicturesByTheirHashes() throws {
    // printf %s Hello | sha256sum
    let body = #"{"url":"data:image/png;base64,SGVsbG8=","x":"data:;base64,"}"#
    let text = String(decoding: PictureHashes.inPlace(of: Array(body.utf8)), as: UTF8.self)
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    #expect(
      text
        == #"{"url":"data:image/png;sha256,"#
        + "185f8db32271fe25f561a6fc938b2e264306ec304eda518007d1764826381969;bytes=5"
        + #"","x":"data:;sha256,\#(empty);bytes=0"}"#)
  }
}

extension NetworkTests {
  /// One request after another: the log and the recorder are the process's.
  @Suite(.serialized) struct RequestLogTests {
    let server = ScriptedServer.shared

    /// The records of what `body` sends, of this test's own requests: by the model's name.
    func records(
      of tag: String, _ body: () async -> Void
    ) async -> [RequestRecord] {
      let seen = Mutex<[RequestRecord]>([])
      RequestLog.shared.setHandler { record in seen.withLock { $0.append(record) } }
      await body()
      RequestLog.shared.setHandler(nil)
      return seen.withLock { $0.filter { $0.model == tag } }
    }

    func send(_ scenario: String, tag: String, apiKey: String? = nil, path: String = "") async {
      let client = server.client(path, apiKey: apiKey)
      _ = try? await client.stream(
        body: ScriptedServer.body(scenario),
        about: .init(model: tag, images: [.init(width: 4, height: 3, byteCount: 99)])
      ) { _ in }
    }

    @Test func tellsWhatARequestWas() async throws {
      let records = await records(of: "told") {
        await send("fast-stream?chunks=3&cached=2&first_delay=0.05", tag: "told")
      }
      let record = try #require(records.first)
      #expect(records.count == 1)
      #expect(record.url == "\(server.baseURL)/v1/chat/completions")
      #expect(record.status == 200)
      #expect(record.images.count == 1)
      #expect(record.requestBytes > 50 && record.responseBytes > 500)
      let head = try #require(record.secondsToHead)
      let first = try #require(record.secondsToFirstToken)
      #expect(0 < head && head <= first && first <= record.secondsToEnd)
      #expect(
        record.usage
          == ChatUsage(promptTokens: 5, completionTokens: 3, cachedPromptTokens: 2))
      #expect(record.finishReason == "stop")
      #expect(record.failure == nil)
    }

    @Test(arguments: [
      ("error?status=400", "server", 400), ("unauthorized", "authentication", 401),
      ("eof", "endedEarly", 200), ("midstream-error", "server", 200),
    ])
    func tellsFailures(_ scenario: String, _ failure: String, _ status: Int) async throws {
      let records = await records(of: "failing") { await send(scenario, tag: "failing") }
      #expect(records.map(\.failure) == [failure])
      #expect(records.first?.status == status)
    }

    @Test func tellsCancelledRequests() async {
      let records = await records(of: "cancelled") {
        let task = Task { await send("hang-midstream", tag: "cancelled") }
        try? await Task.sleep(for: .milliseconds(200))
        task.cancel()
        await task.value
      }
      #expect(records.map(\.failure) == ["cancelled"])
    }

    @Test func recordsWithoutKeysAndPictures() async throws {
      let path = NSTemporaryDirectory() + "openfm-\(UUID().uuidString).jsonl"
      defer { unlink(path) }
      try RequestRecorder.shared.record(to: path)
      let client = server.client(
        apiKey: "secret-key-123", headers: ["X-Api-Key": "another-secret"])
      var writer = JSONWriter()
      writer.value([
        "model": "scenario:text?text=secret-key-123", "stream": true,
        "messages": [
          [
            "role": "user",
            "content": [
              ["type": "text", "text": "my key is another-secret"],
              ["type": "image_url", "image_url": ["url": "data:image/png;base64,SGVsbG8="]],
            ],
          ]
        ],
      ])
      _ = try await client.stream(body: writer.body, about: .init(model: "recorded")) { _ in }
      try RequestRecorder.shared.record(to: nil)
      _ = try await client.stream(body: writer.body) { _ in }
      let text = try String(contentsOfFile: path, encoding: .utf8)
      let lines = try text.split(separator: "\n").map { try JSONValue(parsing: String($0)) }
        .filter { $0["record"]?["model"] == "recorded" }
      #expect(lines.count == 1)
      let line = try #require(lines.first)
      let parts = line["request"]?["messages"]?.arrayValue?.first?["content"]?.arrayValue
      let url = parts?.last?["image_url"]?["url"]?.stringValue
      #expect(url?.hasPrefix("data:image/png;sha256,185f8db3") == true)
      #expect(line["response"]?.stringValue?.hasPrefix("data: {") == true)
      #expect(line["record"]?["status"] == 200)
      for secret in ["secret-key-123", "another-secret", "SGVsbG8="] {
        #expect(!text.contains(secret))
      }
      var status = stat()
      #expect(stat(path, &status) == 0 && status.st_mode & 0o777 == 0o600)
    }

    @Test func saysWhereItCannotRecord() {
      let error = #expect(throws: RequestRecorder.RecorderError.self) {
        try RequestRecorder.shared.record(to: "/nowhere/at/all")
      }
      #expect(error?.message.contains("/nowhere/at/all") == true)
    }
  }
}
