import FMImaging
import Synchronization
import Testing

@testable import FMCore

@Suite struct ToolTests {
  struct Broken: Error, Equatable {}

  /// Answers with what its argument says, after it has done what it is given to do.
  struct Probe: Tool {
    var name = "probe"
    let description = "Probes."
    var parameters: GenerationSchema {
      schema
    }
    private let schema: GenerationSchema
    let body: @Sendable (String) async throws -> String

    init(_ name: String = "probe", _ body: @escaping @Sendable (String) async throws -> String) {
      self.name = name
      self.body = body
      // Good by inspection.
      schema = try! GenerationSchema(
        json: #"""
          {"title": "ProbeArguments", "type": "object", "properties": {"word": {"type": "string"}},
           "required": ["word"], "additionalProperties": false}
          """#)
    }

    func call(arguments: GeneratedContent) async throws -> String {
      try await body(try arguments.value(String.self, forProperty: "word"))
    }
  }

  typealias Channel = LanguageModelExecutorGenerationChannel

  /// A model that calls those tools once, all at a time, and then says what came back.
  static func caller(_ calls: [(String, String)]) -> ScriptedModel {
    var model = ScriptedModel { request, channel in
      let outputs = request.transcript.compactMap { entry -> String? in
        if case .toolOutput = entry { entry.text } else { nil }
      }
      if outputs.isEmpty, request.generationOptions.toolCallingMode != .disallowed {
        for (index, (name, arguments)) in calls.enumerated() {
          // In pieces, as models write.
          for piece in [arguments.prefix(3), arguments.dropFirst(3)] {
            await channel.send(
              .toolCalls(
                action: .toolCall(
                  id: "id\(index)", name: name,
                  action: .appendArguments(String(piece), tokenCount: 1))))
          }
        }
      } else {
        await channel.send(
          .response(action: .appendText(outputs.joined(separator: "+"), tokenCount: 1)))
      }
      await channel.send(
        .response(
          action: .updateUsage(
            input: .init(totalTokenCount: 10), output: .init(totalTokenCount: 1))))
    }
    model.capabilities = LanguageModelCapabilities([.vision, .guidedGeneration, .toolCalling])
    return model
  }

  @Test func callsRunAtOnceAndTheirOutputsComeInOrder() async throws {
    let (left, right) = (Gate(), Gate())
    let tools: [any Tool] = [
      Probe("left") { word in
        right.open()
        await left.wait()
        return "left \(word)"
      },
      Probe("right") { word in
        left.open()
        await right.wait()
        return "right \(word)"
      },
    ]
    let model = Self.caller([("left", #"{"word":"a"}"#), ("right", #"{"word":"b"}"#)])
    let session = LanguageModelSession(model: model, tools: tools, instructions: "Be brief.")
    let response = try await session.respond(to: "Go")
    #expect(response.content == "left a+right b")
    #expect(response.usage.input.totalTokenCount == 20, "of both rounds")
    #expect(
      session.transcript.map(\.kind) == [
        "instructions", "prompt", "toolCalls", "toolOutput", "toolOutput", "response",
      ])
    guard case .instructions(let instructions) = session.transcript[0] else {
      Issue.record("no instructions")
      return
    }
    #expect(instructions.toolDefinitions.map(\.name) == ["left", "right"])
    #expect(model.requests.map(\.enabledToolDefinitions.count) == [2, 2])
  }

  @Test func whatAToolThrowsIsAToolCallError() async throws {
    let session = LanguageModelSession(
      model: Self.caller([("probe", #"{"word":"a"}"#)]), tools: [Probe { _ in throw Broken() }])
    let error = await #expect(throws: LanguageModelSession.ToolCallError.self) {
      try await session.respond(to: "Go")
    }
    #expect(error?.tool.name == "probe")
    #expect(error?.underlyingError is Broken)
    #expect(!session.transcript.contains { $0.kind == "prompt" })
    session.toolPolicy.errorHandling = .output
    #expect(try await session.respond(to: "Go").content.hasPrefix("Tool error: "))
  }

  @Test(arguments: [
    ("probe", "{", "no JSON"), ("probe", "{}", "word"), ("probe", #"{"word":1}"#, "$.word"),
    ("prob", #"{"word":"a"}"#, "there is probe"),
  ])
  func aWrongCallNeverReachesTheTool(name: String, arguments: String, part: String) async throws {
    let session = LanguageModelSession(
      model: Self.caller([(name, arguments)]), tools: [Probe { _ in fatalError("called") }])
    session.toolPolicy.errorHandling = .output
    let answer = try await session.respond(to: "Go").content
    #expect(answer.hasPrefix("Tool error: "))
    #expect(answer.contains(part) || part.hasPrefix("there is") && answer.contains("no such tool"))
  }

  @Test func cancellationReachesTheTool() async throws {
    let (started, ended) = (Gate(), Gate())
    let session = LanguageModelSession(
      model: Self.caller([("probe", #"{"word":"a"}"#)]),
      tools: [
        Probe { _ in
          started.open()
          defer { ended.open() }
          try await Task.sleep(for: .seconds(60))
          return "late"
        }
      ])
    let task = Task { try await session.respond(to: "Go") }
    await started.wait()
    task.cancel()
    await ended.wait()
    await #expect(throws: CancellationError.self) { try await task.value }
    #expect(!session.isResponding)
  }

  @Test func roundsHaveABound() async throws {
    var model = ScriptedModel { request, channel in
      await channel.send(
        .toolCalls(
          action: .toolCall(
            id: "same", name: "probe", action: .appendArguments(#"{"word":"a"}"#, tokenCount: 1))))
    }
    model.capabilities = LanguageModelCapabilities([.toolCalling])
    let session = LanguageModelSession(model: model, tools: [Probe { $0 }])
    session.toolPolicy.maximumRounds = 3
    await #expect(throws: LanguageModelSession.ToolRoundLimitError(limit: 3)) {
      try await session.respond(to: "Go")
    }
    #expect(model.requests.count == 4)
    // A server that gives every call the same id does not mix up their outputs.
    let ids = model.requests[3].transcript.compactMap { entry -> String? in
      if case .toolOutput(let output) = entry { output.id } else { nil }
    }
    #expect(Set(ids).count == 3)
  }

  @Test func aModelWithoutToolsChoosesBySchema() async throws {
    let model = ScriptedModel { request, channel in
      let wasCalled = request.transcript.contains { $0.text.contains("The tool probe gave:") }
      let text =
        request.schema == nil
        ? "done"
        : wasCalled ? #"{"tool":"no tool"}"# : #"{"tool":"probe","arguments":{"word":"x"}}"#
      await channel.send(.response(action: .appendText(text, tokenCount: 1)))
    }
    let session = LanguageModelSession(model: model, tools: [Probe { "echo \($0)" }])
    let stream = session.streamResponse(to: "Go")
    var seen: [String] = []
    for try await snapshot in stream { seen.append(snapshot.content) }
    #expect(seen == ["done"], "choosing is not shown")
    #expect(model.requests.allSatisfy { $0.enabledToolDefinitions.isEmpty })
    #expect(model.requests.last?.transcript.contains { $0.text.contains("echo x") } == true)
    #expect(
      session.transcript.map(\.kind) == [
        "instructions", "prompt", "toolCalls", "toolOutput", "response",
      ])
  }

  @Test func aModelWithNeitherIsRefused() async throws {
    var model = ScriptedModel(saying: ["x"])
    model.capabilities = LanguageModelCapabilities([])
    let session = LanguageModelSession(model: model, tools: [Probe { $0 }])
    await #expect(throws: LanguageModelError.self) { try await session.respond(to: "Go") }
    #expect(model.requests.isEmpty)
  }

  @Test func toolsThatNoServerTakesAreRefused() async throws {
    for tools in [[Probe("a b") { $0 }], [Probe("a") { $0 }, Probe("a") { $0 }]] {
      let session = LanguageModelSession(model: ScriptedModel(saying: ["x"]), tools: tools)
      await #expect(throws: ToolDefinitionError.self) { try await session.respond(to: "Go") }
    }
  }

  @Test func reasoningAndAttachmentsAreKept() async throws {
    let model = ScriptedModel { _, channel in
      await channel.send(.reasoning(action: .appendText("Hm", tokenCount: 1)))
      await channel.send(.reasoning(action: .updateSignature([1, 2], tokenCount: 1)))
      await channel.send(.response(action: .appendText("a", segmentID: "1", tokenCount: 1)))
      await channel.send(.response(action: .appendText("c", segmentID: "2", tokenCount: 1)))
      await channel.send(.response(action: .appendText("b", segmentID: "1", tokenCount: 1)))
      await channel.send(.response(action: .replaceTextSegment("d", segmentID: "2", tokenCount: 1)))
    }
    let session = LanguageModelSession(model: model)
    #expect(try await session.respond(to: "Go").content == "abd")
    guard case .reasoning(let reasoning) = session.transcript[1] else {
      Issue.record("no reasoning")
      return
    }
    #expect(reasoning.signatureBytes == [1, 2])
    #expect(session.transcript[1].text == "Hm")
  }

  @Test func settingTheTranscriptWinsOverARunningRequest() async throws {
    let (started, gate) = (Gate(), Gate())
    let model = ScriptedModel { _, channel in
      started.open()
      await gate.wait()
      await channel.send(.response(action: .appendText("late", tokenCount: 1)))
    }
    let session = LanguageModelSession(model: model, instructions: "Be brief.")
    let task = Task { try await session.respond(to: "Go") }
    await started.wait()
    session.transcript = Transcript()
    gate.open()
    await #expect(throws: LanguageModelSession.Error.transcriptMutationWhileResponding) {
      try await task.value
    }
    #expect(session.transcript.isEmpty)
  }

  @Test func partialTurnsStayWhereAskedFor() async throws {
    let model = ScriptedModel { _, channel in
      await channel.send(.response(action: .appendText("half", tokenCount: 1)))
      throw Broken()
    }
    let session = LanguageModelSession(model: model)
    session.transcriptErrorHandlingPolicy = .preserveTranscript
    await #expect(throws: Broken.self) { try await session.respond(to: "Go") }
    #expect(session.transcript.map(\.text) == ["Go", "half"])
  }
}

extension Transcript.Entry {
  fileprivate var kind: String {
    switch self {
    case .instructions: "instructions"
    case .prompt: "prompt"
    case .toolCalls: "toolCalls"
    case .toolOutput: "toolOutput"
    case .response: "response"
    case .reasoning: "reasoning"
    }
  }
}
