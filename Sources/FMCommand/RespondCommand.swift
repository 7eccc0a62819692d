import FMCore
import FMImaging
import FMWire
import Glibc

/// `fm respond`: one prompt, one answer.
struct RespondCommand {
  let arguments: RespondArguments
  let console: Console

  /// Seconds that a cancelled request has to end in.
  private static let grace: Double = 2

  /// - Throws: `UsageError`, `Stop`, or a `Failure`; a failure is on stdout as JSON by then where
  ///   that was asked for.
  func run() throws {
    try console.tellingFailure(asJSON: arguments.asksJSON) { try answer() }
  }

  private func answer() throws {
    // Everything that can be wrong without a model is, before anything waits or is sent.
    let images = try loadImages()
    let schema = try arguments.schema.map { try GenerationSchema(json: schemaText($0)) }
    let model = try ModelChoice(
      url: arguments.modelURL, name: arguments.model, timeout: arguments.timeoutSeconds)
    let prompt = try makePrompt(images)
    let request = LanguageModelSession.Request(
      prompt: prompt, schema: schema, options: arguments.options)

    let streams = !arguments.asksJSON && (arguments.streams ?? console.outputIsTerminal)
    let start = ContinuousClock.now
    let mailbox = try AnswerMailbox()
    let answer = try ask(model, request, mailbox) { text in
      if streams { try console.write(text) }
    }
    let seconds = (ContinuousClock.now - start).inSeconds
    if arguments.asksJSON {
      try console.write(json(answer, seconds: seconds).jsonText + "\n")
    } else if !streams {
      try console.write(answer.response.content?.jsonString ?? answer.response.text)
    }
    try console.endLine()
    for warning in answer.response.metadata["warnings"]?.jsonValue.arrayValue ?? [] {
      console.report(warning.stringValue ?? warning.jsonText)
    }
    if arguments.isVerbose {
      report(answer, seconds, firstText: mailbox.firstTextAt.map { ($0 - start).inSeconds })
    }
  }

  // MARK: - The prompt

  private func loadImages() throws -> [Attachment<ImageAttachmentContent>] {
    try arguments.pieces.compactMap { piece in
      guard case .image(let image) = piece else { return nil }
      if let label = image.label { try validateLabel(label) }
      let attachment = try Attachment(validating: image.path, orientation: image.orientation)
      return image.label.map(attachment.label) ?? attachment
    }
  }

  private func makePrompt(_ images: [Attachment<ImageAttachmentContent>]) throws -> Prompt {
    let input = StandardInput(console: console)
    var images = images[...]
    var components: [PromptComponent] = []
    for piece in arguments.pieces {
      switch piece {
      case .text(let text): components.append(.text(text))
      case .image: components.append(.image(images.removeFirst()))
      case .standardInput:
        if let text = try input.read(.asked) { components.append(.text(text)) }
      }
    }
    if !arguments.pieces.contains(.standardInput) {
      let text = try input.read(arguments.hasText ? .asContext : .asPrompt)
      if let text { components.append(.text(text)) }
    }
    if let prompt = arguments.prompt { components.append(.text(prompt)) }
    let isEmpty = components.allSatisfy {
      if case .text(let text) = $0 { text.isEmpty } else { false }
    }
    if isEmpty {
      throw UsageError(
        message: "there is no prompt; write fm respond \"...\", or give it on stdin")
    }
    let prompt = Prompt(components)
    try prompt.validate()
    return prompt
  }

  private func schemaText(_ argument: String) throws -> String {
    if argument.first(where: { !$0.isWhitespace }) == "{" { return argument }
    let descriptor = open(argument, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else {
      throw Failure(
        .unknown,
        "Cannot read the schema \(quoted(argument)): \(String(cString: strerror(errno)))."
          + " Give a file's path, or the schema itself, which begins with {.",
        details: JSONObject([("path", .string(argument))]))
    }
    defer { close(descriptor) }
    var status = stat()
    guard fstat(descriptor, &status) != 0 || status.st_mode & S_IFMT != S_IFDIR else {
      throw Failure(
        .unknown,
        "Cannot read the schema \(quoted(argument)): it is a directory. Give a file's path, or the"
          + " schema itself, which begins with {.",
        details: JSONObject([("path", .string(argument))]))
    }
    do {
      return try readText(descriptor, named: "the schema \(quoted(argument))", limit: 16 << 20)
    } catch var failure as Failure {
      if failure.status == .invalidPromptText { failure.status = .invalidSchema }
      failure.details["path"] = .string(argument)
      throw failure
    }
  }

  // MARK: - The request

  /// Runs the request and hands over its text as it comes, on this thread. Cancels it at an
  /// interrupt, at the deadline and when the text cannot be written.
  private func ask(
    _ model: ModelChoice, _ request: LanguageModelSession.Request, _ mailbox: AnswerMailbox,
    onText: (String) throws -> Void
  ) throws -> AnswerMailbox.Answer {
    let instructions = arguments.instructions
    let task = Task {
      do {
        let model = try await model.resolved()
        let session = model.makeSession(instructions: instructions)
        let outcome = await session.perform(
          request, try session.reserve(), flow: mailbox.flow
        ) { mailbox.put($0) }
        mailbox.end(
          outcome.result
            .map { AnswerMailbox.Answer(response: $0, model: model.description) }
            .mapError { Failure($0, partialText: outcome.partialText) })
      } catch {
        mailbox.end(.failure(Failure(error)))
      }
    }
    let result: Result<AnswerMailbox.Answer, Failure>?
    do {
      result = try follow(mailbox, seconds: arguments.timeoutSeconds, onText)
    } catch {
      task.cancel()
      if (try? follow(mailbox, seconds: Self.grace) { _ in }) == nil { abandon() }
      throw error
    }
    if let result { return try result.get() }
    task.cancel()
    return try timedOut(after: arguments.timeoutSeconds ?? 0, mailbox)
  }

  /// The request's end; nil when it takes longer than `seconds` (nil: there is no limit).
  private func follow(
    _ mailbox: AnswerMailbox, seconds: Double?, _ onText: (String) throws -> Void
  ) throws -> Result<AnswerMailbox.Answer, Failure>? {
    let deadline = seconds.map { ContinuousClock.now.advanced(by: .seconds($0)) }
    while true {
      var milliseconds: Int32 = -1
      if let deadline {
        milliseconds = Int32(max(0, ((deadline - .now).inSeconds * 1000).rounded(.up)))
      }
      guard
        try console.wait(for: mailbox.descriptor, POLLIN, milliseconds: milliseconds)
      else { return nil }
      switch mailbox.take() {
      case .text(let text): try onText(text)
      case .end(let result): return result
      }
    }
  }

  private func timedOut(
    after seconds: Double, _ mailbox: AnswerMailbox
  ) throws -> AnswerMailbox.Answer {
    let end = try follow(mailbox, seconds: Self.grace) { _ in }
    if end == nil { abandon() }
    switch end {
    // It was complete at the very moment.
    case .success(let answer): return answer
    case .failure(let cancelled):
      var failure = Self.timeout(seconds)
      failure.details["partial_text"] = cancelled.details["partial_text"]
      throw failure
    case nil: throw Self.timeout(seconds)
    }
  }

  private static func timeout(_ seconds: Double) -> Failure {
    Failure(
      .timeout,
      "The answer was not complete after \(formatted(seconds)) s; allow more with --timeout, or"
        + " ask for less with --max-tokens.")
  }

  private func abandon() { console.hasAbandonedWork = true }

  // MARK: - The answer

  private func json(_ answer: AnswerMailbox.Answer, seconds: Double) -> JSONValue {
    let response = answer.response
    return [
      "content": response.content?.jsonValue ?? .string(response.text),
      "finish_reason": response.metadata["finishReason"]?.jsonValue ?? .null,
      "usage": response.usage.json,
      "images": response.metadata["images"]?.jsonValue ?? [],
      "model": answer.model.json,
      "seconds": JSONNumber((seconds * 1000).rounded() / 1000).map(JSONValue.number) ?? .null,
    ]
  }

  private func report(
    _ answer: AnswerMailbox.Answer, _ seconds: Double, firstText: Double?
  ) {
    let response = answer.response
    console.note("model: " + answer.model.line)
    for (index, image) in (response.metadata["images"]?.jsonValue.arrayValue ?? []).enumerated() {
      func text(_ name: String) -> String {
        image[name].map { $0.stringValue ?? $0.jsonText } ?? "?"
      }
      let label = image["label"]?.stringValue.map { " " + quoted($0) } ?? ""
      console.note(
        "image \(index + 1)\(label): \(text("original_width"))x\(text("original_height")) sent as"
          + " \(text("width"))x\(text("height")) \(text("mime_type")),"
          + " \(text("byte_count")) bytes, \(text("action"))")
    }
    func count(_ value: Int?) -> String { value.map(String.init) ?? "?" }
    var tokens = "tokens: \(count(response.usage.input.reportedTotalTokenCount)) in"
    if let cached = response.usage.input.reportedCachedTokenCount {
      tokens += " (\(cached) cached)"
    }
    tokens += ", \(count(response.usage.output.reportedTotalTokenCount)) out"
    if let reasoning = response.usage.output.reportedReasoningTokenCount {
      tokens += " (\(reasoning) reasoning)"
    }
    console.note(tokens)
    if let reason = response.metadata["finishReason"]?.jsonValue.stringValue {
      console.note("finish: \(reason)")
    }
    let first = firstText.map { ", the first text after \(formatted($0)) s" } ?? ""
    console.note("time: \(formatted(seconds)) s\(first)")
  }
}

extension RespondArguments {
  /// Whether there is a text to send without stdin.
  fileprivate var hasText: Bool {
    prompt != nil || pieces.contains { if case .text = $0 { true } else { false } }
  }
}

extension Duration {
  fileprivate var inSeconds: Double {
    Double(components.seconds) + Double(components.attoseconds) * 1e-18
  }
}

/// Seconds with as many digits as matter.
private func formatted(_ seconds: Double) -> String {
  let rounded = (seconds * 100).rounded() / 100
  return rounded == rounded.rounded() ? String(Int(rounded)) : String(rounded)
}
