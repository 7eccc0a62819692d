/// What a finish reason means, whichever server's word it is.
package enum ChatFinish: Sendable, Hashable {
  /// The model was done.
  case stop
  /// A limit of tokens was reached: the request's or the context's.
  case length
  case toolCalls
  case contentFilter
  case refusal
  /// The server gave up.
  case failure
  /// A word that is not known here.
  case other

  package init(reason: String) {
    self = Self.words[reason.lowercased()] ?? .other
  }

  private static let words: [String: ChatFinish] = [
    "stop": .stop, "eos": .stop, "eos_token": .stop, "end_turn": .stop, "stop_sequence": .stop,
    "end": .stop, "complete": .stop, "completed": .stop,
    "length": .length, "max_tokens": .length, "max_output_tokens": .length,
    "model_length": .length, "model_context_window_exceeded": .length,
    "tool_calls": .toolCalls, "tool_call": .toolCalls, "tool_use": .toolCalls,
    "function_call": .toolCalls,
    "content_filter": .contentFilter, "content_filtered": .contentFilter,
    "safety": .contentFilter, "prohibited_content": .contentFilter, "blocklist": .contentFilter,
    "recitation": .contentFilter, "sensitive": .contentFilter,
    "refusal": .refusal,
    "error": .failure, "abort": .failure, "aborted": .failure, "network_error": .failure,
    "insufficient_system_resource": .failure,
  ]
}
