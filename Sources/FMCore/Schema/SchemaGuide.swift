import FMWire

/// A constraint of a property's values, whoever states it: Swift's guides, the C builder, or a
/// declaration in JSON.
package indirect enum SchemaGuide: Sendable, Equatable {
  case constant(String)
  case anyOf([String])
  case pattern(String)
  /// A regex that no pattern can be written for.
  case opaquePattern
  case minimum(Double)
  case maximum(Double)
  case range(Double, Double)
  case minimumCount(Int)
  case maximumCount(Int)
  case count(Int)
  case counts(Int, Int)
  case element(SchemaGuide)

  private var name: String {
    switch self {
    case .constant: "constant"
    case .anyOf: "anyOf"
    case .pattern, .opaquePattern: "pattern"
    case .minimum: "minimum"
    case .maximum: "maximum"
    case .range: "range"
    case .minimumCount: "minimumCount"
    case .maximumCount: "maximumCount"
    case .count, .counts: "count"
    case .element: "element"
    }
  }

  /// Adds the constraint to the schema of a property's type.
  ///
  /// A guide that the type cannot have is an error, also on booleans and nested types, where the
  /// reference drops it without a word.
  func apply(to schema: inout JSONValue, of place: String) throws(GenerationSchema.SchemaError) {
    guard var object = schema.objectValue else { throw unsuited(place, "any value") }
    // The guides of a value that may be null are about the value.
    if case .array(var alternatives) = object["anyOf"],
      let null = alternatives.firstIndex(where: { $0["type"]?.stringValue == "null" }),
      alternatives.count == 2
    {
      try apply(to: &alternatives[1 - null], of: place)
      object["anyOf"] = .array(alternatives)
      schema = .object(object)
      return
    }
    let type = object["type"]?.stringValue
    switch (self, type) {
    case (.constant(let value), "string"): object["const"] = .string(value)
    case (.anyOf(let choices), "string"):
      guard !choices.isEmpty else {
        throw .emptyTypeChoices(
          schema: place,
          context: .init(debugDescription: "\(quoted(place)) is to be one of no values at all."))
      }
      object["enum"] = .array(choices.map(JSONValue.string))
    case (.pattern(let text), "string"):
      do throws(PatternError) {
        _ = try PatternParser.parse(text)
      } catch {
        throw .unsupportedGuide(
          schema: place,
          context: .init(
            debugDescription: "The pattern \(quoted(shortened(text))) of \(quoted(place)) cannot"
              + " be used: \(error.reason) (at character \(error.offset))."))
      }
      object["pattern"] = .string(text)
    case (.opaquePattern, "string"):
      throw .unsupportedGuide(
        schema: place,
        context: .init(
          debugDescription: "The regex of \(quoted(place)) holds code, which no pattern can say;"
            + " use a regex literal or a text."))
    case (.minimum(let bound), "number"), (.minimum(let bound), "integer"):
      object["minimum"] = try number(bound, isWhole: type == "integer", place)
    case (.maximum(let bound), "number"), (.maximum(let bound), "integer"):
      object["maximum"] = try number(bound, isWhole: type == "integer", place)
    case (.range(let low, let high), "number"), (.range(let low, let high), "integer"):
      guard low <= high else {
        throw invalid(place, "its range runs from \(low) down to \(high)")
      }
      object["minimum"] = try number(low, isWhole: type == "integer", place)
      object["maximum"] = try number(high, isWhole: type == "integer", place)
    case (.minimumCount(let count), "array"): object["minItems"] = try self.count(count, place)
    case (.maximumCount(let count), "array"): object["maxItems"] = try self.count(count, place)
    case (.count(let count), "array"):
      object["minItems"] = try self.count(count, place)
      object["maxItems"] = try self.count(count, place)
    case (.counts(let least, let most), "array"):
      object["minItems"] = try self.count(least, place)
      object["maxItems"] = try self.count(most, place)
    case (.element(let guide), "array"):
      guard var items = object["items"] else { throw unsuited(place, "an array of any values") }
      try guide.apply(to: &items, of: place)
      object["items"] = items
    case (.anyOf, "array") where object["items"]?["type"]?.stringValue == "string":
      // Of a list of strings, the choices are those of its elements.
      return try SchemaGuide.element(self).apply(to: &schema, of: place)
    default: throw unsuited(place, type ?? "another type")
    }
    schema = .object(object)
  }

  private func number(
    _ value: Double, isWhole: Bool, _ place: String
  ) throws(GenerationSchema.SchemaError) -> JSONValue {
    guard value.isFinite else { throw invalid(place, "a bound is no finite number") }
    if isWhole || value.rounded() == value, let whole = Int(exactly: value.rounded(.towardZero)) {
      return .number(JSONNumber(whole))
    }
    return JSONNumber(value).map(JSONValue.number) ?? .null
  }

  private func count(
    _ value: Int, _ place: String
  ) throws(GenerationSchema.SchemaError) -> JSONValue {
    guard value >= 0 else { throw invalid(place, "a count is below 0") }
    return .number(JSONNumber(value))
  }

  private func unsuited(_ place: String, _ type: String) -> GenerationSchema.SchemaError {
    .unsupportedGuide(
      schema: place,
      context: .init(
        debugDescription: "The guide \(quoted(name)) of \(quoted(place)) does not suit its type"
          + " (\(type)); remove it or change the type."))
  }

  private func invalid(_ place: String, _ reason: String) -> GenerationSchema.SchemaError {
    .invalid(
      schema: place,
      context: .init(debugDescription: "The guide \(quoted(name)) of \(quoted(place)): \(reason)."))
  }
}
