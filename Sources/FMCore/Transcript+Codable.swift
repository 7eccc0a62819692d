import FMWire

/// In the exported form; see `init(json:)` and `jsonText`.
extension Transcript: Codable {
  public init(from decoder: any Decoder) throws {
    do {
      self = try TranscriptReader().read(try JSONValue(from: decoder))
    } catch let error as TranscriptError {
      throw DecodingError.dataCorrupted(
        .init(
          codingPath: decoder.codingPath, debugDescription: error.message, underlyingError: error))
    }
  }

  public func encode(to encoder: any Encoder) throws {
    try TranscriptWriter().json(self).encode(to: encoder)
  }
}
