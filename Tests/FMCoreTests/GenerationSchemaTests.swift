import FMWire
import Foundation
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
    (#"{"pattern":"^a+$"}"#, #""aa""#, #""ab""#),
    (#"{"allOf":[{"minimum":1},{"maximum":2}]}"#, "2", "3"),
    (#"{"oneOf":[{"type":"integer"},{"minimum":2}]}"#, "2.5", "3"),
    (#"{"not":{"type":"string"}}"#, "1", #""a""#),
    (#"{"if":{"const":1},"then":false,"else":{"type":"string"}}"#, #""a""#, "1"),
    (#"{"multipleOf":0.1}"#, "0.3", "0.35"),
    // Who reads the larger ones gets infinity.
    (#"{"type":"number"}"#, "1.7e308", "-1e400"), ("{}", "[1e-400]", "1E+309"),
    (
      #"{"type":"integer"}"#, String(repeating: "9", count: 308), String(repeating: "9", count: 400)
    ),
    (#"{"maximum":9007199254740993}"#, "9007199254740993", "9007199254740994"),
    (#"{"uniqueItems":true}"#, #"[1,"1",{"a":1,"b":2}]"#, #"[{"a":1,"b":2},{"b":2.0,"a":1}]"#),
    (#"{"prefixItems":[{"type":"string"}],"items":false}"#, #"["a"]"#, #"["a",1]"#),
    (#"{"contains":{"const":1},"maxContains":1}"#, "[1,2]", "[1,1]"),
    (#"{"additionalProperties":{"type":"string"}}"#, #"{"a":"b"}"#, #"{"a":1}"#),
    (#"{"patternProperties":{"^n":{"type":"integer"}}}"#, #"{"n1":1,"a":""}"#, #"{"n1":""}"#),
    (#"{"propertyNames":{"maxLength":1}}"#, #"{"a":1}"#, #"{"ab":1}"#),
    (#"{"minProperties":1,"maxProperties":1}"#, #"{"a":1}"#, "{}"),
    (#"{"dependentRequired":{"a":["b"]}}"#, #"{"b":1}"#, #"{"a":1}"#),
    (##"{"$defs":{"a/b":{"const":1}},"$ref":"#/$defs/a~1b"}"##, "1", "2"),
    (
      ##"{"properties":{"a":{"const":1},"b":{"$ref":"#/properties/a"}}}"##, #"{"b":1}"#, #"{"b":2}"#
    ),
    // A keyword beside a reference counts too.
    (##"{"$defs":{"N":{"type":"integer"}},"$ref":"#/$defs/N","minimum":3}"##, "3", "2"),
  ])
  func acceptsAndRefuses(schema: String, good: String, bad: String) throws {
    let schema = try GenerationSchema(json: schema)
    _ = try schema.validated(JSONValue(parsing: good))
    #expect(throws: SchemaMismatch.self) { try schema.validated(JSONValue(parsing: bad)) }
  }

  @Test func aMismatchNamesThePlace() throws {
    let schema = try GenerationSchema(
      json: #"{"properties":{"list":{"items":{"properties":{"n":{"type":"integer"}}}}}}"#)
    let error = #expect(throws: SchemaMismatch.self) {
      try schema.validated(JSONValue(parsing: #"{"list":[{"n":1},{"n":"x"}]}"#))
    }
    #expect(error?.path == "$.list[1].n")
  }

  @Test func theAlternativeThatWasMeantIsTheOneThatIsTold() throws {
    let schema = try GenerationSchema(
      json: #"{"anyOf":[{"properties":{"n":{"type":"integer"}},"type":"object"},{"type":"null"}]}"#)
    let error = #expect(throws: SchemaMismatch.self) {
      try schema.validated(JSONValue(parsing: #"{"n":"x"}"#))
    }
    #expect(error == SchemaMismatch(path: "$.n", reason: "string where integer is asked for"))
  }

  @Test(arguments: [
    "", "3", "[]", #"{"type":"text"}"#, #"{"enum":[]}"#, #"{"required":"a"}"#,
    #"{"properties":[]}"#, #"{"minItems":-1}"#, #"{"minItems":2,"maxItems":1}"#,
    #"{"minimum":2,"maximum":1}"#, ##"{"$ref":"#/$defs/None"}"##, #"{"anyOf":[]}"#,
    #"{"multipleOf":0}"#, #"{"x-order":["a","a"]}"#, #"{"pattern":1}"#,
    #"{"properties":{"a":{},"a":{}}}"#,
    // What could be checked for ever.
    ##"{"$ref":"#"}"##,
    ##"{"$defs":{"A":{"$ref":"#/$defs/B"},"B":{"anyOf":[{"$ref":"#/$defs/A"}]}}}"##,
  ])
  func badSchemasAreRefused(text: String) {
    let error = #expect(throws: GenerationSchema.SchemaError.self) {
      try GenerationSchema(json: text)
    }
    if case .unsupportedGuide = error { Issue.record("\(text) is not merely unsupported") }
  }

  @Test(arguments: [
    #"{"pattern":"(a)\\1"}"#, #"{"unevaluatedProperties":false}"#, #"{"items":[{}]}"#,
    #"{"nullable":true}"#, #"{"properties":{"a":{"$id":"x"}}}"#, ##"{"$dynamicRef":"#a"}"##,
  ])
  func whatCannotBeCheckedIsRefusedRatherThanIgnored(text: String) {
    let error = #expect(throws: GenerationSchema.SchemaError.self) {
      try GenerationSchema(json: text)
    }
    guard case .unsupportedGuide = error else {
      Issue.record("\(text) gave \(String(describing: error))")
      return
    }
  }

  @Test func membersComeInTheSchemasOrder() throws {
    let schema = try GenerationSchema(
      json: ##"""
        {"x-order":["b","a"],"properties":{"a":{"$ref":"#/$defs/In"},"b":{}},
         "$defs":{"In":{"x-order":["y","x"],"properties":{"x":{},"y":{}}}}}
        """##)
    let value = try schema.validated(
      JSONValue(parsing: #"{"other":0,"a":{"x":1,"y":2},"b":3}"#))
    #expect(value.jsonText == #"{"b":3,"a":{"y":2,"x":1},"other":0}"#)
  }

  @Test func codableKeepsTheSchema() throws {
    let text =
      ##"{"title":"T","type":"object","properties":{"n":{"type":"number","minimum":0.5}}}"##
    let schema = try GenerationSchema(json: text)
    let data = try JSONEncoder().encode(schema)
    #expect(try JSONDecoder().decode(GenerationSchema.self, from: data) == schema)
    #expect(throws: DecodingError.self) {
      try JSONDecoder().decode(GenerationSchema.self, from: Data(#"{"type":"text"}"#.utf8))
    }
  }
}
