import FMWire

extension Transcript {
  /// A tool as the model is told of it.
  public struct ToolDefinition: Sendable, Equatable {
    public var name: String
    public var description: String
    public var parameters: GenerationSchema
    var unknownMembers = JSONObject()

    public init(name: String, description: String, parameters: GenerationSchema) {
      self.name = name
      self.description = description
      self.parameters = parameters
    }

    public init(tool: some Tool) {
      self.init(name: tool.name, description: tool.description, parameters: tool.parameters)
    }
  }

  /// The calls that the model asked for in one go; they may run at once.
  public struct ToolCalls: Sendable, Equatable, Identifiable {
    public var id: String
    package var calls: [ToolCall]
    var unknownMembers = JSONObject()

    public init(id: String = makeUUID(), _ calls: some Sequence<ToolCall>) {
      self.id = id
      self.calls = Array(calls)
    }
  }

  public struct ToolCall: Sendable, Equatable, Identifiable {
    public var id: String
    public var toolName: String
    public var arguments: GeneratedContent
    public internal(set) var metadata: [String: GeneratedContent]
    var unknownMembers = JSONObject()

    public init(
      id: String, metadata: [String: any ConvertibleToGeneratedContent] = [:], toolName: String,
      arguments: GeneratedContent
    ) {
      self.id = id
      self.metadata = metadata.mapValues(\.generatedContent)
      self.toolName = toolName
      self.arguments = arguments
    }
  }

  /// What a tool gave back; `id` is that of its call.
  public struct ToolOutput: Sendable, Equatable, Identifiable {
    public var id: String
    public var toolName: String
    public var segments: [Segment]
    var unknownMembers = JSONObject()

    public init(id: String, toolName: String, segments: [Segment]) {
      self.id = id
      self.toolName = toolName
      self.segments = segments
    }
  }

  /// What the model thought before it answered or called a tool.
  public struct Reasoning: Sendable, Equatable, Identifiable {
    public var id: String
    public var segments: [Segment]
    /// What the provider needs to see unchanged when the reasoning is sent back to it.
    public var signatureBytes: [UInt8]?
    public internal(set) var metadata: [String: GeneratedContent]
    var unknownMembers = JSONObject()

    public init(
      id: String = makeUUID(), metadata: [String: any ConvertibleToGeneratedContent] = [:],
      segments: [Segment], signatureBytes: [UInt8]? = nil
    ) {
      self.id = id
      self.metadata = metadata.mapValues(\.generatedContent)
      self.segments = segments
      self.signatureBytes = signatureBytes
    }
  }
}

extension Transcript.ToolCalls: RandomAccessCollection {
  public var startIndex: Int { calls.startIndex }
  public var endIndex: Int { calls.endIndex }
  public subscript(position: Int) -> Transcript.ToolCall { calls[position] }
}
