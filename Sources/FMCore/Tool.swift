/// Something that a model can call while it answers.
///
/// ```swift
/// struct Weather: Tool {
///   let description = "Tells the weather of a city."
///   var parameters: GenerationSchema { ... }
///   func call(arguments: GeneratedContent) async throws -> String {
///     "Sunny in \(try arguments.value(String.self, forProperty: "city"))"
///   }
/// }
/// ```
///
/// Calls of one answer run at once, each on a task that is cancelled with the request. What a tool
/// throws, the request throws as `LanguageModelSession.ToolCallError`, unless the session's
/// `toolPolicy` hands it to the model as the tool's output.
public protocol Tool<Arguments, Output>: Sendable {
  associatedtype Output: PromptRepresentable
  associatedtype Arguments: ConvertibleFromGeneratedContent

  /// 1 to 64 letters, digits, `_` and `-`: what servers take. The type's name where none is given.
  var name: String { get }
  /// Tells the model when to call it.
  var description: String { get }
  var parameters: GenerationSchema { get }
  /// Whether a model without tool calling of its own is told the schema in words.
  var includesSchemaInInstructions: Bool { get }

  @concurrent func call(arguments: Arguments) async throws -> Output
}

extension Tool {
  public var name: String { String(describing: Self.self) }
  public var includesSchemaInInstructions: Bool { true }
}

extension Tool where Arguments: Generable {
  public var parameters: GenerationSchema { Arguments.generationSchema }
}

/// A set of tools that no request can be made with.
public struct ToolDefinitionError: Error, Sendable, Equatable {
  public var message: String
}

extension [any Tool] {
  func validate() throws(ToolDefinitionError) {
    var names: Set<String> = []
    for tool in self {
      try validateToolName(tool.name)
      guard names.insert(tool.name).inserted else {
        throw ToolDefinitionError(
          message: "Two tools are called \(quoted(tool.name)); give each its own name.")
      }
    }
  }
}

package func validateToolName(_ name: String) throws(ToolDefinitionError) {
  let isPlain = name.utf8.allSatisfy { byte in
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "-"):
      true
    default: false
    }
  }
  guard 1...64 ~= name.utf8.count, isPlain else {
    throw ToolDefinitionError(
      message: "\(quoted(shortened(name))) is no name for a tool;"
        + " servers take 1 to 64 letters, digits, _ and -.")
  }
}
