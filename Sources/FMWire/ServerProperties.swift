public struct ServerProperties: Sendable, Equatable {
  /// nil = unknown.
  public var acceptsImages: Bool?
  /// Tokens of one request's context; nil = unknown.
  public var contextSize: Int?
  public init(acceptsImages: Bool? = nil, contextSize: Int? = nil) {
    self.acceptsImages = acceptsImages
    self.contextSize = contextSize
  }

  /// llama.cpp's `/props`.
  init(_ props: JSONValue) {
    acceptsImages = props["modalities"]?["vision"]?.boolValue
    contextSize = props["default_generation_settings"]?["n_ctx"]?.intValue.flatMap {
      $0 > 0 ? $0 : nil
    }
  }
}
