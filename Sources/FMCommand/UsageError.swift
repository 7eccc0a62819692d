/// What is wrong with a command line.
struct UsageError: Error, Equatable {
  /// What is wrong and what to do, without the word where to read on.
  var message: String
}

/// Quotes what a user typed; control characters are written as escapes by `Console.report`.
func typed(_ text: String) -> String { "\"\(text)\"" }

extension String {
  /// Without the full stop of a sentence, for where more words follow.
  var trimmingFinalStop: String { hasSuffix(".") ? String(dropLast()) : self }
}

/// The candidate that a misspelt word most likely meant; nil when none is near.
func nearest(to word: String, among candidates: [String]) -> String? {
  let limit = max(1, min(3, word.count / 3))
  return
    candidates
    .map { (name: $0, distance: editDistance(word, $0)) }
    .filter { $0.distance <= limit }
    .min { $0.distance < $1.distance }?
    .name
}

/// Insertions, deletions, replacements and swaps of neighbours between two words.
///
/// Source: the optimal string alignment distance; cost: the product of the two lengths.
func editDistance(_ left: String, _ right: String) -> Int {
  let left = Array(left)
  let right = Array(right)
  var rows = [Array(0...right.count)]
  for i in 0..<left.count {
    var row = [i + 1]
    for j in 0..<right.count {
      var best = min(
        rows[i][j] + (left[i] == right[j] ? 0 : 1), rows[i][j + 1] + 1, row[j] + 1)
      if i > 0, j > 0, left[i] == right[j - 1], left[i - 1] == right[j] {
        best = min(best, rows[i - 1][j - 1] + 1)
      }
      row.append(best)
    }
    rows.append(row)
  }
  return rows[left.count][right.count]
}
