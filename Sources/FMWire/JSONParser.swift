/// Why a text is no JSON.
public struct JSONError: Error, Sendable, Equatable {
  /// Byte offset of the first byte that cannot stand there.
  public var offset: Int
  public var message: String
  public init(offset: Int, message: String) {
    self.offset = offset
    self.message = message
  }
}

extension JSONValue {
  /// Strict RFC 8259: UTF-8 only, no trailing commas, comments, NaN or lone surrogates; nesting at
  /// most `maxDepth`.
  public init(parsing bytes: some Sequence<UInt8>, maxDepth: Int = 512) throws(JSONError) {
    fatalError()
  }
  public init(parsing text: String, maxDepth: Int = 512) throws(JSONError) {
    fatalError()
  }
}
