import FMWire

/// Asks a server how many tokens a request's input has, in whatever way its dialect knows.
struct ChatTokenCounter {
  let configuration: ChatConfiguration

  /// nil where the server cannot count, or does not answer.
  nonisolated(nonsending) func count(
    _ request: LanguageModelExecutorGenerationRequest
  ) async throws -> Int? {
    let dialect = await configuration.describe().dialect
    guard !dialect.tokenCounting.isEmpty else { return nil }
    let body = try ChatRequest(request, to: configuration, dialect: dialect).body
    let holdsImages = request.transcript.contains(where: \.segments.holdsImages)
    for way in dialect.tokenCounting {
      try Task.checkCancellation()
      let count: Int?
      switch way {
      case .inputTokens:
        count = await ask("v1/chat/completions/input_tokens", body)?["input_tokens"]?.intValue
      case .templateAndTokenize: count = holdsImages ? nil : await countTemplate(body)
      case .tokenizeMessages:
        count = holdsImages ? nil : await ask("tokenize", body)?["count"]?.intValue
      }
      if let count, count > 0 { return count }
    }
    return nil
  }

  private nonisolated(nonsending) func countTemplate(_ body: RequestBody) async -> Int? {
    guard let prompt = await ask("apply-template", body)?["prompt"] else { return nil }
    let question: JSONValue = ["content": prompt, "add_special": true, "parse_special": true]
    return await ask("tokenize", RequestBody(Array(question.jsonText.utf8)))?["tokens"]?.arrayValue?
      .count
  }

  private nonisolated(nonsending) func ask(_ page: String, _ body: RequestBody) async -> JSONValue?
  {
    let client = ChatCompletionsClient(endpoint: configuration.endpoint)
    guard let (head, answer) = try? await client.page(page, body: body), head.status == 200 else {
      return nil
    }
    return try? JSONValue(parsing: answer)
  }
}
