/// A tool whatever its types.
struct AnyTool: Sendable {
  let tool: any Tool
  let definition: Transcript.ToolDefinition
  private let run: @Sendable (GeneratedContent) async throws -> [PromptComponent]

  init(_ tool: some Tool) {
    self.tool = tool
    definition = Transcript.ToolDefinition(tool: tool)
    run = { arguments in
      let output = try await tool.call(arguments: .init(arguments))
      return output.promptRepresentation.components
    }
  }

  var name: String { definition.name }

  /// Runs the tool with checked arguments.
  func call(_ arguments: GeneratedContent) async throws -> [PromptComponent] {
    let checked: GeneratedContent
    do {
      checked = GeneratedContent(
        try definition.parameters.validated(arguments.jsonValue), id: arguments.id)
    } catch let error as SchemaMismatch {
      throw ToolRequestError.invalidArguments(
        arguments.jsonString, reason: "\(error.path): \(error.reason)")
    }
    let output = try await run(checked)
    try output.validate()
    return output
  }
}

/// Stands in `ToolCallError` for a tool that the model made up.
struct UnknownTool: Tool {
  let name: String
  var description: String { "" }
  var parameters: GenerationSchema { GeneratedContent.generationSchema }
  let error: ToolRequestError

  func call(arguments: GeneratedContent) async throws -> String { throw error }
}
