import FMCore

@_cdecl("FMTranscriptCreateFromJSONString")
public func fmTranscriptCreateFromJSONString(
  _ json: UnsafePointer<CChar>?, _ code: ErrorCode, _ description: ErrorDescription
) -> UnsafeRawPointer? {
  enter(code, description, else: nil) {
    guard let json, let text = String(validatingCString: json) else {
      throw Failure(
        .decodingFailure, "The transcript is \(json == nil ? "NULL" : "no UTF-8").")
    }
    return HandleTable.shared.insert(
      SessionObject(model: try .optional(nil), transcript: try Transcript(json: text), tools: []))
  }
}

@_cdecl("FMLanguageModelSessionCreateFromTranscript")
public func fmLanguageModelSessionCreateFromTranscript(
  _ transcript: UnsafeRawPointer?, _ model: UnsafeRawPointer?,
  _ tools: UnsafeMutablePointer<UnsafeRawPointer?>?, _ toolCount: Int32
) -> UnsafeRawPointer? {
  enter(else: nil) {
    HandleTable.shared.insert(
      SessionObject(
        model: try ModelObject.optional(model),
        transcript: try SessionObject.from(transcript).session.transcript,
        tools: try ToolObject.list(tools, toolCount)))
  }
}

@_cdecl("FMLanguageModelSessionGetTranscriptJSONString")
public func fmLanguageModelSessionGetTranscriptJSONString(
  _ session: UnsafeRawPointer?, _ code: ErrorCode, _ description: ErrorDescription
) -> UnsafeMutablePointer<CChar>? {
  fmLanguageModelSessionCopyTranscriptJSON(session, false, code, description)
}

@_cdecl("FMLanguageModelSessionCopyTranscriptJSON")
public func fmLanguageModelSessionCopyTranscriptJSON(
  _ session: UnsafeRawPointer?, _ embedsAttachments: Bool, _ code: ErrorCode,
  _ description: ErrorDescription
) -> UnsafeMutablePointer<CChar>? {
  enter(code, description, else: nil) {
    let transcript = try SessionObject.from(session).session.transcript
    return copyString(transcript.jsonText(embeddingAttachments: embedsAttachments))
  }
}

@_cdecl("FMLanguageModelSessionSetHistoryJSON")
public func fmLanguageModelSessionSetHistoryJSON(
  _ session: UnsafeRawPointer?, _ json: UnsafePointer<CChar>?, _ code: ErrorCode,
  _ description: ErrorDescription
) -> Bool {
  enter(code, description, else: false) {
    let session = try SessionObject.from(session).session
    session.nextHistory = try text(json, "history", status: .decodingFailure).map {
      try Transcript(json: $0, withImagesOf: session.transcript)
    }
    return true
  }
}

@_cdecl("FMLanguageModelSessionConfigure")
public func fmLanguageModelSessionConfigure(
  _ session: UnsafeRawPointer?, _ json: UnsafePointer<CChar>?, _ code: ErrorCode,
  _ description: ErrorDescription
) -> Bool {
  enter(code, description, else: false) {
    let session = try SessionObject.from(session).session
    try session.configure(json: try requiredText(json, "session settings"))
    return true
  }
}

@_cdecl("FMLanguageModelSessionPrewarm")
public func fmLanguageModelSessionPrewarm(
  _ session: UnsafeRawPointer?, _ prompt: UnsafeRawPointer?
) {
  enter(else: ()) {
    let object = try SessionObject.from(session)
    let prefix = try prompt.map { try PromptObject.from($0).snapshot() }
    _ = RunningRequests.shared.start { isShutDown in
      guard !isShutDown else { return }
      await object.session.warmUp(promptPrefix: prefix)
    }
  }
}
