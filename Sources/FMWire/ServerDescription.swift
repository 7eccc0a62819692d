/// What is known of a server and one of its models; nil = it does not tell.
package struct ServerDescription: Sendable, Equatable {
  package var dialect: ServerDialect
  /// As the server writes it.
  package var version: String?
  package var acceptsImages: Bool?
  package var supportsTools: Bool?
  /// Tokens of one request's context.
  package var contextSize: Int?

  package init(
    dialect: ServerDialect, version: String? = nil, acceptsImages: Bool? = nil,
    supportsTools: Bool? = nil, contextSize: Int? = nil
  ) {
    self.dialect = dialect
    self.version = version
    self.acceptsImages = acceptsImages
    self.supportsTools = supportsTools
    self.contextSize = contextSize
  }
}
