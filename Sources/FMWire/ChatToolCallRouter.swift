/// Decides which call a piece belongs to, for servers agree on nothing there: `index` or `id` may be
/// missing, come once or every time, be the same for two calls, start at 1, and a name may come
/// after its arguments.
struct ChatToolCallRouter {
  private struct Call {
    var id: String
    /// Made up here; one that the server tells later takes its place.
    var isMadeUp: Bool
    var index: Int?
    var name = ""
    var arguments = ""
  }

  private var calls: [Call] = []
  /// The call of the last piece.
  private var current: Int?

  /// nil for a value that is no object.
  mutating func route(_ value: JSONValue) -> ChatToolCallDelta? {
    guard case .object = value else { return nil }
    // Some send the function's members without their object.
    let function = value["function"]?.objectValue.map(JSONValue.object) ?? value
    let id = value["id"]?.stringValue.flatMap { $0.isEmpty ? nil : $0 }
    let index = value["index"]?.intValue
    let name = function["name"]?.stringValue.flatMap { $0.isEmpty ? nil : $0 }
    let arguments = Self.text(function["arguments"] ?? function["parameters"])

    let place = place(id: id, index: index, name: name) ?? begin(id: id, index: index)
    current = place
    if let id, calls[place].isMadeUp {
      calls[place].id = id
      calls[place].isMadeUp = false
    }
    calls[place].arguments += arguments
    var delta = ChatToolCallDelta(call: place, id: calls[place].id, arguments: arguments)
    if let name, name != calls[place].name {
      // A name in pieces comes before its arguments; a name that is told again is the same one.
      let isRest = !calls[place].name.isEmpty && calls[place].arguments.isEmpty
      calls[place].name = isRest ? calls[place].name + name : name
      delta.name = calls[place].name
    }
    return delta
  }

  /// The call that is there already, if the piece continues one.
  private func place(id: String?, index: Int?, name: String?) -> Int? {
    if let id {
      let namesakes = calls.indices.filter { calls[$0].id == id && !calls[$0].isMadeUp }
      let known = namesakes.last {
        index == nil || calls[$0].index == nil || calls[$0].index == index
      }
      if let known { return known }
      // One id for two calls, which their indices tell apart: a name begins the other one.
      if let known = namesakes.last { return name == nil ? known : nil }
      // A new id is a new call, unless it is the missing one of a call that has begun.
      guard let begun = latest(index), calls[begun].isMadeUp else { return nil }
      return name == nil || calls[begun].name.isEmpty || calls[begun].name == name ? begun : nil
    }
    guard let begun = index == nil ? current : latest(index) else { return nil }
    // A name, where the call has one and its arguments are complete, begins another.
    if name != nil, !calls[begun].name.isEmpty, !calls[begun].arguments.isEmpty,
      Self.isComplete(calls[begun].arguments)
    {
      return nil
    }
    return begun
  }

  /// The last call with that index.
  private func latest(_ index: Int?) -> Int? {
    guard let index else { return current }
    return calls.lastIndex { $0.index == index }
  }

  private mutating func begin(id: String?, index: Int?) -> Int {
    calls.append(
      Call(id: id ?? "call_\(calls.count + 1)", isMadeUp: id == nil, index: index))
    return calls.count - 1
  }

  /// Whether the text is JSON as it stands. Servers that repeat the name with every piece ask this for
  /// every piece: an object is only read where it ends like one.
  private static func isComplete(_ arguments: String) -> Bool {
    func isBlank(_ byte: UInt8) -> Bool { byte == 32 || 9...13 ~= byte }
    let first = arguments.utf8.first { !isBlank($0) }
    let last = arguments.utf8.last { !isBlank($0) }
    if first == UInt8(ascii: "{") && last != UInt8(ascii: "}") { return false }
    return (try? JSONValue(parsing: arguments)) != nil
  }

  /// Arguments come as JSON text, or as the object itself.
  private static func text(_ arguments: JSONValue?) -> String {
    switch arguments {
    case nil, .null: ""
    case .string(let text): text
    case .some(let value): value.jsonText
    }
  }
}
