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
  /// most `maxDepth`. Costs one pass over the bytes.
  public init(parsing bytes: some Sequence<UInt8>, maxDepth: Int = 512) throws(JSONError) {
    // Results carry the typed error out of closures that only rethrow untyped ones.
    let result =
      bytes.withContiguousStorageIfAvailable { buffer in
        Self.parse(buffer, maxDepth: maxDepth)
      }
      ?? Array(bytes).withUnsafeBufferPointer { buffer in Self.parse(buffer, maxDepth: maxDepth) }
    self = try result.get()
  }

  public init(parsing text: String, maxDepth: Int = 512) throws(JSONError) {
    var text = text
    let result = text.withUTF8 { buffer in Self.parse(buffer, maxDepth: maxDepth) }
    self = try result.get()
  }

  private static func parse(
    _ buffer: UnsafeBufferPointer<UInt8>, maxDepth: Int
  ) -> Result<JSONValue, JSONError> {
    var reader = JSONReader(buffer, maxDepth: maxDepth)
    do throws(JSONError) {
      return .success(try reader.readText())
    } catch {
      return .failure(error)
    }
  }
}
