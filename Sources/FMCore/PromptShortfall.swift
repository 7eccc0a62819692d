/// Finds out whether a server has read only a part of the prompt: some (Ollama, where a prompt is
/// longer than its `num_ctx`) drop the rest without a word, and answer what is left.
///
/// No vocabulary has tokens of two words, so a prompt costs at least as many tokens as it has words.
struct PromptShortfall {
  /// Words of a prompt that is worth a look: below, a server's template may change what counts.
  private static let fewest = 1000

  /// Tokens that the server says it read.
  let readTokens: Int
  /// What the prompt costs at least; counting ended a little above `readTokens`.
  private let wordCount: Int

  /// nil where the server's count may well be that of the whole prompt.
  ///
  /// Costs a look at as much text as shows the shortfall; of most requests, whose bytes are few for
  /// their tokens, none. Those with pictures, which servers do not cut, are passed over.
  ///
  /// - Parameter textBytes: of the request's body without its pictures.
  init?(of request: LanguageModelExecutorGenerationRequest, readTokens: Int, textBytes: Int) {
    let suspicious = max(readTokens + readTokens / 16 + 1, Self.fewest)
    // A word and the space after it are two bytes at least.
    guard textBytes >= 2 * suspicious else { return nil }
    var count = 0
    for segment in request.transcript.lazy.flatMap(\.segments) {
      switch segment {
      case .text(let segment): count += Self.words(in: segment.content, atMost: suspicious - count)
      case .structure: break
      case .attachment: return nil
      }
    }
    guard count >= suspicious else { return nil }
    self.readTokens = readTokens
    wordCount = count
  }

  func warning(from url: String) -> String {
    "\(url) counts \(readTokens) tokens for a prompt of more than \(wordCount) words: it seems to have"
      + " cut the prompt to its context, without saying so, and answered the rest. Raise the context"
      + " (Ollama: OLLAMA_CONTEXT_LENGTH, or num_ctx in the Modelfile), or shorten the prompt."
  }

  /// Runs of letters, and one for some characters of a script that knows no spaces; counting ends at
  /// the limit.
  private static func words(in text: String, atMost limit: Int) -> Int {
    var count = 0
    var beyondASCII = 0
    var isInWord = false
    for byte in text.utf8 {
      let isLetter = byte >= 0x80 || UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte | 0x20
      if isLetter && !isInWord {
        if count + beyondASCII / 16 >= limit { break }
        count += 1
      }
      if byte >= 0x80 { beyondASCII += 1 }
      isInWord = isLetter
    }
    return min(count + beyondASCII / 16, limit)
  }
}
