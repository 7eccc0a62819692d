import FMWire
import Testing

@testable import FMCore

@Suite struct GenerationSchemaTests {
  @Test(arguments: [
    (#"{"type":"string"}"#, #""a""#, "1"),
    (#"{"type":["string","null"]}"#, "null", "1"),
    (#"{"type":"integer"}"#, "2.0", "2.5"),
    (#"{"type":"number","minimum":1,"maximum":2}"#, "1.5", "2.5"),
    (#"{"exclusiveMinimum":1}"#, "1.1", "1"),
    (#"{"exclusiveMaximum":1}"#, "0", "1"),
    (#"{"enum":["a",1,null]}"#, "1.0", "2"),
    (#"{"const":{"a":[1]}}"#, #"{"a":[1]}"#, #"{"a":[2]}"#),
    (#"{"minLength":2,"maxLength":3}"#, #""ab""#, #""a""#),
    (#"{"maxLength":1}"#, #""\ud83d\ude00""#, #""ab""#),
    (#"{"type":"array","items":{"type":"boolean"},"minItems":1}"#, "[true]", "[true,1]"),
    (#"{"maxItems":1}"#, "[1]", "[1,2]"),
    (#"{"required":["a"]}"#, #"{"a":null}"#, #"{"b":1}"#),
    (#"{"properties":{"a":{}},"additionalProperties":false}"#, #"{"a":1}"#, #"{"b":1}"#),
    (#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#, "null", "1"),
    (#"{"properties":{"a":false}}"#, "{}", #"{"a":1}"#),
    (
      ##"{"properties":{"next":{"$ref":"#"}},"required":["v"]}"##,
      #"{"v":1,"next":{"v":2}}"#, #"{"v":1,"next":{}}"#
    ),
    (
      ##"{"$defs":{"N":{"type":"integer"}},"items":{"$ref":"#/$defs/N"}}"##, "[1]", #"["x"]"#
    ),
  ])
  func acceptsAndRefuses(schema: String, good: String, bad: String) throws {
    let schema = try GenerationSchema(json: schema)
    try schema.validate(JSONValue(parsing: good))
    #expect(throws: SchemaMismatch.self) { try schema.validate(JSONValue(parsing: bad)) }
  }

  @Test func aMismatchNamesThePlace() throws {
    let schema = try GenerationSchema(
      json: #"{"properties":{"list":{"items":{"properties":{"n":{"type":"integer"}}}}}}"#)
    let error = #expect(throws: SchemaMismatch.self) {
      try schema.validate(JSONValue(parsing: #"{"list":[{"n":1},{"n":"x"}]}"#))
    }
    #expect(error?.path == "$.list[1].n")
  }

  @Test(arguments: [
    "", "3", "[]", #"{"type":"text"}"#, #"{"enum":[]}"#, #"{"required":"a"}"#,
    #"{"properties":[]}"#, #"{"minItems":-1}"#, #"{"minItems":2,"maxItems":1}"#,
    #"{"minimum":2,"maximum":1}"#, ##"{"$ref":"#/$defs/None"}"##, #"{"anyOf":[]}"#,
  ])
  func badSchemasAreRefused(text: String) {
    let error = #expect(throws: SchemaError.self) { try GenerationSchema(json: text) }
    #expect(error?.isUnsupported == false)
  }

  @Test(arguments: [
    #"{"pattern":"^a$"}"#, #"{"allOf":[{}]}"#, #"{"items":{"not":{}}}"#,
    #"{"additionalProperties":{"type":"string"}}"#,
  ])
  func unknownKeywordsAreRefusedRatherThanIgnored(text: String) {
    let error = #expect(throws: SchemaError.self) { try GenerationSchema(json: text) }
    #expect(error?.isUnsupported == true)
  }

  @Test func endlessReferencesEnd() throws {
    let schema = try GenerationSchema(json: ##"{"$ref":"#"}"##)
    #expect(throws: SchemaMismatch.self) { try schema.validate(1) }
  }
}
