/// What was answered since a reader last looked: pieces are joined, so that a slow one finds one text
/// however many there were.
package struct PendingText: Sendable {
  /// `text` is the whole answer so far, not what follows.
  private var isWhole = false
  private var text = ""

  package init() {}

  package var isEmpty: Bool { !isWhole && text.isEmpty }
  /// Bytes of text that wait.
  package var count: Int { text.utf8.count }

  package mutating func add(_ update: TextUpdate) {
    if case .replaced = update { isWhole = true }
    text.apply(update)
  }

  /// Takes all of it; nil where there is nothing.
  package mutating func take() -> TextUpdate? {
    if isEmpty { return nil }
    defer { self = PendingText() }
    return isWhole ? .replaced(text) : .appended(text)
  }
}
