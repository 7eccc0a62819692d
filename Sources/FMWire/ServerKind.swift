/// The servers that have a row of their own in the dialect table.
package enum ServerKind: String, Sendable, Hashable, CaseIterable {
  case llamaCpp = "llama.cpp"
  case ollama
  case vLLM = "vllm"
  case lmStudio = "lmstudio"
  /// mlx_lm.server and mlx-vlm.
  case mlx
  case openAI = "openai"
  /// Any other server that speaks the chat-completions protocol.
  case generic
}
