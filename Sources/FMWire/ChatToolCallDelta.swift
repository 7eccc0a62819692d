/// A piece of a tool call in a streamed answer.
public struct ChatToolCallDelta: Sendable, Equatable {
  /// Which call of the answer it belongs to, counted from 0 in the order of their first pieces.
  public var call: Int
  /// The call's id: the server's, or `call_1`, `call_2`... where it gives none.
  public var id: String
  /// The function's whole name, in the piece that told it.
  public var name: String?
  /// To be appended to the arguments' JSON text.
  public var arguments: String

  public init(call: Int, id: String, name: String? = nil, arguments: String = "") {
    self.call = call
    self.id = id
    self.name = name
    self.arguments = arguments
  }
}

/// A whole tool call of an answer.
package struct ChatToolCall: Sendable, Equatable {
  package var id: String
  /// "" where the server never told.
  package var name: String
  /// JSON text as the model wrote it, which may be broken; "" for none.
  package var arguments: String

  package init(id: String, name: String, arguments: String) {
    self.id = id
    self.name = name
    self.arguments = arguments
  }
}

extension [ChatToolCall] {
  /// Adds a piece to the calls gathered so far.
  package mutating func take(_ delta: ChatToolCallDelta) {
    while count <= delta.call { append(ChatToolCall(id: "", name: "", arguments: "")) }
    self[delta.call].id = delta.id
    if let name = delta.name { self[delta.call].name = name }
    self[delta.call].arguments += delta.arguments
  }
}
