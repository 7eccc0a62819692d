import FMWire

/// What stands around the entries in a transcript's JSON.
struct TranscriptEnvelope: Sendable {
  static let type = "FoundationModels.Transcript"

  /// As it was read; 1 for a transcript made here.
  var version: JSONValue = 1
  var unknownMembers = JSONObject()
  /// Those of the `transcript` object.
  var unknownInnerMembers = JSONObject()
}

/// Why a text is no transcript.
public struct TranscriptError: Error, Sendable, Equatable {
  /// A JSONPath such as `$.transcript.entries[2].contents`.
  public var path: String
  /// One sentence for a person, with the path.
  public var message: String

  init(_ path: String, _ reason: String) {
    self.path = path
    message = "The transcript cannot be read at \(path): \(reason)."
  }
}
