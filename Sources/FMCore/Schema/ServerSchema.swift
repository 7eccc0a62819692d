import FMWire

/// A schema in the form that a server's grammar holds.
///
/// It may allow more than the schema it comes from, where the grammar cannot say it, and never less
/// that anyone would miss: what comes back is checked by the schema as it was given.
struct ServerSchema {
  private(set) var json: JSONValue
  /// Whether the server may be asked to be strict: some refuse to where a property is optional.
  private(set) var isStrict = true

  /// - Throws: `GenerationSchema.SchemaError` for a schema that no finite value is valid by.
  init(
    _ schema: GenerationSchema, within limits: ServerDialect.GrammarLimits
  ) throws(GenerationSchema.SchemaError) {
    let root = try schema.resolved().json
    if limits.requiresEveryProperty { isStrict = root.closesEveryObject }
    // References that lead back are written out so deep; less deep where that gets too large.
    for depth in [3, 2, 1] {
      var writer = Writer(
        root: root, limits: limits, requiresEveryProperty: limits.requiresEveryProperty && isStrict,
        depth: depth)
      let json = writer.write(root, level: 0)
      // What is left out then may be anything.
      if writer.isTooLarge, depth == 1 {
        throw .invalid(
          schema: schema.name,
          context: .init(
            debugDescription: "The schema \(quoted(schema.name)) asks too much: written out as this"
              + " server takes it, its references make more than \(Writer.maximumCount) parts; use"
              + " fewer references to references."))
      }
      if let json, depth == 1 || writer.isSmall {
        self.json = json
        return
      }
    }
    throw .invalid(
      schema: schema.name,
      context: .init(
        debugDescription: "No finite value is valid by the schema \(quoted(schema.name)): it holds"
          + " itself; make the property optional, or put it into a list."))
  }
}

private struct Writer {
  private let root: JSONValue
  private let limits: ServerDialect.GrammarLimits
  private let requiresEveryProperty: Bool
  private let depth: Int
  /// References being written out.
  private var open: [String] = []
  private var count = 0

  /// References to references can double what is written with each step.
  static let maximumCount = 50_000

  var isSmall: Bool { count < 2000 }
  var isTooLarge: Bool { count >= Self.maximumCount }

  init(
    root: JSONValue, limits: ServerDialect.GrammarLimits, requiresEveryProperty: Bool, depth: Int
  ) {
    self.root = root
    self.limits = limits
    self.requiresEveryProperty = requiresEveryProperty
    self.depth = depth
  }

  /// nil for what cannot be written out: a reference back, once too deep. `level` is 0 for the root, 1
  /// for its properties, 2 for anything deeper.
  mutating func write(_ schema: JSONValue, level: Int = 2) -> JSONValue? {
    count += 1
    guard !isTooLarge else { return nil }
    guard let object = schema.objectValue else { return schema == true ? [:] : schema }
    if limits.references == .inlined, let reference = object["$ref"]?.stringValue {
      return writeTarget(of: reference, beside: object, level: level)
    }
    var result = JSONObject()
    for (keyword, value) in object.members {
      let keyword =
        keyword == "oneOf" && limits.refusedKeywords.contains("oneOf") ? "anyOf" : keyword
      guard !limits.refusedKeywords.contains(keyword), !keyword.hasPrefix("x-"),
        !Self.unsent.contains(keyword)
      else { continue }
      switch keyword {
      case "properties", "required": continue
      case "$defs", "definitions":
        guard limits.references == .kept, let members = value.objectValue?.members else { continue }
        result[keyword] = .object(
          JSONObject(members.map { ($0.name, write($0.value) ?? [:]) }))
      case "items":
        guard let items = write(value) else {
          // Nothing more fits: an empty list ends the recursion.
          result["maxItems"] = 0
          continue
        }
        result[keyword] = items
      case "anyOf", "oneOf":
        let alternatives = (value.arrayValue ?? []).compactMap { write($0) }
        guard !alternatives.isEmpty else { return nil }
        result[keyword] = .array(alternatives)
      case "allOf", "prefixItems":
        var parts: [JSONValue] = []
        for part in value.arrayValue ?? [] {
          guard let part = write(part) else { return nil }
          parts.append(part)
        }
        result[keyword] = .array(parts)
      case "additionalProperties":
        result[keyword] = write(value) ?? false
      case "not", "contains", "propertyNames", "if", "then", "else":
        if let part = write(value) { result[keyword] = part }
      case "pattern":
        if let text = value.stringValue, let sent = pattern(text, level: level) {
          result[keyword] = .string(sent)
        }
      case "minLength", "maxLength", "minItems", "maxItems":
        if let most = limits.maxRepetition, let count = value.intValue, count > most { continue }
        if keyword == "maxItems", result["maxItems"] == 0 { continue }
        result[keyword] = value
      default: result[keyword] = value
      }
    }
    if object["properties"] != nil || object["required"] != nil {
      guard writeProperties(of: object, into: &result, level: level) else { return nil }
    }
    return .object(result)
  }

  /// What no server's grammar reads.
  private static let unsent: Set<String> = [
    "$schema", "$id", "$comment", "default", "examples", "deprecated", "readOnly", "writeOnly",
    "contentEncoding", "contentMediaType", "contentSchema", "discriminator",
  ]

  private mutating func writeTarget(
    of reference: String, beside object: JSONObject, level: Int
  ) -> JSONValue? {
    guard open.count(where: { $0 == reference }) < depth, open.count < 64,
      isSmall || depth == 1, let target = root.target(of: reference)
    else { return nil }
    open.append(reference)
    defer { open.removeLast() }
    var siblings = object
    siblings["$ref"] = nil
    guard case .object(var merged) = target else { return write(target) }
    // What stands beside the reference comes first.
    for (name, value) in siblings.members { merged[name] = value }
    if reference == "#" { merged["$defs"] = nil }
    return write(.object(merged), level: level)
  }

  /// The properties in the schema's order, which is that in which a grammar has them written. False
  /// where a required one cannot be written out.
  private mutating func writeProperties(
    of object: JSONObject, into result: inout JSONObject, level: Int
  ) -> Bool {
    var members = object["properties"]?.objectValue?.members ?? []
    if let order = object["x-order"]?.arrayValue?.compactMap(\.stringValue) {
      let places = members.enumerated().map { index, member in
        (order.firstIndex(of: member.name) ?? order.count + index, member)
      }
      members = places.sorted { $0.0 < $1.0 }.map(\.1)
    }
    var required = object["required"]?.arrayValue ?? []
    var properties = JSONObject()
    for (name, schema) in members {
      let isRequired = required.contains(.string(name))
      guard var property = write(schema, level: min(level + 1, 2)) else {
        if isRequired { return false }
        continue
      }
      if requiresEveryProperty, !isRequired {
        property = ["anyOf": [property, ["type": "null"]]]
        required.append(.string(name))
      }
      properties[name] = property
    }
    result["properties"] = .object(properties)
    if object["required"] != nil || !required.isEmpty { result["required"] = .array(required) }
    return true
  }

  private func pattern(_ text: String, level: Int) -> String? {
    switch limits.patterns {
    case .nowhere: return nil
    case .anywhere:
      // Automata without lookarounds stand behind all grammars.
      guard let node = try? PatternParser.parse(text), !node.holdsLooks else { return nil }
      return text
    case .anchored, .anchoredAtTopLevel:
      guard level < 2 || limits.patterns == .anchored, let node = try? PatternParser.parse(text)
      else { return nil }
      return node.simpleText
    }
  }
}

extension JSONValue {
  /// Every object says which properties it has, and takes no others.
  fileprivate var closesEveryObject: Bool {
    switch self {
    case .array(let elements): elements.allSatisfy(\.closesEveryObject)
    case .object(let object):
      (object["type"] != "object" || object["additionalProperties"] == false)
        && object.members.allSatisfy(\.value.closesEveryObject)
    default: true
    }
  }
}

// MARK: - Patterns that simple converters take

extension PatternNode {
  var holdsLooks: Bool {
    switch self {
    case .set, .start, .end: false
    case .look, .wordBoundary: true
    case .sequence(let nodes), .choice(let nodes): nodes.contains(where: \.holdsLooks)
    case .repetition(let node, _, _): node.holdsLooks
    }
  }

  /// `^...$` of literals, classes, groups, alternatives and repetitions alone, in which no character
  /// stands that JSON text would escape: what a converter that writes a grammar for the raw text of a
  /// JSON string cannot get wrong. nil where the pattern is more than that.
  var simpleText: String? {
    guard case .sequence(let nodes) = self, nodes.first == .start, nodes.last == .end else {
      return nil
    }
    return PatternNode.sequence(Array(nodes.dropFirst().dropLast())).simplePart.map { "^\($0)$" }
  }

  private var simplePart: String? {
    switch self {
    case .set(let set): return set.simpleText
    case .sequence(let nodes):
      var text = ""
      for node in nodes {
        guard let part = node.simplePart else { return nil }
        if case .choice = node { text += "(\(part))" } else { text += part }
      }
      return text
    case .choice(let nodes):
      var parts: [String] = []
      for node in nodes {
        guard let part = node.simplePart, !part.isEmpty else { return nil }
        parts.append(part)
      }
      return parts.joined(separator: "|")
    case .repetition(let node, let least, let most):
      guard var part = node.simplePart, !part.isEmpty else { return nil }
      if case .set = node {} else { part = "(\(part))" }
      return switch (least, most) {
      case (0, nil): part + "*"
      case (1, nil): part + "+"
      case (0, 1): part + "?"
      case (_, nil): part + "{\(least),}"
      case (_, .some(let most)): most == least ? part + "{\(least)}" : part + "{\(least),\(most)}"
      }
    case .start, .end, .wordBoundary, .look: return nil
    }
  }
}

extension ScalarSet {
  /// The class as a converter takes it; nil for one with properties, or that asks for a character
  /// that JSON text escapes.
  fileprivate var simpleText: String? {
    guard let (ranges, isInverted) = plainRanges else { return nil }
    let escapedInJSON: [ClosedRange<UInt32>] = [0x00...0x1F, 0x22...0x22, 0x5C...0x5C]
    var parts = ""
    for range in ranges {
      if !isInverted, escapedInJSON.contains(where: { $0.overlaps(range) }) { return nil }
      // Excluded below with everything that JSON escapes.
      if isInverted, range.upperBound < 0x20 { continue }
      guard let low = Self.classText(range.lowerBound), let high = Self.classText(range.upperBound)
      else { return nil }
      parts += range.count == 1 ? low : "\(low)-\(high)"
    }
    if isInverted { return "[^\(parts)\"\\\\\\x00-\\x1F]" }
    guard ranges.count == 1, ranges[0].count == 1 else { return "[\(parts)]" }
    return Self.literalText(ranges[0].lowerBound)
  }

  private static func classText(_ value: UInt32) -> String? {
    guard let scalar = Unicode.Scalar(value) else { return nil }
    return "\\]^-[".unicodeScalars.contains(scalar) ? "\\\(scalar)" : String(scalar)
  }

  private static func literalText(_ value: UInt32) -> String? {
    guard let scalar = Unicode.Scalar(value) else { return nil }
    return "^$.*+?()[]{}|/".unicodeScalars.contains(scalar) ? "\\\(scalar)" : String(scalar)
  }
}
