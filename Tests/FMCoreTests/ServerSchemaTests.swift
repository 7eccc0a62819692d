import FMWire
import Testing

@testable import FMCore

@Suite struct ServerSchemaTests {
  private func sent(
    _ text: String, to server: ServerKind
  ) throws -> (json: JSONValue, isStrict: Bool) {
    let form = try ServerSchema(
      try GenerationSchema(json: text), within: ServerDialect.of(server).grammar)
    return (form.json, form.isStrict)
  }

  @Test func referencesAreWrittenOutAndSiblingsWin() throws {
    let (json, _) = try sent(
      ##"""
      {"type":"object","properties":{"a":{"$ref":"#/$defs/N","description":"mine"},
       "l":{"type":"array","items":{"$ref":"#/$defs/N"}}},
       "$defs":{"N":{"type":"integer","description":"its","minimum":1}}}
      """##, to: .llamaCpp)
    #expect(
      json.jsonText == #"""
        {"type":"object","properties":{\#
        "a":{"type":"integer","description":"mine","minimum":1},\#
        "l":{"type":"array","items":{"type":"integer","description":"its","minimum":1}}}}
        """#)
  }

  @Test func recursionEndsAfterAFewSteps() throws {
    let tree = ##"""
      {"title":"T","type":"object","properties":{"v":{"type":"integer"},
       "next":{"$ref":"#"},"children":{"type":"array","items":{"$ref":"#"}}},
       "required":["v","children"],"additionalProperties":false}
      """##
    let (json, _) = try sent(tree, to: .llamaCpp)
    var depth = 0
    var node: JSONValue? = json
    while let next = node?["properties"]?["next"] {
      depth += 1
      node = next
    }
    #expect(depth == 3)
    // Where it ends, the list is empty and the optional property is gone.
    #expect(node?["properties"]?["children"] == ["type": "array", "maxItems": 0])
    #expect(!json.jsonText.contains("$ref"))
    // What the server is asked for is valid by the schema.
    #expect(json["required"] == ["v", "children"])
    // Where references are kept, nothing is written out.
    #expect(try sent(tree, to: .vLLM).json["properties"]?["next"] == ["$ref": "#"])
  }

  @Test func recursionWithoutAnEndIsRefused() throws {
    let endless = ##"{"type":"object","properties":{"n":{"$ref":"#"}},"required":["n"]}"##
    let error = #expect(throws: GenerationSchema.SchemaError.self) {
      try sent(endless, to: .llamaCpp)
    }
    #expect(error?.debugDescription.contains("No finite value") == true)
  }

  /// Each reference stands twice in the one before: 2 to the power of 40 places, written out or tried.
  @Test func referencesThatDoubleEndSoon() throws {
    let definitions = (0..<40).map { step in
      let next = ##"{"$ref":"#/$defs/T\##(step + 1)"}"##
      return #""T\#(step)":{"anyOf":[\#(next),\#(next)]}"#
    }
    let text =
      ##"{"type":"object","properties":{"a":{"$ref":"#/$defs/T0"}},"required":["a"],"$defs":{"##
      + definitions.joined(separator: ",") + ##","T40":{"type":"integer"}}}"##
    let error = #expect(throws: GenerationSchema.SchemaError.self) {
      try sent(text, to: .llamaCpp)
    }
    #expect(error?.debugDescription.contains("asks too much") == true)
    #expect(try sent(text, to: .vLLM).json["$defs"] != nil)

    let schema = try GenerationSchema(json: text)
    #expect(try schema.validated(["a": 1]) == ["a": 1])
    #expect(throws: SchemaMismatch.self) { try schema.validated(["a": "no number"]) }
  }

  /// Each step into the value doubles what is tried.
  @Test func alternativesThatDoubleInTheDepthEndSoon() throws {
    let schema = try GenerationSchema(
      json: ##"""
        {"$ref": "#/$defs/N", "$defs": {"N": {"anyOf": [
          {"type": "object", "properties": {"a": {"$ref": "#/$defs/N"}}, "required": ["a"]},
          {"type": "object", "properties": {"a": {"$ref": "#/$defs/N"}}, "required": ["a"]},
          {"type": "integer"}]}}}
        """##)
    func nested(_ depth: Int, in innermost: JSONValue) -> JSONValue {
      (0..<depth).reduce(innermost) { value, _ in ["a": value] }
    }
    #expect(try schema.validated(nested(60, in: 1)) == nested(60, in: 1))
    // All of it would be 2 to the power of 60 trials.
    #expect(throws: SchemaMismatch.self) { try schema.validated(nested(60, in: "no number")) }
  }

  /// Many values with many alternatives each need many trials, and get them.
  @Test func alternativesThatAreManyAreAllTried() throws {
    let choices = (0..<400).map { #"{"const":\#($0)}"# }.joined(separator: ",")
    let schema = try GenerationSchema(json: #"{"type":"array","items":{"anyOf":[\#(choices)]}}"#)
    let last = JSONValue.array([JSONValue](repeating: 399, count: 1000))
    #expect(try schema.validated(last) == last)
    var wrong = last.arrayValue ?? []
    wrong[999] = 400
    let error = #expect(throws: SchemaMismatch.self) { try schema.validated(.array(wrong)) }
    #expect(error?.path == "$[999]")
    #expect(error?.reason.contains("alternatives") == true)
  }

  @Test func manyRecursiveTypesStaySmall() throws {
    let names = (0..<6).map { "T\($0)" }
    let properties = names.map { "\"\($0)\":{\"$ref\":\"#/$defs/\($0)\"}" }.joined(separator: ",")
    let definitions = names.map { "\"\($0)\":{\"type\":\"object\",\"properties\":{\(properties)}}" }
    let text =
      "{\"type\":\"object\",\"properties\":{\(properties)},\"$defs\":{"
      + definitions.joined(separator: ",") + "}}"
    let (json, _) = try sent(text, to: .llamaCpp)
    #expect(json.jsonText.utf8.count < 200_000)
  }

  @Test func propertiesGoInTheSchemasOrder() throws {
    let (json, _) = try sent(
      #"{"properties":{"a":{},"b":{},"c":{}},"x-order":["c","a"],"x-note":1}"#, to: .generic)
    #expect(json.jsonText == #"{"properties":{"c":{},"a":{},"b":{}}}"#)
  }

  @Test(
    arguments: [
      ("^[0-9]{4}$", #"^[0-9]{4}$"#), ("^\\d{4}$", "^[0-9]{4}$"), ("^a|b$", nil), ("abc", nil),
      ("^(?:ab|c)+$", "^(ab|c)+$"), ("^[^x]*$", #"^[^x"\\\x00-\x1F]*$"#),
      ("^.?$", "^[^\u{2028}-\u{2029}\"\\\\\\x00-\\x1F]?$"), ("^(?=a)a$", nil), ("^\\p{L}$", nil),
      ("^a\"b$", nil), ("^\\w\\.$", #"^[0-9A-Z_a-z]\.$"#), ("^é+$", "^é+$"), ("^[\\s]$", nil),
    ] as [(String, String?)])
  func patternsAreSentAsASimpleConverterTakesThem(pattern: String, expected: String?) throws {
    #expect(try PatternParser.parse(pattern).simpleText == expected)
  }

  @Test func patternsGoWhereTheServerTakesThem() throws {
    let text = #"""
      {"type":"object","properties":{"a":{"type":"string","pattern":"^\\d$"},
       "b":{"type":"object","properties":{"c":{"type":"string","pattern":"^\\d$"}}}}}
      """#
    let llama = try sent(text, to: .llamaCpp).json
    #expect(llama["properties"]?["a"]?["pattern"] == "^[0-9]$")
    #expect(llama["properties"]?["b"]?["properties"]?["c"] == ["type": "string"])
    var engine = ServerDialect.of(.llamaCpp).grammar
    engine.patterns = .anchored
    let form = try ServerSchema(try GenerationSchema(json: text), within: engine).json
    #expect(form["properties"]?["b"]?["properties"]?["c"]?["pattern"] == "^[0-9]$")
    let vLLM = try sent(text, to: .vLLM).json
    #expect(vLLM["properties"]?["b"]?["properties"]?["c"]?["pattern"] == "^\\d$")
    let look = #"{"properties":{"a":{"pattern":"^(?!a)"}}}"#
    #expect(try sent(look, to: .vLLM).json["properties"]?["a"] == [:])
  }

  @Test func countsBeyondTheGrammarAreLeftOut() throws {
    let (json, _) = try sent(
      #"{"maxLength":2500,"minLength":3,"items":{"maxItems":1999}}"#, to: .llamaCpp)
    #expect(json == ["minLength": 3, "items": ["maxItems": 1999]])
  }

  @Test func aStrictServerGetsEveryPropertyRequired() throws {
    let text = #"""
      {"title":"A","type":"object","properties":{"a":{"type":"string","minLength":1},
       "b":{"type":"integer"}},"required":["a"],"x-order":["b","a"],"additionalProperties":false}
      """#
    let (json, isStrict) = try sent(text, to: .openAI)
    #expect(isStrict)
    #expect(
      json == [
        "title": "A", "type": "object", "additionalProperties": false,
        "properties": [
          "b": ["anyOf": [["type": "integer"], ["type": "null"]]], "a": ["type": "string"],
        ],
        "required": ["a", "b"],
      ])
    // Its null for what is missing is taken as such, and only there.
    let resolved = try GenerationSchema(json: text).resolved()
    let answer = try JSONValue(parsing: #"{"b":null,"a":"x"}"#)
    #expect(try resolved.validatedAnswer(answer).jsonText == #"{"a":"x"}"#)
    #expect(throws: SchemaMismatch.self) { try resolved.validated(answer) }
    #expect(throws: SchemaMismatch.self) {
      try resolved.validatedAnswer(JSONValue(parsing: #"{"b":1,"a":null}"#))
    }
    // Where an object is open, strictness is not asked for.
    let open = #"{"type":"object","properties":{"a":{}}}"#
    #expect(try !sent(open, to: .openAI).isStrict)
    #expect(try sent(open, to: .openAI).json["required"] == nil)
  }
}
