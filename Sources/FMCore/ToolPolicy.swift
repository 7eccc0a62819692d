/// How a session treats its tools.
public struct ToolPolicy: Sendable, Equatable {
  /// What becomes of an error that a tool throws, of arguments that do not fit its schema, and of a
  /// call to a tool that there is not.
  public enum ErrorHandling: String, Sendable, CaseIterable {
    /// The request throws `LanguageModelSession.ToolCallError`.
    case `throw`
    /// The model reads `Tool error: ...` as the tool's output and goes on.
    case output
  }

  public var errorHandling = ErrorHandling.throw
  /// How often in one request the model may call tools before it must answer; at least 1. One time
  /// more is `LanguageModelSession.ToolRoundLimitError`.
  public var maximumRounds = 10

  public init() {}
}

extension LanguageModelSession {
  /// A tool's call failed.
  public struct ToolCallError: Swift.Error {
    public var tool: any Tool
    public var underlyingError: any Swift.Error

    public init(tool: any Tool, underlyingError: any Swift.Error) {
      self.tool = tool
      self.underlyingError = underlyingError
    }
  }

  /// The model asked for tools again and again.
  public struct ToolRoundLimitError: Swift.Error, Sendable, Equatable {
    public var limit: Int
  }
}

/// A call that the model got wrong.
public enum ToolRequestError: Error, Sendable, Equatable {
  case unknownTool(known: [String])
  /// The arguments are no JSON.
  case malformedArguments(String, reason: String)
  /// They are not valid by the tool's parameters.
  case invalidArguments(String, reason: String)

  public var message: String {
    switch self {
    case .unknownTool(let known):
      known.isEmpty
        ? "there are no tools" : "there is no such tool; there are \(known.joined(separator: ", "))"
    case .malformedArguments(let text, let reason):
      "the arguments are no JSON (\(reason)): \(shortened(text))"
    case .invalidArguments(let text, let reason):
      "the arguments do not fit its parameters (\(reason)): \(shortened(text))"
    }
  }
}

/// What a tool outside Swift reported in place of an output.
package struct ReportedToolError: Error, Sendable {
  package var message: String
  /// As the caller knows the call; see FMBridgedToolFinishCall.
  package var callID: UInt32

  package init(message: String, callID: UInt32) {
    self.message = message
    self.callID = callID
  }
}

/// What a tool's error says to a person or a model.
func toolErrorText(_ error: any Error) -> String {
  switch error {
  case let error as ReportedToolError: error.message
  case let error as ToolRequestError: error.message
  default: Failure(error).message
  }
}
