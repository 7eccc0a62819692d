/// A JSON value (RFC 8259) whose objects keep their members in the order written.
public enum JSONValue: Sendable, Equatable {
  case null
  case bool(Bool)
  /// The number as it was written, so that 64-bit integers and decimals survive unchanged.
  case number(JSONNumber)
  case string(String)
  case array([JSONValue])
  case object(JSONObject)
}

/// A number's literal text, valid by RFC 8259 section 6.
public struct JSONNumber: Sendable, Hashable {
  public let literal: String
  /// - Precondition: `literal` matches RFC 8259 section 6; callers with untrusted text parse it.
  public init(uncheckedLiteral literal: String) { self.literal = literal }
  public init(_ value: Int) { literal = String(value) }
  public init(_ value: UInt64) { literal = String(value) }
  /// nil for NaN and infinities, which JSON cannot write.
  public init?(_ value: Double) {
    guard value.isFinite else { return nil }
    literal = String(describing: value)
  }
  /// nil unless the literal is a whole number that fits (1, 1.0 and 1e0 all are).
  public var intValue: Int? { Int(literal) ?? Int(exactly: doubleValue) }
  public var doubleValue: Double { Double(literal) ?? .nan }
}

/// Members in written order. Looking a name up is linear, as JSON objects on the wire are small.
public struct JSONObject: Sendable {
  public var members: [(name: String, value: JSONValue)] = []
  public init() {}
  public init(_ members: [(String, JSONValue)]) {
    self.members = members.map { (name: $0.0, value: $0.1) }
  }
  /// The last member of that name, as most parsers read duplicates; setting replaces or appends.
  public subscript(name: String) -> JSONValue? {
    get { members.last { $0.name == name }?.value }
    set {
      if let index = members.lastIndex(where: { $0.name == name }) {
        if let newValue { members[index].value = newValue } else { members.remove(at: index) }
      } else if let newValue {
        members.append((name: name, value: newValue))
      }
    }
  }
}

/// Objects are equal when they hold the same members in any order; of equal names, the last counts.
extension JSONObject: Equatable {
  public static func == (left: JSONObject, right: JSONObject) -> Bool {
    left.members.count == right.members.count
      && left.members.allSatisfy { right[$0.name] == left[$0.name] }
      && right.members.allSatisfy { left[$0.name] != nil }
  }
}

extension JSONValue {
  public var objectValue: JSONObject? { if case .object(let value) = self { value } else { nil } }
  public var arrayValue: [JSONValue]? { if case .array(let value) = self { value } else { nil } }
  public var stringValue: String? { if case .string(let value) = self { value } else { nil } }
  public var boolValue: Bool? { if case .bool(let value) = self { value } else { nil } }
  public var intValue: Int? { if case .number(let value) = self { value.intValue } else { nil } }
  public var doubleValue: Double? {
    if case .number(let value) = self { value.doubleValue } else { nil }
  }
  public var isNull: Bool { self == .null }
  /// The member of that name; nil for a missing one and for values that are no object.
  public subscript(name: String) -> JSONValue? { objectValue?[name] }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByBooleanLiteral,
  ExpressibleByIntegerLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral,
  ExpressibleByNilLiteral
{
  public init(stringLiteral value: String) { self = .string(value) }
  public init(booleanLiteral value: Bool) { self = .bool(value) }
  public init(integerLiteral value: Int) { self = .number(JSONNumber(value)) }
  public init(arrayLiteral elements: JSONValue...) { self = .array(elements) }
  public init(dictionaryLiteral elements: (String, JSONValue)...) {
    self = .object(JSONObject(elements))
  }
  public init(nilLiteral: ()) { self = .null }
}
