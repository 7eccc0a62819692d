extension LanguageModelError {
  public struct Refusal: Sendable {
    /// The model's own words; empty where it gave none.
    package var explanationText: String
    public var debugDescription: String
    public var metadata: [String: any Sendable]

    public init(
      explanation: String, debugDescription: String, metadata: [String: any Sendable] = [:]
    ) {
      explanationText = explanation
      self.debugDescription = debugDescription
      self.metadata = metadata
    }

    /// The model's own words; empty where it gave none. They came with the refusal: reading them asks
    /// nobody and does not fail, for all that models of others may do both.
    public var explanation: Response<String> {
      get async throws { completed.textResponse() }
    }

    public var explanationStream: ResponseStream<String> {
      let completed = completed
      return ResponseStream(
        start: { StreamDriver(completed) },
        snapshot: { text in
          .init(
            content: text, rawContent: GeneratedContent(.string(text)),
            transcriptEntries: completed.entries, usage: completed.usage)
        },
        response: { $0.textResponse() })
    }

    private var completed: CompletedResponse {
      CompletedResponse(
        text: explanationText, usage: Usage(), metadata: [:],
        timing: ResponseTiming(firstTextSeconds: nil, totalSeconds: 0), entries: [])
    }
  }
}
