import FMCore
import Testing

// What docs/guide/swift-api.md shows. Tests/house/test_guide.py holds the page to this file.

private let citySchema = GeneratedContent.generationSchema

struct Weather: Tool {
  let description = "Tells the weather of a city."
  var parameters: GenerationSchema { citySchema }

  func call(arguments: GeneratedContent) async throws -> String {
    "Sunny in \(try arguments.value(String.self, forProperty: "city"))."
  }
}

struct Parrot: LanguageModel {
  var capabilities: LanguageModelCapabilities { LanguageModelCapabilities([]) }
  var executorConfiguration: Executor.Configuration { Executor.Configuration() }

  struct Executor: LanguageModelExecutor {
    struct Configuration: Hashable, Sendable {}
    typealias Model = Parrot
    init(configuration: Configuration) {}

    func respond(
      to request: LanguageModelExecutorGenerationRequest, model: Parrot,
      streamingInto channel: LanguageModelExecutorGenerationChannel
    ) async throws {
      await channel.send(.response(action: .appendText("Polly!", tokenCount: 1)))
    }
  }
}

@Suite struct GuideTests {
  /// The first snippet as it stands; the model is the one thing that differs where it runs.
  func firstSnippet() async throws {
    let session = LanguageModelSession(tools: [Weather()], instructions: "Be brief.")
    let response = try await session.respond {
      "How is the weather here?"
      Attachment(path: "street.jpg").label("street")
    }
    print(response.content, response.usage.totalTokenCount, response.finishReason ?? "")

    for try await snapshot in session.streamResponse(to: "And tomorrow?") {
      print(snapshot.content)
    }
  }

  @Test func aModelOfOnesOwnAnswers() async throws {
    let session = LanguageModelSession(model: Parrot(), instructions: "Be brief.")
    session.historyTransform = .rollingWindow(turns: 8)
    #expect(try await session.respond(to: "Who are you?").content == "Polly!")
    for try await snapshot in session.streamResponse(to: "And tomorrow?") {
      #expect(snapshot.content == "Polly!")
    }
    #expect(session.transcript.history.count == 4)
  }

  @Test func aRequestCarriesWhatTheCallerGivesAlong() async throws {
    var model = ScriptedModel { request, channel in
      #expect(request.contextOptions.reasoningLevel == .deep)
      await channel.send(.response(action: .appendText("Up.", tokenCount: 1)))
    }
    model.capabilities = LanguageModelCapabilities([.reasoning])
    let session = LanguageModelSession(model: model)
    let thought = try await session.respond(
      to: "Which way?", contextOptions: ContextOptions(reasoningLevel: .deep),
      metadata: ["trace": "a-1"])
    print(thought.usage.output.reasoningTokenCount, thought.usage.metadata)
    #expect(model.requests.last?.metadata == ["trace": GeneratedContent("a-1")])
  }

  private struct Plate: Generable {
    let text: String
    init(_ content: GeneratedContent) throws { text = try content.value(forProperty: "plate") }
    var generatedContent: GeneratedContent { GeneratedContent(properties: ["plate": text]) }
    static var generationSchema: GenerationSchema { GuideTests.plates }
  }

  private static var plates: GenerationSchema {
    let plates = GenerationSchema(
      type: Plate.self,
      properties: [.init(name: "plate", type: String.self, guides: [#/^[A-Z]{2}-\d+$/#])])
    return plates
  }

  @Test func aRegexGuides() throws {
    let good = try GeneratedContent(json: #"{"plate":"AB-1"}"#, schema: Plate.generationSchema)
    #expect(try good.value(Plate.self).text == "AB-1")
    #expect(throws: GeneratedContent.ParsingError.self) {
      try GeneratedContent(json: #"{"plate":"1"}"#, schema: Plate.generationSchema)
    }
  }

  @Test func aToolOfOnesOwnReadsItsArguments() async throws {
    let answer = try await Weather().call(arguments: GeneratedContent(json: #"{"city":"Rome"}"#))
    #expect(answer == "Sunny in Rome.")
    #expect(Weather().name == "Weather")
  }
}
