/// Writes JSON text straight into bytes.
///
/// The caller opens and closes objects and arrays and the writer sets the commas, so that a request
/// with tens of megabytes of pictures is written once, without a tree of values in between.
public struct JSONWriter: Sendable {
  public private(set) var bytes: [UInt8] = []
  public init(reservingCapacity capacity: Int = 0) { bytes.reserveCapacity(capacity) }
  public mutating func beginObject() { fatalError() }
  public mutating func endObject() { fatalError() }
  public mutating func beginArray() { fatalError() }
  public mutating func endArray() { fatalError() }
  /// A member's name; the next call writes its value.
  public mutating func name(_ name: String) { fatalError() }
  public mutating func value(_ value: JSONValue) { fatalError() }
  public mutating func value(_ value: String) { fatalError() }
  /// The string `data:MEDIATYPE;base64,...`, encoded from the bytes in place.
  public mutating func dataURL(mediaType: String, bytes: [UInt8]) { fatalError() }
}

extension JSONValue {
  /// Compact JSON text.
  public var jsonText: String { fatalError() }
}
