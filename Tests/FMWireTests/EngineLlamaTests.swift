import Foundation
import Testing

@testable import FMWire

/// The bundled launcher with the real llama.cpp, the default text model and the shapes projector.
@Suite(.serialized, .timeLimit(.minutes(3))) struct EngineLlamaTests {
  private typealias Support = EngineTestSupport

  private func engine() async throws -> Engine {
    let resolved = EngineDiscovery.resolve(environment: [
      "OPENFM_ENGINE": "'\(try Support.python())' '\(Support.launcher)'",
      "OPENFM_MODEL_PATH": try await Support.model(), "OPENFM_MMPROJ_PATH": Support.projector,
      "OPENFM_CONTEXT": "2048", "OPENFM_THREADS": "1",
    ])
    return Engine.shared(try resolved.get())
  }

  private func complete(_ body: JSONValue, at endpoint: Endpoint) async throws -> JSONValue {
    var request = Support.request("POST", "/v1/chat/completions", endpoint)
    request.body = RequestBody(Array(body.jsonText.utf8))
    let (head, body) = try await HTTPClient.shared.send(request)
    try #require(head.status == 200, "\(String(decoding: body, as: UTF8.self))")
    return try JSONValue(parsing: body)
  }

  private func text(of answer: JSONValue) -> String? {
    answer["choices"]?.arrayValue?.first?["message"]?["content"]?.stringValue
  }

  private func ask(_ content: JSONValue, tokens: Int) -> JSONValue {
    let message: JSONValue = ["role": "user", "content": content]
    return ["messages": [message], "max_tokens": .number(JSONNumber(tokens)), "temperature": 0]
  }

  private let story: JSONValue = "Write a very long story about a lighthouse."

  @Test func answersTextAndPictures() async throws {
    let engine = try await engine()
    defer { Support.end(engine) }
    try await engine.withEndpoint { endpoint in
      #expect(endpoint.unixSocketPath != nil)
      let hello = try await complete(ask("Say hello.", tokens: 16), at: endpoint)
      #expect(text(of: hello)?.isEmpty == false)
      // Context is a request's own, not shared between the slots.
      let slots = try await Support.get("/slots", from: endpoint).arrayValue ?? []
      #expect(slots.map { $0["n_ctx"]?.intValue } == [2048, 2048])

      for (name, colour) in [("red", [220, 20, 20]), ("yellow", [245, 220, 30])] {
        let picture = Bitmap.square(of: colour.map(UInt8.init)).base64EncodedString()
        let url = JSONValue.string("data:image/bmp;base64,\(picture)")
        var request = try #require(
          ask(
            [
              ["type": "text", "text": "What colour is the shape?"],
              ["type": "image_url", "image_url": ["url": url]],
            ], tokens: 60
          ).objectValue)
        let colours: JSONValue = ["red", "green", "blue", "yellow", "orange", "purple"]
        request["response_format"] = [
          "type": "json_schema",
          "json_schema": [
            "name": "answer",
            "schema": [
              "type": "object", "properties": ["colour": ["enum": colours]],
              "required": ["colour"], "additionalProperties": false,
            ],
          ],
        ]
        let answer = try await complete(.object(request), at: endpoint)
        let value = try JSONValue(parsing: try #require(text(of: answer)))
        #expect(value == ["colour": .string(name)])
      }
    }
  }

  @Test func aKillWhileAnsweringIsToldAndMended() async throws {
    let engine = try await engine()
    defer { Support.end(engine) }
    let error = await #expect(throws: EngineError.self) {
      try await engine.withEndpoint { endpoint in
        async let answer = complete(ask(story, tokens: 1500), at: endpoint)
        try await Task.sleep(for: .milliseconds(500))
        kill(try #require(engine.processID), SIGKILL)
        _ = try await answer
      }
    }
    #expect(error?.kind == .died)
    #expect(error?.logTail.contains("slot") == true)
    let answer = try await engine.withEndpoint {
      try await complete(ask("Say hello.", tokens: 8), at: $0)
    }
    #expect(text(of: answer)?.isEmpty == false)
  }

  @Test func aCancelledRequestFreesItsSlot() async throws {
    let engine = try await engine()
    defer { Support.end(engine) }
    try await engine.withEndpoint { endpoint in
      func isBusy() async throws -> Bool {
        try await Support.get("/slots", from: endpoint).arrayValue?.contains {
          $0["is_processing"] == true
        } ?? false
      }
      var body = try #require(ask(story, tokens: 1500).objectValue)
      body["stream"] = true
      let request = JSONValue.object(body)
      // Every time, but within a second only in the best of several tries: the machine may be busy
      // with other things. A request that was not given up would hold the slot for the rest of its
      // 1500 tokens, half a minute.
      var times: [Duration] = []
      while times.count < 6, times.last.map({ $0 >= .seconds(1) }) ?? true {
        let task = Task { try await complete(request, at: endpoint) }
        while !(try await isBusy()) { try await Task.sleep(for: .milliseconds(10)) }
        try await Task.sleep(for: .milliseconds(300))
        #expect(try await isBusy())

        task.cancel()
        let begin = ContinuousClock.now
        while try await isBusy() { try await Task.sleep(for: .milliseconds(10)) }
        times.append(ContinuousClock.now - begin)
        #expect(times[times.count - 1] < .seconds(15))
        await #expect(throws: (any Error).self) { try await task.value }
      }
      #expect(times.contains { $0 < .seconds(1) }, "free after \(times)")
    }
  }
}

/// Uncompressed pictures, which need no encoder.
private enum Bitmap {
  /// A filled square of that colour (red, green, blue) on white, 300 x 300 pixels.
  static func square(of colour: [UInt8]) -> Data {
    let side = 300
    let size = side * side * 3  // A row is a multiple of 4 bytes, as the format wants.
    var data = Data("BM".utf8)
    for value in [54 + size, 0, 54, 40, side, side] { data += GGUFBuilder.little(UInt32(value)) }
    data += GGUFBuilder.little(UInt16(1)) + GGUFBuilder.little(UInt16(24))
    for value in [0, size, 2835, 2835, 0, 0] { data += GGUFBuilder.little(UInt32(value)) }
    let range = 40..<260
    for row in 0..<side {
      for column in 0..<side {
        let isInside = range.contains(row) && range.contains(column)
        data += isInside ? colour.reversed() : [255, 255, 255]
      }
    }
    return data
  }
}
