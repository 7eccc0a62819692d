import FMImaging
import FMWire

/// An error as callers outside Swift see it: a status code, one line for a person, and details.
package struct Failure: Error, Sendable {
  package var status: StatusCode
  package var message: String
  /// The members that OpenFM.h lists at FMEventKindEnd, without "message".
  package var details: JSONObject

  package init(_ status: StatusCode, _ message: String, details: JSONObject = JSONObject()) {
    self.status = status
    self.message = message
    self.details = details
  }

  private static let cancelled = "Operation cancelled"

  /// Whether it is a cancellation, which has no status of its own.
  package var isCancellation: Bool { status == .unknown && message == Self.cancelled }

  /// - Parameter partialText: what had arrived of the answer when the request failed.
  package init(_ error: any Error, partialText: String = "") {
    switch error {
    case let failure as Failure: self = failure
    case let error as ImageError:
      self.init(StatusCode(error.kind), error.message, details: ["path": error.path])
    case let error as PromptError: self.init(error)
    case let error as ModelError: self.init(StatusCode(error.kind), error.message)
    case let error as LanguageModelError: self.init(error)
    case let error as WireError: self.init(error)
    case let error as EngineError:
      let status: StatusCode =
        switch error.kind {
        case .notStarted: .engineNotStarted
        case .failed: .engineFailed
        case .died: .engineDied
        }
      self.init(status, error.message, details: ["log_tail": error.logTail])
    case let error as GenerationSchema.SchemaError:
      let isUnsupported = if case .unsupportedGuide = error { true } else { false }
      self.init(isUnsupported ? .unsupportedGuide : .invalidSchema, error.debugDescription)
    case let error as ImageReference.UnknownLabel:
      self.init(
        .unknownLabel, error.debugDescription,
        details: ["label": error.label, "labels": error.knownLabels])
    case let error as GeneratedContent.ParsingError:
      self.init(
        .decodingFailure, error.debugDescription,
        details: [
          "raw_content": error.rawContent,
          "json_path": (error.underlyingError as? SchemaMismatch)?.path,
        ])
    case let error as TranscriptError: self.init(.decodingFailure, error.message)
    case let error as ToolDefinitionError: self.init(.invalidArgument, error.message)
    case let error as LanguageModelSession.ToolCallError:
      self.init(
        .toolCall,
        "The tool \(quoted(error.tool.name)) failed: \(toolErrorText(error.underlyingError))",
        details: [
          "tool_name": error.tool.name,
          "call_id": (error.underlyingError as? ReportedToolError).map { Int($0.callID) },
        ])
    case let error as LanguageModelSession.ToolRoundLimitError:
      self.init(
        .toolRoundLimit,
        "The model called tools \(error.limit) times in a row without an answer; raise the limit, or"
          + " tell it in the instructions when to stop.",
        details: ["limit": error.limit])
    case let error as ReportedToolError: self.init(.unknown, error.message)
    case let error as ToolRequestError: self.init(.toolCall, error.message)
    case LanguageModelSession.Error.transcriptMutationWhileResponding:
      self.init(
        .unknown, "The transcript was set while the session answered; the answer is not in it.")
    case LanguageModelSession.Error.concurrentRequests:
      self.init(
        .concurrentRequests,
        "The session is still answering; wait for that answer, or use a session of its own.")
    case SystemLanguageModel.Error.assetsUnavailable(let error):
      self.init(.assetsUnavailable, error.debugDescription)
    case is CancellationError:
      self.init(.unknown, Self.cancelled)
    default:
      self.init(.unknown, String(describing: error))
    }
    if !partialText.isEmpty { details["partial_text"] = .string(partialText) }
  }

  private init(_ error: PromptError) {
    switch error {
    case .invalidText: self.init(.invalidPromptText, error.message)
    case .duplicateLabel(let label):
      self.init(.duplicateLabel, error.message, details: ["label": label])
    case .invalidLabel(let label):
      self.init(.invalidLabel, error.message, details: ["label": label])
    case .emptyPrompt: self.init(.emptyPrompt, error.message)
    case .invalidOrientation: self.init(.invalidOrientation, error.message)
    }
  }

  private init(_ error: LanguageModelError) {
    let message = error.debugDescription
    switch error {
    case .contextSizeExceeded(let error):
      self.init(
        .exceededContextWindowSize, message,
        details: ["token_count": error.tokenCount, "context_size": error.contextSize])
    case .rateLimited(let error):
      self.init(.rateLimited, message, details: ["retry_after": error.retryAfterSeconds])
    case .guardrailViolation: self.init(.guardrailViolation, message)
    case .refusal(let error):
      self.init(.refusal, message, details: ["explanation": error.explanationText])
    case .unsupportedCapability(let error):
      self.init(.unsupportedCapability, message, details: ["capability": error.capability.name])
    case .unsupportedTranscriptContent: self.init(.unknown, message)
    case .unsupportedGenerationGuide: self.init(.unsupportedGuide, message)
    case .unsupportedLanguageOrLocale: self.init(.unsupportedLanguageOrLocale, message)
    case .timeout: self.init(.timeout, message)
    case .emptyResponse: self.init(.emptyResponse, message)
    }
    if let transport = error.transport { add(transport) }
  }

  private init(_ error: WireError) {
    let status: StatusCode =
      switch error.kind {
      case .invalidURL: .invalidURL
      case .connect: .connect
      case .tls: .tls
      case .timeout: .timeout
      case .server: .server
      case .authentication: .authentication
      case .notFound: .notFound
      case .rateLimited: .rateLimited
      case .contextSizeExceeded: .exceededContextWindowSize
      case .requestTooLarge: .requestTooLarge
      case .imagesUnsupported: .unsupportedCapability
      case .contentFiltered: .guardrailViolation
      case .invalidResponse: .invalidResponse
      case .endedEarly: .endedEarly
      case .cancelled: .unknown
      }
    self.init(status, error.message)
    add(error)
  }

  /// Adds what is known of a request that failed.
  private mutating func add(_ error: WireError) {
    let known: KeyValuePairs<String, (any DetailValue)?> = [
      "url": error.url, "http_status": error.httpStatus, "body": error.body,
      "token_count": error.tokenCount, "context_size": error.contextSize,
      "retry_after": error.retryAfter,
    ]
    for (name, value) in known {
      if let value, details[name] == nil { details[name] = value.detail }
    }
    if !error.rateLimits.isEmpty {
      details["rate_limits"] = .object(
        JSONObject(error.rateLimits.map { ($0.name, .string($0.value)) }))
    }
    if !error.attempts.isEmpty { details["attempts"] = .array(error.attempts.map(\.json)) }
  }

  /// The details with the message first, as JSON text.
  package var json: String {
    JSONValue.object(
      JSONObject([("message", .string(message))] + details.members.map { ($0.name, $0.value) })
    ).jsonText
  }
}

extension StatusCode {
  init(_ kind: ModelError.Kind) {
    self =
      switch kind {
      case .notInstalled: .assetsUnavailable
      case .badReference: .invalidArgument
      case .badFile: .invalidResponse
      case .storage: .modelStorage
      case .unreachable: .connect
      case .cancelled: .unknown
      }
  }

  init(_ kind: ImageError.Kind) {
    self =
      switch kind {
      case .notFound: .imageNotFound
      case .notAFile: .imageNotAFile
      case .notReadable: .imageNotReadable
      case .empty: .imageEmpty
      case .notAnImage: .notAnImage
      case .unsupportedFormat: .unsupportedImageFormat
      case .corrupt: .corruptImage
      case .tooLarge: .imageTooLarge
      case .changed: .imageChanged
      case .invalidPath: .invalidImagePath
      }
  }
}

/// A value of the details; nil leaves the member out.
private protocol DetailValue {
  var detail: JSONValue { get }
}
extension String: DetailValue { fileprivate var detail: JSONValue { .string(self) } }
extension [String]: DetailValue {
  fileprivate var detail: JSONValue { .array(map(JSONValue.string)) }
}
extension Int: DetailValue { fileprivate var detail: JSONValue { .number(JSONNumber(self)) } }
extension Double: DetailValue {
  fileprivate var detail: JSONValue { JSONNumber(self).map(JSONValue.number) ?? .null }
}

extension Failure {
  private init(
    _ status: StatusCode, _ message: String, details: KeyValuePairs<String, (any DetailValue)?>
  ) {
    self.init(
      status, message,
      details: JSONObject(details.compactMap { name, value in value.map { (name, $0.detail) } }))
  }
}
