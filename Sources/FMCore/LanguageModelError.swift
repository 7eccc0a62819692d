import FMWire

/// Why a model gave no answer.
///
/// `metadata` of each case is what else its model tells, in its own words.
public enum LanguageModelError: Error, Sendable {
  case contextSizeExceeded(ContextSizeExceeded)
  case rateLimited(RateLimited)
  case guardrailViolation(GuardrailViolation)
  /// The model declines to answer.
  case refusal(Refusal)
  case unsupportedCapability(UnsupportedCapability)
  /// Something that was said, or attached, is of a kind that the model cannot be sent.
  case unsupportedTranscriptContent(UnsupportedTranscriptContent)
  case unsupportedGenerationGuide(UnsupportedGenerationGuide)
  case unsupportedLanguageOrLocale(UnsupportedLanguageOrLocale)
  case timeout(Timeout)
  /// The model said nothing at all, and not because it was done.
  case emptyResponse(EmptyResponse)

  public struct ContextSizeExceeded: Sendable {
    /// nil where nobody told; never 0 in place of unknown.
    public var contextSize: Int?
    public var tokenCount: Int?
    public var debugDescription: String
    public var metadata: [String: any Sendable]
    /// What the server answered, where it was the server that said so.
    public var transport: WireError?

    public init(
      contextSize: Int? = nil, tokenCount: Int? = nil, debugDescription: String,
      metadata: [String: any Sendable] = [:], transport: WireError? = nil
    ) {
      self.contextSize = contextSize
      self.tokenCount = tokenCount
      self.debugDescription = debugDescription
      self.metadata = metadata
      self.transport = transport
    }
  }

  public struct RateLimited: Sendable {
    /// Seconds the server asks to wait; nil where it does not say.
    public var retryAfterSeconds: Double?
    public var debugDescription: String
    public var metadata: [String: any Sendable]
    /// The server's answer with its rate limit headers, and the attempts that were made.
    public var transport: WireError?

    public init(
      retryAfterSeconds: Double? = nil, debugDescription: String,
      metadata: [String: any Sendable] = [:], transport: WireError? = nil
    ) {
      self.retryAfterSeconds = retryAfterSeconds
      self.debugDescription = debugDescription
      self.metadata = metadata
      self.transport = transport
    }
  }

  public struct GuardrailViolation: Sendable {
    public var debugDescription: String
    public var metadata: [String: any Sendable]
    /// The server's answer, where it refused the request and did not stop in the midst of one.
    public var transport: WireError?

    public init(
      debugDescription: String, metadata: [String: any Sendable] = [:], transport: WireError? = nil
    ) {
      self.debugDescription = debugDescription
      self.metadata = metadata
      self.transport = transport
    }
  }

  public struct UnsupportedCapability: Sendable {
    public var capability: LanguageModelCapabilities.Capability
    public var debugDescription: String
    public var metadata: [String: any Sendable]
    /// What the server answered, where it was asked.
    public var transport: WireError?

    public init(
      capability: LanguageModelCapabilities.Capability, debugDescription: String,
      metadata: [String: any Sendable] = [:], transport: WireError? = nil
    ) {
      self.capability = capability
      self.debugDescription = debugDescription
      self.metadata = metadata
      self.transport = transport
    }
  }

  public struct UnsupportedTranscriptContent: Sendable {
    public var unsupportedContent: [Transcript.Entry]
    public var debugDescription: String
    public var metadata: [String: any Sendable]

    public init(
      unsupportedContent: [Transcript.Entry], debugDescription: String,
      metadata: [String: any Sendable] = [:]
    ) {
      self.unsupportedContent = unsupportedContent
      self.debugDescription = debugDescription
      self.metadata = metadata
    }
  }

  public struct UnsupportedGenerationGuide: Sendable {
    public var schemaName: String?
    public var debugDescription: String
    public var metadata: [String: any Sendable]

    public init(
      schemaName: String? = nil, debugDescription: String, metadata: [String: any Sendable] = [:]
    ) {
      self.schemaName = schemaName
      self.debugDescription = debugDescription
      self.metadata = metadata
    }
  }

  public struct UnsupportedLanguageOrLocale: Sendable {
    /// Of BCP 47.
    public var languageCode: String
    public var debugDescription: String
    public var metadata: [String: any Sendable]

    public init(
      languageCode: String, debugDescription: String, metadata: [String: any Sendable] = [:]
    ) {
      self.languageCode = languageCode
      self.debugDescription = debugDescription
      self.metadata = metadata
    }
  }

  public struct Timeout: Sendable {
    public var debugDescription: String
    public var metadata: [String: any Sendable]
    /// Which limit passed, and the attempts that were made.
    public var transport: WireError?

    public init(
      debugDescription: String, metadata: [String: any Sendable] = [:], transport: WireError? = nil
    ) {
      self.debugDescription = debugDescription
      self.metadata = metadata
      self.transport = transport
    }
  }

  public struct EmptyResponse: Sendable {
    public var debugDescription: String
    public var metadata: [String: any Sendable]

    public init(
      debugDescription: String, metadata: [String: any Sendable] = [:]
    ) {
      self.debugDescription = debugDescription
      self.metadata = metadata
    }
  }

  /// What the server answered, where an answer of it is the cause.
  public var transport: WireError? {
    switch self {
    case .contextSizeExceeded(let error): error.transport
    case .rateLimited(let error): error.transport
    case .guardrailViolation(let error): error.transport
    case .unsupportedCapability(let error): error.transport
    case .timeout(let error): error.transport
    case .refusal, .unsupportedTranscriptContent, .unsupportedGenerationGuide,
      .unsupportedLanguageOrLocale, .emptyResponse:
      nil
    }
  }

  public var debugDescription: String {
    switch self {
    case .contextSizeExceeded(let error): error.debugDescription
    case .rateLimited(let error): error.debugDescription
    case .guardrailViolation(let error): error.debugDescription
    case .refusal(let error): error.debugDescription
    case .unsupportedCapability(let error): error.debugDescription
    case .unsupportedTranscriptContent(let error): error.debugDescription
    case .unsupportedGenerationGuide(let error): error.debugDescription
    case .unsupportedLanguageOrLocale(let error): error.debugDescription
    case .timeout(let error): error.debugDescription
    case .emptyResponse(let error): error.debugDescription
    }
  }
}

extension LanguageModelError: CustomDebugStringConvertible {}
