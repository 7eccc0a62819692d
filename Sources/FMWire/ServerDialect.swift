/// How one kind of server wants to be asked: a row of the dialect table.
///
/// Whatever servers do differently is a column here and nowhere a condition on the server's name.
package struct ServerDialect: Sendable, Hashable {
  package let server: ServerKind
  /// How a schema for the answer is handed over.
  package var responseFormat: ResponseFormat
  /// What of a schema the server's grammar can hold.
  package var grammar: GrammarLimits
  package var tools: ToolSupport
  /// The `tool_choice` values that are understood; empty = the member is left out.
  package var toolChoices: Set<ToolChoice>
  /// Whether the `parallel_tool_calls` member is understood.
  package var takesParallelToolCalls: Bool
  /// Ways to have a prompt counted, the best first; empty = there is none.
  package var tokenCounting: [TokenCounting]
  package var images: ImageRules
  package var sampling: SamplingRules
  /// The member that limits the answer's length in tokens.
  package var maximumTokensMember: String
  package var contextSource: ContextSource
  package var streamOptions: StreamOptions
  /// The members of a delta or message that hold reasoning, the newer spelling first; empty = the
  /// server keeps it. Answers are read by all spellings whatever the server.
  package var reasoningMembers: [String]
  /// How the server is told how much the model is to think.
  package var reasoningEffort: ReasoningEffort

  package enum ReasoningEffort: Sendable, Hashable {
    /// `"reasoning_effort": "low"`
    case member
    /// `"chat_template_kwargs": {"reasoning_effort": "low"}`
    case templateArgument
    case none
  }

  package enum ResponseFormat: Sendable, Hashable {
    /// `{"type": "json_schema", "json_schema": {"name", "strict", "schema"}}`
    case jsonSchema
    /// `{"type": "json_object", "schema": {...}}`
    case jsonObjectWithSchema
    /// The member is ignored or refused: the schema goes into the prompt.
    case none
  }

  package struct GrammarLimits: Sendable, Hashable {
    package var patterns: Patterns
    /// The highest `maxLength` or `maxItems` that the grammar can count; nil = any.
    package var maxRepetition: Int?
    package var references: References
    /// Every property must be listed in `required`, or the schema is refused as not strict.
    package var requiresEveryProperty: Bool
    /// Keywords that make the server refuse the schema.
    package var refusedKeywords: Set<String>
  }

  /// Where `pattern` may stand in a schema.
  package enum Patterns: Sendable, Hashable {
    case anywhere
    /// Only between `^` and `$`.
    case anchored
    /// Only between `^` and `$`, and only on the properties of the root.
    case anchoredAtTopLevel
    case nowhere
  }

  package enum References: Sendable, Hashable {
    /// `$ref` into `$defs` works, also in circles.
    case kept
    /// References must be replaced by what they stand for; circles cannot be asked for.
    case inlined
  }

  package enum ToolSupport: Sendable, Hashable {
    case always
    /// Depends on the model, and `ServerDescription.supportsTools` says so where the server tells.
    case byModel
    case never
  }

  package enum ToolChoice: String, Sendable, Hashable, CaseIterable {
    case auto
    case none
    case required
    /// `{"type": "function", "function": {"name"}}`
    case named
  }

  package enum TokenCounting: String, Sendable, Hashable {
    /// POST /v1/chat/completions/input_tokens with a completion's body -> `{"input_tokens"}`.
    case inputTokens
    /// POST /apply-template with a completion's body -> `{"prompt"}`, then POST /tokenize with
    /// `{"content", "add_special", "parse_special"}` -> `{"tokens": [...]}`. Knows no pictures.
    case templateAndTokenize
    /// POST /tokenize with `{"model", "messages", "tools"...}` -> `{"count", "max_model_len"}`.
    case tokenizeMessages
  }

  package struct ImageRules: Sendable, Hashable {
    /// What the server decodes; JPEG and PNG always.
    package var mediaTypes: Set<String>
    /// Pictures with more pixels are refused; nil = no known limit.
    package var maxPixels: Int?
    /// Pixels of the longer side; nil = no known limit.
    package var maxLongEdge: Int?
  }

  /// Greedy decoding is `"temperature": 0` everywhere.
  package struct SamplingRules: Sendable, Hashable {
    /// Whether `seed` is taken.
    package var seed: Bool
    /// Whether `top_k` is taken; where it is not, sending it is an error.
    package var topK: Bool
  }

  /// Where the server tells how many tokens one request may have.
  package enum ContextSource: Sendable, Hashable {
    /// GET /props: `default_generation_settings.n_ctx`.
    case props
    /// GET /v1/models: `max_model_len` or a relative of it beside the model's id.
    case modelList
    /// GET /api/ps: `context_length` of the loaded model.
    case runningModels
    /// GET /api/v0/models: `loaded_context_length` beside the model's id.
    case nativeModelList
    case none
  }

  /// `"stream_options": {"include_usage": true}`.
  package enum StreamOptions: Sendable, Hashable {
    case taken
    /// Tried; a server that refuses the request for it is asked again without.
    case tried
  }
}
