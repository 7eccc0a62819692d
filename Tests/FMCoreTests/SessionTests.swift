import FMImaging
import Synchronization
import Testing

@testable import FMCore

@Suite struct SessionTests {
  struct Broken: Error, Equatable {}

  @Test func respondsAndKeepsTheTurn() async throws {
    let model = ScriptedModel { _, channel in
      await channel.send(.response(action: .appendText("a ", tokenCount: 1)))
      await channel.send(.reasoning(action: .appendText("hidden", tokenCount: 1)))
      await channel.send(.response(action: .appendText("b", tokenCount: 1)))
      await channel.send(
        .response(
          action: .updateUsage(
            input: .init(totalTokenCount: 7), output: .init(totalTokenCount: 2))))
    }
    let session = LanguageModelSession(model: model, instructions: "Be short.")
    let response = try await session.respond(to: "Hello")
    #expect(response.content == "a b")
    #expect(response.usage.input.reportedTotalTokenCount == 7)
    #expect(response.usage.input.reportedCachedTokenCount == nil)
    #expect(response.transcriptEntries.count == 3)
    #expect(!session.isResponding)

    _ = try await session.respond(to: "Again")
    #expect(session.usage.totalTokenCount == 18)
    let second = try #require(model.requests.last)
    #expect(
      second.transcript.map(\.text) == ["Be short.", "Hello", "hidden", "a b", "Again"])
    #expect(
      session.transcript.map(\.text) == [
        "Be short.", "Hello", "hidden", "a b", "Again", "hidden", "a b",
      ])
  }

  @Test func emptyInstructionsAreNone() async throws {
    let model = ScriptedModel(saying: ["x"])
    _ = try await LanguageModelSession(model: model, instructions: "").respond(to: "Hello")
    #expect(model.requests[0].transcript.map(\.text) == ["Hello"])
  }

  @Test func anEmptyAnswerIsAnEmptyText() async throws {
    let response = try await LanguageModelSession(model: ScriptedModel(saying: []))
      .respond(to: "Hello")
    #expect(response.content == "")
  }

  @Test func snapshotsAreCumulative() async throws {
    let gates = (0..<4).map { _ in Gate() }
    let model = ScriptedModel { _, channel in
      for (index, word) in ["one ", "two ", "three"].enumerated() {
        await gates[index].wait()
        await channel.send(.response(action: .appendText(word, tokenCount: 1)))
      }
      await gates[3].wait()
      await channel.send(.response(action: .replaceTextSegment("four", tokenCount: 1)))
    }
    let session = LanguageModelSession(model: model)
    var seen: [String] = []
    gates[0].open()
    for try await snapshot in session.streamResponse(to: "Count") {
      seen.append(snapshot.content)
      guard seen.count < 4 else { continue }
      #expect(session.isResponding)
      gates[seen.count].open()
    }
    #expect(seen == ["one ", "one two ", "one two three", "four"])
    #expect(session.transcript.last?.text == "four")
    #expect(!session.isResponding)
  }

  @Test func aSlowReaderGetsFewerSnapshotsButTheWholeAnswer() async throws {
    let words = (0..<5000).map { "\($0) " }
    let session = LanguageModelSession(model: ScriptedModel(saying: words))
    var last = ""
    var count = 0
    for try await snapshot in session.streamResponse(to: "Count") {
      #expect(snapshot.content.hasPrefix(last))
      last = snapshot.content
      count += 1
      if count < 5 { try await Task.sleep(for: .milliseconds(20)) }
    }
    #expect(last == words.joined())
    #expect(count < words.count)
  }

  @Test func collectGivesTheWholeResponse() async throws {
    let session = LanguageModelSession(model: ScriptedModel(saying: ["a", "b"]))
    #expect(try await session.streamResponse(to: "x").collect().content == "ab")
  }

  @Test func aSecondRequestIsRefusedAndTheFirstGoesOn() async throws {
    let gate = Gate()
    let model = ScriptedModel { _, channel in
      await gate.wait()
      await channel.send(.response(action: .appendText("first", tokenCount: 1)))
    }
    let session = LanguageModelSession(model: model)
    let first = Task { try await session.respond(to: "one").content }
    while !session.isResponding { await Task.yield() }
    await #expect(throws: LanguageModelSession.Error.concurrentRequests) {
      try await session.respond(to: "two")
    }
    await #expect(throws: LanguageModelSession.Error.concurrentRequests) {
      for try await _ in session.streamResponse(to: "three") {}
    }
    #expect(session.isResponding)
    gate.open()
    #expect(try await first.value == "first")
    #expect(session.transcript.map(\.text) == ["one", "first"])
  }

  @Test func aFailureLeavesTheTranscriptAndTheSessionUsable() async throws {
    let fails = Mutex(true)
    let model = ScriptedModel { _, channel in
      await channel.send(.response(action: .appendText("partial", tokenCount: 1)))
      if fails.withLock({ $0 }) { throw Broken() }
    }
    let session = LanguageModelSession(model: model)
    await #expect(throws: Broken.self) { try await session.respond(to: "one") }
    await #expect(throws: Broken.self) {
      for try await _ in session.streamResponse(to: "one") {}
    }
    #expect(session.transcript.isEmpty)
    #expect(session.usage == Usage())
    let outcome = await session.perform(
      .init(prompt: Prompt("one"), schema: nil, options: .init()), try session.reserve())
    #expect(outcome.partialText == "partial")

    fails.withLock { $0 = false }
    #expect(try await session.respond(to: "two").content == "partial")
  }

  @Test func cancellationEndsTheRequest() async throws {
    let model = ScriptedModel { _, channel in
      await channel.send(.response(action: .appendText("x", tokenCount: 1)))
      try await Task.sleep(for: .seconds(60))
    }
    let session = LanguageModelSession(model: model)
    let task = Task { try await session.respond(to: "one") }
    while !session.isResponding { await Task.yield() }
    task.cancel()
    await #expect(throws: CancellationError.self) { try await task.value }
    #expect(!session.isResponding)
    #expect(session.transcript.isEmpty)
  }

  @Test func leavingAStreamEarlyFreesTheSession() async throws {
    let model = ScriptedModel { _, channel in
      await channel.send(.response(action: .appendText("x", tokenCount: 1)))
      try await Task.sleep(for: .seconds(60))
    }
    let session = LanguageModelSession(model: model)
    for try await snapshot in session.streamResponse(to: "one") {
      #expect(snapshot.content == "x")
      break
    }
    while session.isResponding { try await Task.sleep(for: .milliseconds(1)) }
    #expect(session.transcript.isEmpty)
  }

  @Test func capabilitiesAreCheckedBeforeAnythingIsSent() async throws {
    var model = ScriptedModel(saying: ["x"])
    model.capabilities = LanguageModelCapabilities([])
    let session = LanguageModelSession(model: model)
    let image = Attachment(try SourceImage(bytes: onePixelPNG))
    await #expect(throws: LanguageModelError.self) { try await session.respond { image } }
    await #expect(throws: LanguageModelError.self) {
      try await session.respond(to: "x", schema: try GenerationSchema(json: "{}"))
    }
    #expect(model.requests.isEmpty)
  }

  @Test func aBadPromptIsRefusedBeforeAnythingIsSent() async throws {
    let model = ScriptedModel(saying: ["x"])
    let session = LanguageModelSession(model: model)
    let image = Attachment(try SourceImage(bytes: onePixelPNG))
    await #expect(throws: PromptError.emptyPrompt) { try await session.respond {} }
    await #expect(throws: PromptError.duplicateLabel("a")) {
      try await session.respond {
        image.label("a")
        image.label("a")
      }
    }
    for label in ["", "a\nb", "a\u{0}b"] {
      await #expect(throws: PromptError.invalidLabel(label)) {
        try await session.respond { image.label(label) }
      }
    }
    let missing = Attachment(path: "/no/such/picture.jpg")
    let error = await #expect(throws: ImageError.self) {
      try await session.respond {
        "What is this?"
        missing
      }
    }
    #expect(error?.kind == .notFound)
    #expect(error?.message.contains("/no/such/picture.jpg") == true)
    #expect(model.requests.isEmpty)

    // Across turns a label may come again.
    for _ in 0..<2 { try await session.respond { image.label("a") } }
    #expect(model.requests.count == 2)
  }

  @Test func guidedAnswersAreValidated() async throws {
    let schema = try GenerationSchema(
      json: #"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#)
    let good = LanguageModelSession(model: ScriptedModel(saying: [#"{"n": "#, "3}"]))
    let response = try await good.respond(to: "x", schema: schema)
    #expect(try response.content.value(Int.self, forProperty: "n") == 3)
    #expect(good.transcript.last?.text == #"{"n":3}"#)

    for answer in [#"{"n":"three"}"#, "{}", #"{"n":3"#, "no JSON"] {
      let session = LanguageModelSession(model: ScriptedModel(saying: [answer]))
      let error = await #expect(throws: GeneratedContent.ParsingError.self) {
        try await session.respond(to: "x", schema: schema)
      }
      #expect(error?.rawContent == answer)
      #expect(session.transcript.isEmpty)
    }
  }
}

/// A complete PNG of one black pixel.
let onePixelPNG: [UInt8] = [
  0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 13, 0x49, 0x48, 0x44, 0x52, 0, 0, 0,
  1, 0, 0, 0, 1, 8, 0, 0, 0, 0, 0x3A, 0x7E, 0x9B, 0x55, 0, 0, 0, 10, 0x49, 0x44, 0x41, 0x54,
  0x78, 0x9C, 0x63, 0x60, 0, 0, 0, 2, 0, 1, 0x48, 0xAF, 0xA4, 0x71, 0, 0, 0, 0, 0x49, 0x45, 0x4E,
  0x44, 0xAE, 0x42, 0x60, 0x82,
]

extension Transcript.Entry {
  /// The entry's texts and values, joined.
  var text: String {
    segments.map { segment in
      switch segment {
      case .text(let segment): segment.content
      case .structure(let segment): segment.content.jsonString
      case .attachment(let segment): "<\(segment.label ?? "image")>"
      }
    }.joined(separator: "|")
  }
}
