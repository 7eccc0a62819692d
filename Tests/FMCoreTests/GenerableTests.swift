import FMImaging
import FMWire
import Foundation
import Testing

@testable import FMCore

/// A type as a user writes one by hand.
struct Person: Generable, Equatable, Sendable {
  var name: String
  var age: Int
  var nickname: String?
  var friends: [Person]

  init(name: String, age: Int, nickname: String? = nil, friends: [Person] = []) {
    self.name = name
    self.age = age
    self.nickname = nickname
    self.friends = friends
  }

  init(_ content: GeneratedContent) throws {
    name = try content.value(forProperty: "name")
    age = try content.value(forProperty: "age")
    nickname = try content.value(forProperty: "nickname")
    friends = try content.value([Person].self, forProperty: "friends")
  }

  var generatedContent: GeneratedContent {
    GeneratedContent(properties: [
      "name": name, "age": age, "nickname": nickname, "friends": friends,
    ])
  }

  static var generationSchema: GenerationSchema {
    GenerationSchema(
      type: Person.self, description: "Somebody.",
      properties: [
        .init(name: "name", description: "As one is called.", type: String.self),
        .init(name: "age", type: Int.self, guides: [.range(0...150)]),
        .init(name: "nickname", type: String?.self, guides: [.pattern("^[A-Z]")]),
        .init(name: "friends", type: [Person].self, guides: [.maximumCount(3)]),
      ])
  }

  struct PartiallyGenerated: ConvertibleFromGeneratedContent, Sendable {
    var id: GenerationID
    var name: String?
    var age: Int?

    init(_ content: GeneratedContent) throws {
      id = content.id ?? GenerationID()
      name = try content.value(forProperty: "name")
      age = try content.value(forProperty: "age")
    }
  }
}

private enum Mood: String, Generable {
  case happy, sad
  init(_ content: GeneratedContent) throws {
    guard let mood = Mood(rawValue: try String(content)) else {
      throw content.mismatch("it is no mood")
    }
    self = mood
  }
  var generatedContent: GeneratedContent { rawValue.generatedContent }
  static var generationSchema: GenerationSchema {
    GenerationSchema(type: Mood.self, anyOf: ["happy", "sad"])
  }
}

private struct Holder: Generable {
  init(_ content: GeneratedContent) throws {}
  var generatedContent: GeneratedContent { GeneratedContent(properties: [:]) }
  static var generationSchema: GenerationSchema {
    GenerationSchema(
      type: Holder.self, representNilExplicitlyInGeneratedContent: true,
      properties: [
        .init(name: "owner", type: Person.self),
        .init(name: "mood", type: Mood?.self),
        .init(name: "picture", type: ImageReference.self),
        .init(
          name: "scores", type: [Double].self, guides: [.element(.minimum(0.5)), .count(2...4)]),
      ])
  }
}

@Suite struct GenerableTests {
  @Test func aTypeMayReferToItself() throws {
    let json = Person.generationSchema.jsonString
    #expect(
      json == ##"""
        {"title":"Person","type":"object","description":"Somebody.","properties":{\##
        "name":{"type":"string","description":"As one is called."},\##
        "age":{"type":"integer","minimum":0,"maximum":150},\##
        "nickname":{"type":"string","pattern":"^[A-Z]"},\##
        "friends":{"type":"array","items":{"$ref":"#"},"maxItems":3}},\##
        "required":["name","age","friends"],"x-order":["name","age","nickname","friends"],\##
        "additionalProperties":false}
        """##)
    let value = try JSONValue(
      parsing: #"{"name":"A","age":3,"friends":[{"name":"B","age":4,"friends":[]}]}"#)
    let person = try Person(GeneratedContent(try Person.generationSchema.validated(value)))
    #expect(person.friends == [Person(name: "B", age: 4)])
    #expect(try Person(person.generatedContent) == person)
  }

  @Test func nestedTypesStandInDefs() throws {
    let schema = try Holder.generationSchema.resolved().json
    #expect(schema["properties"]?["owner"] == ["$ref": "#/$defs/Person"])
    #expect(
      schema["properties"]?["mood"] == ["anyOf": [["$ref": "#/$defs/Mood"], ["type": "null"]]])
    #expect(schema["required"] == ["owner", "mood", "picture", "scores"])
    #expect(
      schema["$defs"]?.objectValue?.members.map(\.name) == ["Person", "Mood", "ImageReference"])
    #expect(
      schema["$defs"]?["Person"]?["properties"]?["friends"]?["items"] == ["$ref": "#/$defs/Person"])
    #expect(
      schema["properties"]?["scores"] == [
        "type": "array", "items": ["type": "number", "minimum": .number(JSONNumber(0.5)!)],
        "minItems": 2, "maxItems": 4,
      ])
    #expect([Person].generationSchema.name == "Array<Person>")
    #expect(try [Person].generationSchema.resolved().json["items"] == ["$ref": "#/$defs/Person"])
  }

  @Test func dynamicSchemasReferByName() throws {
    let dish = DynamicGenerationSchema(
      name: "Dish", description: "To eat.",
      properties: [
        .init(name: "name", schema: .init(type: String.self, guides: [.anyOf(["soup", "pie"])])),
        .init(
          name: "sides", schema: .init(arrayOf: .init(referenceTo: "Dish"), maximumElements: 2)),
        .init(name: "wine", schema: .init(referenceTo: "Wine"), isOptional: true),
        .init(name: "end", schema: .null, isOptional: true),
      ])
    let wine = DynamicGenerationSchema(name: "Wine", anyOf: ["red", "white"])
    let schema = try GenerationSchema(root: dish, dependencies: [wine])
    #expect(
      schema.jsonString == ##"""
        {"title":"Dish","type":"object","description":"To eat.","properties":{\##
        "name":{"type":"string","enum":["soup","pie"]},\##
        "sides":{"type":"array","items":{"$ref":"#"},"maxItems":2},\##
        "wine":{"$ref":"#/$defs/Wine"},"end":{"type":"null"}},\##
        "required":["name","sides"],"x-order":["name","sides","wine","end"],\##
        "additionalProperties":false,"$defs":{"Wine":{"title":"Wine","type":"string",\##
        "enum":["red","white"]}}}
        """##)
  }

  @Test func dynamicMistakesHaveTheirErrors() throws {
    let text = DynamicGenerationSchema(type: String.self)
    func error(
      _ root: DynamicGenerationSchema, _ dependencies: [DynamicGenerationSchema] = []
    ) -> GenerationSchema.SchemaError? {
      #expect(throws: GenerationSchema.SchemaError.self) {
        try GenerationSchema(root: root, dependencies: dependencies)
      }
    }
    guard
      case .duplicateProperty("A", "p", _) = error(
        .init(
          name: "A", properties: [.init(name: "p", schema: text), .init(name: "p", schema: text)]))
    else {
      Issue.record("no duplicateProperty")
      return
    }
    guard
      case .undefinedReferences("A", ["X", "Y"], _) = error(
        .init(
          name: "A",
          properties: [
            .init(name: "y", schema: .init(referenceTo: "Y")),
            .init(name: "x", schema: .init(arrayOf: .init(referenceTo: "X"))),
          ]))
    else {
      Issue.record("no undefinedReferences")
      return
    }
    guard case .emptyTypeChoices("A", _) = error(.init(name: "A", anyOf: [String]())) else {
      Issue.record("no emptyTypeChoices")
      return
    }
    let one = DynamicGenerationSchema(name: "B", anyOf: ["x"])
    let other = DynamicGenerationSchema(name: "B", anyOf: ["y"])
    guard case .duplicateType(_, "B", _) = error(.init(name: "A", anyOf: [one, other])) else {
      Issue.record("no duplicateType")
      return
    }
    guard case .duplicateType(_, "B", _) = error(.init(name: "A", anyOf: [text]), [one, other])
    else {
      Issue.record("no duplicateType of dependencies")
      return
    }
    // The same twice is no mistake.
    _ = try GenerationSchema(root: .init(name: "A", anyOf: [one, one]), dependencies: [])
  }

  @Test func guidesThatDoNotSuitAreRefused() throws {
    for guide: GenerationGuide<String> in [.pattern("("), .anyOf([])] {
      let root = DynamicGenerationSchema(
        name: "A",
        properties: [.init(name: "p", schema: .init(type: String.self, guides: [guide]))])
      #expect(throws: GenerationSchema.SchemaError.self) {
        try GenerationSchema(root: root, dependencies: [])
      }
    }
    var schema: JSONValue = ["type": "boolean"]
    #expect(throws: GenerationSchema.SchemaError.self) {
      try SchemaGuide.minimum(0).apply(to: &schema, of: "p")
    }
    schema = ["type": "integer"]
    #expect(throws: GenerationSchema.SchemaError.self) {
      try SchemaGuide.range(2, 1).apply(to: &schema, of: "p")
    }
    try SchemaGuide.range(0.9, 2.9).apply(to: &schema, of: "p")
    #expect(schema == ["type": "integer", "minimum": 0, "maximum": 2])
  }

  @Test func typedAnswers() async throws {
    let model = ScriptedModel(saying: [#"{"friends":[],"age":"#, #"41,"name":"Ada"}"#])
    let session = LanguageModelSession(model: model)
    let response = try await session.respond(to: "Who?", generating: Person.self)
    #expect(response.content == Person(name: "Ada", age: 41))
    // In the schema's order, not in the model's.
    #expect(response.rawContent.jsonString == #"{"name":"Ada","age":41,"friends":[]}"#)

    let wrong = LanguageModelSession(
      model: ScriptedModel(saying: [#"{"name":"A","age":200,"friends":[]}"#]))
    let error = await #expect(throws: GeneratedContent.ParsingError.self) {
      try await wrong.respond(to: "Who?", generating: Person.self)
    }
    #expect(error?.debugDescription.contains("$.age: 200 is above 150") == true)
    #expect(wrong.transcript.isEmpty)
  }

  @Test func snapshotsHoldWhatIsCertain() async throws {
    let gate = Gate()
    let model = ScriptedModel { _, channel in
      await channel.send(.response(action: .appendText(#"{"name":"Ad"#, tokenCount: 1)))
      await gate.wait()
      await channel.send(
        .response(action: .appendText(#"a","age":4,"friends":[]}"#, tokenCount: 1)))
    }
    let session = LanguageModelSession(model: model)
    var names: [String?] = []
    var ids: Set<GenerationID> = []
    for try await snapshot in session.streamResponse(to: "Who?", generating: Person.self) {
      names.append(snapshot.content.name)
      ids.insert(snapshot.content.id)
      #expect(!snapshot.rawContent.isComplete)
      gate.open()
    }
    #expect(names == ["Ad", "Ada"])
    #expect(ids.count == 1)
    #expect(session.transcript.count == 2)

    let whole = try await LanguageModelSession(model: model)
      .streamResponse(to: "Who?", generating: Person.self).collect()
    #expect(whole.content == Person(name: "Ada", age: 4))
  }

  @Test func anInvalidAnswerIsRepairedWhenAsked() async throws {
    let count = Counter()
    let model = ScriptedModel { _, channel in
      let answer = count.next() == 1 ? #"{"name":"A"}"# : #"{"name":"A","age":1,"friends":[]}"#
      await channel.send(.response(action: .appendText(answer, tokenCount: 1)))
      await channel.send(
        .response(
          action: .updateUsage(
            input: .init(totalTokenCount: 10), output: .init(totalTokenCount: 5))))
    }
    let session = LanguageModelSession(model: model)
    var options = GenerationOptions()
    options.repairAttempts = 1
    let response = try await session.respond(to: "Who?", generating: Person.self, options: options)
    #expect(response.content == Person(name: "A", age: 1))
    #expect(response.usage.input.totalTokenCount == 20)
    #expect(session.transcript.count == 2)
    let second = try #require(model.requests.last?.transcript)
    #expect(second.map(\.text)[1] == #"{"name":"A"}"#)
    #expect(second.map(\.text)[2].contains("the property \"age\" is missing"))
  }

  @Test func imageReferencesNameOnlyWhatIsAttached() async throws {
    let image = Attachment(try SourceImage(bytes: onePixelPNG))
    let model = ScriptedModel(saying: [#"{"attachmentLabel":"b"}"#])
    let session = LanguageModelSession(model: model)
    let response = try await session.respond(generating: ImageReference.self) {
      image.label("a")
      image.label("b")
    }
    #expect(response.content.resolved(in: session.transcript) != nil)
    #expect(
      try model.requests[0].schema?.resolved().json["properties"]?["attachmentLabel"]?["enum"]
        == ["a", "b"])

    let invented = LanguageModelSession(model: ScriptedModel(saying: [#"{"attachmentLabel":"z"}"#]))
    await #expect(throws: GeneratedContent.ParsingError.self) {
      try await invented.respond(generating: ImageReference.self) { image.label("a") }
    }
    await #expect(throws: GenerationSchema.SchemaError.self) {
      try await invented.respond(generating: ImageReference.self) { image }
    }

    // One that may be missing is not asked for where there is nothing to name.
    let optional = try GenerationSchema(
      root: DynamicGenerationSchema(
        name: "A",
        properties: [
          .init(name: "n", schema: .init(type: Int.self)),
          .init(name: "p", schema: .init(referenceTo: "ImageReference"), isOptional: true),
        ]), dependencies: [])
    let text = ScriptedModel(saying: [#"{"n":1}"#])
    try await LanguageModelSession(model: text).respond(to: "x", schema: optional)
    #expect(
      text.requests[0].schema?.jsonString == #"""
        {"title":"A","type":"object","properties":{"n":{"type":"integer"}},"required":["n"],\#
        "x-order":["n","p"],"additionalProperties":false}
        """#)

    let unknown = ImageReference(attachmentLabel: "z")
    #expect(unknown.resolved(in: session.transcript) == nil)
    let error = #expect(throws: ImageReference.UnknownLabel.self) {
      try unknown.attachment(in: session.transcript)
    }
    #expect(error?.knownLabels == ["a", "b"])
  }
}

/// Counts from 1.
final class Counter: @unchecked Sendable {
  private let lock = NSLock()
  private var count = 0
  func next() -> Int {
    lock.withLock {
      count += 1
      return count
    }
  }
}
