import FMWire

extension GenerationSchema: Codable {
  public init(from decoder: any Decoder) throws {
    do {
      try self.init(json: try JSONValue(from: decoder))
    } catch let error as SchemaError {
      throw DecodingError.dataCorrupted(
        .init(
          codingPath: decoder.codingPath, debugDescription: error.debugDescription,
          underlyingError: error))
    }
  }

  public func encode(to encoder: any Encoder) throws {
    try resolved().json.encode(to: encoder)
  }
}
