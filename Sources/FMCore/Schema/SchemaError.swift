extension GenerationSchema {
  /// What is wrong with a schema.
  public enum SchemaError: Error, Sendable, Equatable {
    public struct Context: Sendable, Equatable {
      public let debugDescription: String

      public init(debugDescription: String) {
        self.debugDescription = debugDescription
      }
    }

    /// Two different schemas have the same name.
    case duplicateType(schema: String?, type: String, context: Context)
    case duplicateProperty(schema: String, property: String, context: Context)
    /// A choice without anything to choose.
    case emptyTypeChoices(schema: String, context: Context)
    case undefinedReferences(schema: String?, references: [String], context: Context)
    /// A good schema with a keyword or guide that cannot be enforced.
    case unsupportedGuide(schema: String, context: Context)
    /// No schema at all.
    case invalid(schema: String, context: Context)

    public var context: Context {
      switch self {
      case .duplicateType(_, _, let context), .duplicateProperty(_, _, let context),
        .emptyTypeChoices(_, let context), .undefinedReferences(_, _, let context),
        .unsupportedGuide(_, let context), .invalid(_, let context):
        context
      }
    }
  }
}

extension GenerationSchema.SchemaError: CustomDebugStringConvertible {
  public var debugDescription: String { context.debugDescription }
}
