import FMCore

/// How the command ends. `fm --help` documents the numbers, which never change their meaning.
enum ExitCode: Int32 {
  case success = 0
  /// The request failed, or a file that it names is missing or damaged.
  case failure = 1
  /// The command line, or something given on it, is wrong; nothing was sent.
  case usage = 2
  /// The model declined, or a content filter stopped it.
  case refused = 3
  case contextOverflow = 4
  /// There is no model to ask: none is installed, its engine does not start, its server is not
  /// reached or says 503.
  case unavailable = 5
  case rateLimited = 6
  /// 128 + SIGINT, as a shell reports it.
  case interrupted = 130
  /// 128 + SIGPIPE: nobody reads the output any more.
  case outputClosed = 141

  init(_ failure: Failure) {
    self =
      switch failure.status {
      case .exceededContextWindowSize: .contextOverflow
      case .guardrailViolation, .refusal: .refused
      case .rateLimited: .rateLimited
      case .assetsUnavailable, .connect, .tls, .engineNotStarted, .engineFailed: .unavailable
      case .server where failure.details["http_status"]?.intValue == 503: .unavailable
      case .invalidArgument, .invalidSchema, .unsupportedGuide, .invalidURL, .invalidPromptText,
        .duplicateLabel, .invalidLabel, .emptyPrompt, .invalidOrientation:
        .usage
      default: .failure
      }
  }
}
