import FMWire
import Synchronization

/// One request to a chat-completions server and its answer, streamed into a session's channel.
struct ChatExchange {
  typealias Channel = LanguageModelExecutorGenerationChannel

  let configuration: ChatConfiguration

  nonisolated(nonsending) func respond(
    to request: LanguageModelExecutorGenerationRequest, streamingInto channel: Channel
  ) async throws {
    let client = ChatCompletionsClient(endpoint: configuration.endpoint)
    if request.transcript.contains(where: \.segments.holdsImages) { try await requireVision() }
    let dialect = await dialect(for: request)
    if request.contextOptions.reasoningLevel != nil { try requireReasoning(of: dialect) }
    let chat = try ChatRequest(request, to: configuration, dialect: dialect)
    try await requireRoom(for: request, textBytes: chat.textByteCount)
    // Written on the I/O thread while the answer comes.
    let gathered = Mutex(Answer())
    var answer = Answer()
    let report: RequestReport
    do {
      let subject = RequestSubject(model: configuration.model, images: chat.pictures)
      let result = try await client.stream(body: chat.body, about: subject, flow: channel.flow) {
        events in
        gathered.withLock { answer in
          for event in events { answer.take(event, channel) }
        }
      }
      answer = gathered.withLock { $0 }
      answer.details = result.details
      report = result.report
    } catch let error as WireError {
      throw Self.translated(error)
    }
    try await finish(answer, of: request, sent: chat, report, channel)
  }

  /// A request of plain text goes out at once; only what servers take differently is worth asking
  /// which one it is.
  private nonisolated(nonsending) func dialect(
    for request: LanguageModelExecutorGenerationRequest
  ) async -> ServerDialect {
    var dialect = ServerDialect.of(.generic)
    if let known = configuration.knownDialect {
      dialect = known
    } else if request.schema != nil || !request.enabledToolDefinitions.isEmpty
      || request.contextOptions.reasoningLevel != nil
    {
      dialect = await configuration.describe().dialect
    }
    if let patterns = configuration.patterns { dialect.grammar.patterns = patterns }
    return dialect
  }

  private nonisolated(nonsending) func requireVision() async throws {
    var sees = configuration.supportsImages
    if sees == nil { sees = await configuration.describe().acceptsImages }
    guard sees != false else {
      throw LanguageModelError.unsupportedCapability(
        .init(
          capability: .vision,
          debugDescription: "The model \(quoted(configuration.model)) takes no pictures; use a"
            + " vision model (for llama.cpp: start it with its mmproj file; for the embedded"
            + " engine: set OPENFM_MMPROJ_PATH)."))
    }
  }

  private func requireReasoning(of dialect: ServerDialect) throws {
    guard dialect.reasoningEffort == .none else { return }
    throw LanguageModelError.unsupportedCapability(
      .init(
        capability: .reasoning,
        debugDescription: "\(configuration.endpoint.baseURL) takes no level of reasoning; leave it"
          + " out, or set it in the server."))
  }

  /// Refuses a request whose input does not fit, where the server counts exactly. Only long ones are
  /// worth a question: text has at least two bytes a token, but for what no one writes.
  private nonisolated(nonsending) func requireRoom(
    for request: LanguageModelExecutorGenerationRequest, textBytes: Int
  ) async throws {
    guard let limit = configuration.contextSize, textBytes / 2 > limit,
      let count = try await ChatTokenCounter(configuration: configuration).count(request),
      count >= limit
    else { return }
    throw LanguageModelError.contextSizeExceeded(
      .init(
        contextSize: limit, tokenCount: count,
        debugDescription: "The request has \(count) tokens and the model's context \(limit);"
          + " nothing was sent. Shorten the prompt or the history, or use a larger context."))
  }

  /// Lets the server read what the next request begins with.
  nonisolated(nonsending) func prewarm(_ transcript: Transcript) async {
    guard let content = try? await prewarmRequest(transcript) else { return }
    let client = ChatCompletionsClient(endpoint: configuration.endpoint)
    guard let events = try? await client.stream(body: content.body) else { return }
    do { for try await _ in events {} } catch {}
  }

  private nonisolated(nonsending) func prewarmRequest(_ transcript: Transcript) async throws
    -> ChatRequest?
  {
    // Only where reading ahead costs nobody money is it done unasked.
    let dialect = await configuration.describe().dialect
    guard dialect.server == .llamaCpp, !transcript.isEmpty else { return nil }
    var transcript = transcript
    switch transcript.last {
    case .prompt, .toolOutput: break
    default:
      transcript.entries.append(
        .prompt(Transcript.Prompt(segments: [.text(Transcript.TextSegment(content: ""))])))
    }
    return try ChatRequest(
      LanguageModelExecutorGenerationRequest(
        transcript: transcript, generationOptions: GenerationOptions(maximumResponseTokens: 1)),
      to: configuration, dialect: dialect)
  }

  private nonisolated(nonsending) func finish(
    _ answer: Answer, of request: LanguageModelExecutorGenerationRequest, sent: ChatRequest,
    _ report: RequestReport, _ channel: Channel
  ) async throws {
    if !answer.refusal.isEmpty {
      throw LanguageModelError.refusal(
        .init(
          explanation: answer.refusal,
          debugDescription: "The model declined to answer: \(answer.refusal)"))
    }
    switch answer.finish {
    case .contentFilter:
      throw LanguageModelError.guardrailViolation(
        .init(debugDescription: "The server's content filter stopped the answer."))
    case .refusal:
      throw LanguageModelError.refusal(
        .init(explanation: "", debugDescription: "The model declined to answer."))
    case .failure:
      let url = configuration.endpoint.baseURL
      throw WireError(
        kind: .endedEarly,
        message: "\(url) gave its answer up, with the finish reason"
          + " \(quoted(answer.finishReason ?? "")); its log tells why", url: url)
    case .stop, .length, .toolCalls, .other, nil: break
    }
    try await checkContext(answer, of: request)
    // A model may choose to say nothing: then the server has counted its end token.
    if !answer.saidAnything, answer.usage?.completionTokens ?? 0 == 0 {
      throw LanguageModelError.emptyResponse(
        .init(
          debugDescription: "\(configuration.endpoint.baseURL) sent an answer without any content;"
            + " look at the server's log (a prompt that is too long is one cause)."))
    }
    var ids: Set<String> = []
    for call in answer.toolCalls {
      // Some give two calls one id; here it is what tells them apart.
      var id = call.id
      while !ids.insert(id).inserted { id += "_\(ids.count)" }
      await channel.send(
        .toolCalls(
          action: .toolCall(
            id: id, name: call.name,
            action: .appendArguments(call.arguments, tokenCount: 1))))
    }
    var metadata: [String: any ConvertibleToGeneratedContent & Sendable] = [
      "images": GeneratedContent(.array(sent.images.map(\.json))),
      "attempts": GeneratedContent(.array(report.attempts.map(\.json))),
      "rateLimits": GeneratedContent(
        .object(JSONObject(report.rateLimits.map { ($0.name, .string($0.value)) }))),
    ]
    if let reason = answer.finishReason { metadata["finishReason"] = reason }
    if let readTokens = answer.usage?.promptTokens,
      let shortfall = PromptShortfall(
        of: request, readTokens: readTokens, textBytes: sent.textByteCount)
    {
      let warning = shortfall.warning(from: configuration.endpoint.baseURL)
      metadata["warnings"] = GeneratedContent(.array([.string(warning)]))
    }
    if !answer.details.members.isEmpty {
      metadata["server"] = GeneratedContent(.object(answer.details))
    }
    await channel.send(.response(action: .updateMetadata(metadata)))
  }

  /// An answer that ran into the end of the context is an error, not a short answer: unless the
  /// caller had set a limit of its own, which is reached quietly.
  private nonisolated(nonsending) func checkContext(
    _ answer: Answer, of request: LanguageModelExecutorGenerationRequest
  ) async throws {
    let wasCut = answer.finish == .length
    guard wasCut || !answer.saidAnything, let prompt = answer.usage?.promptTokens else { return }
    var limit = configuration.contextSize
    if limit == nil { limit = await configuration.describe().contextSize }
    guard let limit else { return }
    let total = prompt + (answer.usage?.completionTokens ?? 0)
    // Engines stop a token or so before the end.
    guard total >= limit - 2 else { return }
    throw LanguageModelError.contextSizeExceeded(
      .init(
        contextSize: limit, tokenCount: total,
        debugDescription: "The conversation and its answer reached the model's context of"
          + " \(limit) tokens (\(total) used); shorten the prompt or use a larger context."))
  }

  private static func translated(_ error: WireError) -> any Error {
    let message = error.message
    return switch error.kind {
    case .contextSizeExceeded:
      LanguageModelError.contextSizeExceeded(
        .init(
          contextSize: error.contextSize, tokenCount: error.tokenCount, debugDescription: message,
          transport: error))
    case .rateLimited:
      LanguageModelError.rateLimited(
        .init(
          retryAfterSeconds: error.retryAfter, debugDescription: message, transport: error))
    case .imagesUnsupported:
      LanguageModelError.unsupportedCapability(
        .init(capability: .vision, debugDescription: message, transport: error))
    case .contentFiltered:
      LanguageModelError.guardrailViolation(.init(debugDescription: message, transport: error))
    case .timeout:
      LanguageModelError.timeout(.init(debugDescription: message, transport: error))
    case .cancelled:
      CancellationError()
    case .invalidURL, .connect, .tls, .server, .authentication, .notFound, .requestTooLarge,
      .invalidResponse, .endedEarly:
      error
    }
  }
}

/// What an answer has said so far, beyond its text.
private struct Answer {
  var finishReason: String?
  var usage: ChatUsage?
  var refusal = ""
  var saidAnything = false
  var toolCalls: [ChatToolCall] = []
  /// What the server told about the answer: its id, the model's name, timings.
  var details = JSONObject()
  var finish: ChatFinish? { finishReason.map { ChatFinish(reason: $0) } }

  mutating func take(_ event: ChatEvent, _ channel: LanguageModelExecutorGenerationChannel) {
    switch event {
    case .text(let text):
      saidAnything = saidAnything || !text.isEmpty
      channel.deliver(.response(action: .appendText(text, tokenCount: 1)))
    case .reasoning(let text):
      saidAnything = saidAnything || !text.isEmpty
      channel.deliver(.reasoning(action: .appendText(text, tokenCount: 1)))
    case .refusal(let text):
      saidAnything = true
      refusal += text
    case .toolCall(let delta):
      saidAnything = true
      // Ids and names may come after the pieces that they belong to: told when all is there.
      toolCalls.take(delta)
    case .finish(let reason):
      finishReason = reason
    case .usage(let counts):
      usage = counts
      channel.deliver(
        .response(
          action: .updateUsage(
            input: .init(
              totalTokenCount: counts.promptTokens, cachedTokenCount: counts.cachedPromptTokens),
            output: .init(
              totalTokenCount: counts.completionTokens,
              reasoningTokenCount: counts.reasoningTokens))))
    }
  }
}
