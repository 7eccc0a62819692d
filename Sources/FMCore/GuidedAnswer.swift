import FMWire

/// The check that a guided answer goes through, whatever the server said of it.
struct GuidedAnswer: Sendable {
  /// The schema as it is sent and checked: image references limited to what is attached.
  let schema: GenerationSchema
  private let resolved: ResolvedSchema
  private let contentID: GenerationID

  /// - Parameter transcript: everything that is sent, the prompt included.
  /// - Throws: `GenerationSchema.SchemaError`; also for a schema that asks for an image reference
  ///   where no picture has a label.
  init(
    _ schema: GenerationSchema, in transcript: Transcript, contentID: GenerationID
  ) throws(GenerationSchema.SchemaError) {
    self.contentID = contentID
    let resolved = try schema.resolved()
    guard schema.namesImages else {
      self.schema = schema
      self.resolved = resolved
      return
    }
    let labels = transcript.labelledImages.map(\.label)
    guard !labels.isEmpty else {
      if let rest = try schema.leavingOutImageReferences() {
        self.schema = rest
        self.resolved = try rest.resolved()
        return
      }
      throw .unsupportedGuide(
        schema: schema.name,
        context: .init(
          debugDescription: "The schema \(quoted(schema.name)) asks for an image reference, but no"
            + " attached picture has a label; attach one with a label."))
    }
    self.schema = try schema.limitingImageReferences(to: labels)
    self.resolved = try self.schema.resolved()
  }

  /// The answer as a value that is valid by the schema, its members in the schema's order.
  ///
  /// - Parameter isCut: the answer ended because it reached its limit of tokens.
  func content(of text: String, isCut: Bool) throws(GeneratedContent.ParsingError)
    -> GeneratedContent
  {
    let value: JSONValue
    do {
      value = try JSONValue(parsing: jsonPart(of: text))
    } catch {
      let reason =
        isCut
        ? "it was cut off at the limit of tokens; allow more, or ask for less"
        : "\(error.message) at byte \(error.offset)"
      throw GeneratedContent.ParsingError(
        rawContent: text, underlyingError: error,
        debugDescription: "The answer is no JSON: \(reason). It was"
          + " \(quoted(shortened(text, to: 200)))")
    }
    return try GeneratedContent(
      value, validBy: resolved, name: schema.name, text: text, id: contentID,
      isAnswer: true)
  }

  /// What a model is told whose answer was not valid.
  func repairPrompt(after error: GeneratedContent.ParsingError) -> Transcript.Prompt {
    let reason: String
    switch error.underlyingError {
    case let mismatch as SchemaMismatch: reason = "at \(mismatch.path): \(mismatch.reason)"
    case let error as JSONError: reason = "it is no JSON: \(error.message)"
    default: reason = error.debugDescription
    }
    return Transcript.Prompt(
      segments: [
        .text(
          Transcript.TextSegment(
            content: "Your answer is not valid by the JSON Schema, \(reason)."
              + " Answer again, with the corrected JSON and nothing else."))
      ],
      responseFormat: Transcript.ResponseFormat(schema: schema),
      // The prompt before it has told the schema.
      contextOptions: ContextOptions(includeSchemaInPrompt: false))
  }
}

extension GeneratedContent {
  /// JSON text that is valid by the schema, its members in the schema's order.
  ///
  /// - Throws: `ParsingError` with the path of what is not valid; `GenerationSchema.SchemaError`.
  public init(json text: String, schema: GenerationSchema) throws {
    let resolved = try schema.resolved()
    let value: JSONValue
    do {
      value = try JSONValue(parsing: text)
    } catch {
      throw ParsingError(
        rawContent: text, underlyingError: error,
        debugDescription: "The text is no JSON: \(error.message) at byte \(error.offset).")
    }
    try self.init(
      value, validBy: resolved, name: schema.name, text: text, id: nil,
      isAnswer: false)
  }

  fileprivate init(
    _ value: JSONValue, validBy schema: ResolvedSchema, name: String, text: String,
    id: GenerationID?, isAnswer: Bool
  ) throws(ParsingError) {
    do throws(SchemaMismatch) {
      self.init(
        try isAnswer ? schema.validatedAnswer(value) : schema.validated(value), id: id)
    } catch {
      throw ParsingError(
        rawContent: text, underlyingError: error,
        debugDescription: "The answer is not valid by the schema \(quoted(name)) at"
          + " \(error.path): \(error.reason). It was \(shortened(text, to: 200))")
    }
  }
}

/// The answer without the code fence that models put around JSON where no grammar keeps them from it.
private func jsonPart(of text: String) -> String {
  let trimmed = text.trimmingWhitespace
  guard trimmed.hasPrefix("```"), trimmed.hasSuffix("```"), trimmed.utf8.count >= 6,
    let newline = trimmed.firstIndex(of: "\n")
  else { return text }
  return String(trimmed[trimmed.index(after: newline)...].dropLast(3))
}

extension String {
  fileprivate var trimmingWhitespace: Substring {
    var rest = self[...]
    while rest.first?.isWhitespace == true { rest.removeFirst() }
    while rest.last?.isWhitespace == true { rest.removeLast() }
    return rest
  }
}

/// The text by which a prompt tells its schema; the same for the same schema, so that a server's
/// prefix cache stays warm.
func schemaText(_ schema: GenerationSchema) -> String {
  "Answer with JSON that is valid by this JSON Schema, and nothing else:\n"
    + schema.json.withoutOrder.jsonText
}

extension JSONValue {
  /// Without `x-order`, which says nothing that the order of the properties does not.
  fileprivate var withoutOrder: JSONValue {
    switch self {
    case .array(let elements): .array(elements.map(\.withoutOrder))
    case .object(let object):
      .object(
        JSONObject(
          object.members.filter { $0.name != "x-order" }.map { ($0.name, $0.value.withoutOrder) }))
    default: self
    }
  }
}
