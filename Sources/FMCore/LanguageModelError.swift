import FMWire

/// Why a model gave no answer.
public enum LanguageModelError: Error, Sendable {
  case contextSizeExceeded(ContextSizeExceeded)
  case rateLimited(RateLimited)
  case guardrailViolation(GuardrailViolation)
  case refusal(Refusal)
  case unsupportedCapability(UnsupportedCapability)
  case unsupportedGenerationGuide(UnsupportedGenerationGuide)
  case timeout(Timeout)
  /// The model said nothing at all, and not because it was done.
  case emptyResponse(EmptyResponse)

  public struct ContextSizeExceeded: Sendable {
    /// nil where nobody told; never 0 in place of unknown.
    public var contextSize: Int?
    public var tokenCount: Int?
    public var debugDescription: String
    /// What the server answered, where it was the server that said so.
    public var transport: WireError?
  }

  public struct RateLimited: Sendable {
    /// Seconds the server asks to wait; nil where it does not say.
    public var retryAfterSeconds: Double?
    public var debugDescription: String
    /// The server's answer with its rate limit headers, and the attempts that were made.
    public var transport: WireError?
  }

  public struct GuardrailViolation: Sendable {
    public var debugDescription: String
    /// The server's answer, where it refused the request and did not stop in the midst of one.
    public var transport: WireError?
  }

  public struct Refusal: Sendable {
    /// The model's own words.
    public var explanation: String
    public var debugDescription: String
  }

  public struct UnsupportedCapability: Sendable {
    public var capability: LanguageModelCapabilities.Capability
    public var debugDescription: String
    /// What the server answered, where it was asked.
    public var transport: WireError?
  }

  public struct UnsupportedGenerationGuide: Sendable {
    public var schemaName: String?
    public var debugDescription: String
  }

  public struct Timeout: Sendable {
    public var debugDescription: String
    /// Which limit passed, and the attempts that were made.
    public var transport: WireError?
  }

  public struct EmptyResponse: Sendable {
    public var debugDescription: String
  }

  /// What the server answered, where an answer of it is the cause.
  public var transport: WireError? {
    switch self {
    case .contextSizeExceeded(let error): error.transport
    case .rateLimited(let error): error.transport
    case .guardrailViolation(let error): error.transport
    case .unsupportedCapability(let error): error.transport
    case .timeout(let error): error.transport
    case .refusal, .unsupportedGenerationGuide, .emptyResponse: nil
    }
  }

  public var debugDescription: String {
    switch self {
    case .contextSizeExceeded(let error): error.debugDescription
    case .rateLimited(let error): error.debugDescription
    case .guardrailViolation(let error): error.debugDescription
    case .refusal(let error): error.debugDescription
    case .unsupportedCapability(let error): error.debugDescription
    case .unsupportedGenerationGuide(let error): error.debugDescription
    case .timeout(let error): error.debugDescription
    case .emptyResponse(let error): error.debugDescription
    }
  }
}

extension LanguageModelError: CustomDebugStringConvertible {}
