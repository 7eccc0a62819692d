import FMCore
import Foundation
import RegexBuilder
import Testing

/// What the reference's callers and providers write beside requests, from the public surface alone.
@Suite struct SurfaceTests {
  private struct Broken: Error {}

  /// Answers "one two" in two pieces, and counts after each.
  private let counting = ScriptedModel { _, channel in
    for (count, word) in ["one ", "two"].enumerated() {
      await channel.send(.response(action: .appendText(word, tokenCount: 1)))
      await channel.send(
        .response(
          action: .updateUsage(
            input: .init(totalTokenCount: 5), output: .init(totalTokenCount: count + 1),
            metadata: ["watts": count])))
    }
  }

  @Test func usageCarriesWhatTheModelTells() async throws {
    let session = LanguageModelSession(model: counting)
    let response = try await session.respond(to: "x")
    #expect(response.usage.metadata == ["watts": GeneratedContent(1)])
    #expect(response.usage.totalTokenCount == 7)
    try await session.respond(to: "x")
    #expect(session.usage.totalTokenCount == 14)
    #expect(session.usage.metadata == ["watts": GeneratedContent(1)])
    let made = Usage(
      input: .init(totalTokenCount: 1, cachedTokenCount: 1),
      output: .init(totalTokenCount: 2, reasoningTokenCount: 1), metadata: ["a": "b"])
    #expect(made.metadata["a"] == GeneratedContent("b"))
  }

  @Test func snapshotsTellTheTurnSoFar() async throws {
    let session = LanguageModelSession(model: counting)
    var last: ResponseStream<String>.Snapshot?
    for try await snapshot in session.streamResponse(to: "count") {
      #expect(snapshot.transcriptEntries.first?.text == "count")
      #expect(snapshot.transcriptEntries.last?.text == snapshot.content)
      #expect(snapshot.usage.totalTokenCount <= 7)
      last = snapshot
    }
    #expect(last?.content == "one two")
  }

  @Test func collectingAStreamThatWasReadSendsNothing() async throws {
    let session = LanguageModelSession(model: counting)
    let stream = session.streamResponse(to: "x")
    for try await _ in stream {}
    #expect(try await stream.collect().content == "one two")
    #expect(try await stream.collect().usage.totalTokenCount == 7)
    #expect(counting.requests.count == 1)

    let failing = LanguageModelSession(
      model: ScriptedModel { _, _ in throw Broken() }
    ).streamResponse(to: "x")
    await #expect(throws: Broken.self) { for try await _ in failing {} }
    await #expect(throws: Broken.self) { try await failing.collect() }
  }

  @Test func aStreamThatIsLeftIsCancelledThoughItIsKept() async throws {
    let model = ScriptedModel { _, channel in
      await channel.send(.response(action: .appendText("x", tokenCount: 1)))
      try await Task.sleep(for: .seconds(60))
    }
    let session = LanguageModelSession(model: model)
    let stream = session.streamResponse(to: "x")
    for try await _ in stream { break }
    await #expect(throws: CancellationError.self) { try await stream.collect() }
    #expect(!session.isResponding)
  }

  @Test func providersMakeEveryError() async throws {
    let entry = Transcript.Entry.prompt(Transcript.Prompt(segments: []))
    let errors: [LanguageModelError] = [
      .contextSizeExceeded(.init(contextSize: 1, tokenCount: 2, debugDescription: "a")),
      .rateLimited(.init(debugDescription: "a")),
      .guardrailViolation(.init(debugDescription: "a", metadata: ["rule": 3])),
      .refusal(.init(explanation: "no", debugDescription: "a")),
      .unsupportedCapability(.init(capability: .vision, debugDescription: "a")),
      .unsupportedTranscriptContent(.init(unsupportedContent: [entry], debugDescription: "a")),
      .unsupportedGenerationGuide(.init(debugDescription: "a")),
      .unsupportedLanguageOrLocale(.init(languageCode: "tlh", debugDescription: "a")),
      .timeout(.init(debugDescription: "a")),
      .emptyResponse(.init(debugDescription: "a")),
    ]
    for error in errors {
      #expect(error.debugDescription == "a")
      let session = LanguageModelSession(model: ScriptedModel { _, _ in throw error })
      await #expect(throws: LanguageModelError.self) { try await session.respond(to: "x") }
    }
    guard case .guardrailViolation(let violation) = errors[2],
      case .refusal(let refusal) = errors[3]
    else { return }
    #expect(violation.metadata["rule"] as? Int == 3)
    #expect(try await refusal.explanation.content == "no")
    #expect(try await refusal.explanationStream.collect().content == "no")
    var said: [String] = []
    for try await snapshot in refusal.explanationStream { said.append(snapshot.content) }
    #expect(said == ["no"])
  }

  @Test func toolsAndSessionsHaveTheirErrors() {
    let error = LanguageModelSession.ToolCallError(tool: Echo(), underlyingError: Broken())
    #expect(error.tool.name == "Echo")
    #expect(error.underlyingError is Broken)
    #expect(LanguageModelSession.Error.concurrentRequests != .transcriptMutationWhileResponding)
    #expect(GeneratedContent.ParsingError(rawContent: "{", debugDescription: "x").rawContent == "{")
  }

  struct Echo: Tool {
    let description = "Says it again."
    var parameters: GenerationSchema { ImageReference.generationSchema }
    func call(arguments: GeneratedContent) async throws -> String { arguments.jsonString }
  }

  @Test func contextOptionsAreWrittenIntoTheTranscript() throws {
    let prompt = Transcript.Prompt(
      metadata: ["trace": 7], segments: [.text(Transcript.TextSegment(content: "x"))],
      responseFormat: Transcript.ResponseFormat(type: Int.self),
      contextOptions: ContextOptions(includeSchemaInPrompt: true, reasoningLevel: .custom("max")))
    let transcript = Transcript(entries: [.prompt(prompt)])
    let text = transcript.jsonText()
    #expect(text.contains(#""version":"1.1""#))
    #expect(
      text.contains(#""contextOptions":{"includeSchemaInPrompt":true,"reasoningLevel":"max"}"#))
    let read = try Transcript(json: text)
    #expect(read == transcript)
    guard case .prompt(let again) = read[0] else {
      Issue.record("no prompt")
      return
    }
    #expect(again.metadata == ["trace": GeneratedContent(7)])
    #expect(again.responseFormat?.kind == .schema(Int.generationSchema))
    #expect(again.responseFormat?.name == "Int")

    // What is said in words of another version stays.
    let odd = """
      {"version":"1.1","type":"FoundationModels.Transcript","transcript":{"entries":[{"id":"1",\
      "role":"user","contents":[],"options":{},"contextOptions":{"reasoningLevel":{"new":1}}}]}}
      """
    #expect(try Transcript(json: odd).jsonText().contains(#"{"reasoningLevel":{"new":1}}"#))
  }

  @Test func aTranscriptIsCodableAndCanBePrinted() throws {
    let transcript = Transcript(entries: [
      .instructions(
        Transcript.Instructions(
          segments: [.text(Transcript.TextSegment(content: "Be brief."))],
          toolDefinitions: [Transcript.ToolDefinition(tool: Echo())])),
      .prompt(Transcript.Prompt(segments: [.text(Transcript.TextSegment(content: "Hi"))])),
      .toolCalls(
        Transcript.ToolCalls([
          Transcript.ToolCall(id: "1", toolName: "Echo", arguments: GeneratedContent("x"))
        ])),
      .toolOutput(
        Transcript.ToolOutput(
          id: "1", toolName: "Echo", segments: [.text(Transcript.TextSegment(content: "y"))])),
      .reasoning(
        Transcript.Reasoning(
          segments: [.text(Transcript.TextSegment(content: "Hm."))], signatureBytes: [1, 2])),
      .response(
        Transcript.Response(
          metadata: ["k": 1],
          segments: [
            .structure(
              Transcript.StructuredSegment(schemaName: "Int", content: GeneratedContent(3)))
          ])),
    ])
    let data = try JSONEncoder().encode(transcript)
    #expect(try JSONDecoder().decode(Transcript.self, from: data) == transcript)
    #expect(throws: DecodingError.self) {
      try JSONDecoder().decode(Transcript.self, from: Data(#"{"type":"x"}"#.utf8))
    }
    #expect(
      transcript.description == """
        instructions: Be brief.
        prompt: Hi
        tool call Echo: "x"
        output of Echo: y
        reasoning: Hm.
        response: 3
        """)
  }

  @Test func picturesComeByURL() async throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent(
      "openfm \(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    let file = folder.appendingPathComponent("a b.png")
    try Data(onePixelPNG).write(to: file)
    let model = ScriptedModel(saying: ["seen"])
    let session = LanguageModelSession(model: model)
    try await session.respond {
      Attachment(imageURL: file.absoluteString, orientation: .right).label("file")
      Attachment(imageURL: "data:image/png;base64,\(Data(onePixelPNG).base64EncodedString())")
    }
    let entry = try #require(model.requests.last?.transcript.last)
    let images = entry.images
    #expect(images.map(\.url) == [file.absoluteString, nil])
    #expect(images.map(\.orientation) == [.right, .up])
    #expect(
      Transcript.ImageAttachment(imageURL: file.absoluteString, orientation: .right) == images[0])
    for bad in ["https://example.org/a.png", "data:image/png,x", "file:///no/such.png"] {
      await #expect(throws: (any Error).self) {
        try await session.respond { Attachment(imageURL: bad) }
      }
    }
    #expect(model.requests.count == 1)
  }

  @Test func regexesAreGuides() throws {
    let schema = GenerationSchema(
      type: Plate.self,
      properties: [
        .init(name: "plate", type: String.self, guides: [#/^[a-z]+$/#, #/^[A-Z]{2}-\d+$/#]),
        .init(name: "seal", type: String?.self, guides: [#/^(?<year>\d{4})$/#]),
        .init(name: "words", type: [String].self, guides: [.element(.pattern(#/^\w+$/#))]),
      ])
    let good = #"{"plate":"AB-12","seal":"2026","words":["a"]}"#
    #expect(try GeneratedContent(json: good, schema: schema).jsonString == good)
    for bad in [
      #"{"plate":"ab-12","words":[]}"#, #"{"plate":"AB-12","seal":"26","words":[]}"#,
      #"{"plate":"AB-12","words":["a b"]}"#,
    ] {
      #expect(throws: GeneratedContent.ParsingError.self) {
        try GeneratedContent(json: bad, schema: schema)
      }
    }
    // Code of the caller's is in no pattern.
    let opaque = Regex {
      TryCapture {
        OneOrMore(.digit)
      } transform: {
        Int($0)
      }
    }
    let unusable = GenerationSchema(
      type: Plate.self, properties: [.init(name: "n", type: String.self, guides: [opaque])])
    let error = #expect(throws: GenerationSchema.SchemaError.self) {
      try GeneratedContent(json: "{}", schema: unusable)
    }
    guard case .unsupportedGuide = error else {
      Issue.record("\(String(describing: error))")
      return
    }
  }

  private struct Plate: Generable {
    init(_ content: GeneratedContent) throws {}
    var generatedContent: GeneratedContent { GeneratedContent(properties: [:]) }
    static var generationSchema: GenerationSchema {
      GenerationSchema(type: Plate.self, properties: [])
    }
  }
}

extension Transcript.Entry {
  fileprivate var images: [Transcript.ImageAttachment] {
    guard case .prompt(let prompt) = self else { return [] }
    return prompt.segments.compactMap { segment in
      guard case .attachment(let attachment) = segment, case .image(let image) = attachment.content
      else { return nil }
      return image
    }
  }
}
