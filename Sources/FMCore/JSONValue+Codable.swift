import FMWire

private struct MemberKey: CodingKey {
  let stringValue: String
  var intValue: Int? { nil }

  init(stringValue: String) { self.stringValue = stringValue }
  init?(intValue: Int) { nil }
}

extension JSONValue {
  /// Members come in the decoder's order, which need not be the text's; `x-order` keeps it.
  init(from decoder: any Decoder) throws {
    if let container = try? decoder.container(keyedBy: MemberKey.self) {
      var object = JSONObject()
      for key in container.allKeys {
        object[key.stringValue] = try JSONValue(from: try container.superDecoder(forKey: key))
      }
      self = .object(object)
    } else if var container = try? decoder.unkeyedContainer() {
      var elements: [JSONValue] = []
      while !container.isAtEnd {
        elements.append(try JSONValue(from: try container.superDecoder()))
      }
      self = .array(elements)
    } else {
      let container = try decoder.singleValueContainer()
      if container.decodeNil() {
        self = .null
      } else if let flag = try? container.decode(Bool.self) {
        self = .bool(flag)
      } else if let whole = try? container.decode(Int.self) {
        self = .number(JSONNumber(whole))
      } else if let number = try? container.decode(Double.self), let json = JSONNumber(number) {
        self = .number(json)
      } else {
        self = .string(try container.decode(String.self))
      }
    }
  }

  func encode(to encoder: any Encoder) throws {
    switch self {
    case .object(let object):
      var container = encoder.container(keyedBy: MemberKey.self)
      for (name, value) in object.members {
        try value.encode(to: container.superEncoder(forKey: MemberKey(stringValue: name)))
      }
    case .array(let elements):
      var container = encoder.unkeyedContainer()
      for element in elements { try element.encode(to: container.superEncoder()) }
    default:
      var container = encoder.singleValueContainer()
      switch self {
      case .null: try container.encodeNil()
      case .bool(let flag): try container.encode(flag)
      case .string(let text): try container.encode(text)
      case .number(let number):
        if let whole = number.intValue {
          try container.encode(whole)
        } else {
          try container.encode(number.doubleValue)
        }
      case .array, .object: break
      }
    }
  }
}
