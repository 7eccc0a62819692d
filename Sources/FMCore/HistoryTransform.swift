/// Shapes what a model sees of a conversation; the stored transcript is left alone.
///
/// ```swift
/// session.historyTransform = .rollingWindow(turns: 8)
/// ```
public struct HistoryTransform: Sendable {
  let transform: @Sendable ([Transcript.Entry]) throws -> [Transcript.Entry]

  /// - Parameter transform: gets all entries before the new prompt, the instructions first; what it
  ///   throws, the request throws.
  public init(_ transform: @escaping @Sendable ([Transcript.Entry]) throws -> [Transcript.Entry]) {
    self.transform = transform
  }

  /// Keeps the instructions and the last `turns` turns. Pictures of the turns before stay, with
  /// their labels, at the head of the first turn that is kept: they can still be asked about.
  public static func rollingWindow(turns: Int) -> HistoryTransform {
    HistoryTransform { keepingLastTurns(turns, of: $0) }
  }

  /// Leaves out the tool calls of turns that are answered, and what the tools gave: the answer has
  /// what it needed of them. Pictures among the outputs stay, as with `rollingWindow`.
  public static var droppingCompletedToolCalls: HistoryTransform {
    HistoryTransform { droppingToolCalls(of: $0) }
  }

  /// One after the other.
  public func followed(by next: HistoryTransform) -> HistoryTransform {
    HistoryTransform { try next.transform(try self.transform($0)) }
  }
}

private func keepingLastTurns(_ count: Int, of entries: [Transcript.Entry]) -> [Transcript.Entry] {
  let starts = entries.indices.filter { if case .prompt = entries[$0] { true } else { false } }
  guard starts.count > max(count, 0) else { return entries }
  let start = count > 0 ? starts[starts.count - count] : entries.endIndex
  let dropped = entries[..<start]
  let instructions = dropped.filter { if case .instructions = $0 { true } else { false } }
  let spoken = dropped.filter { if case .instructions = $0 { false } else { true } }
  return instructions
    + carrying(spoken.flatMap(\.segments).filter(\.isAttachment), into: Array(entries[start...]))
}

private func droppingToolCalls(of entries: [Transcript.Entry]) -> [Transcript.Entry] {
  let answered = entries.lastIndex { if case .response = $0 { true } else { false } } ?? 0
  var result: [Transcript.Entry] = []
  var pictures: [Transcript.Segment] = []
  for (index, entry) in entries.enumerated() {
    switch entry {
    case .toolCalls where index < answered: break
    case .toolOutput(let output) where index < answered:
      pictures += output.segments.filter(\.isAttachment)
    default: result.append(entry)
    }
  }
  return carrying(pictures, into: result)
}

/// Puts pictures before what the first prompt says. Of several with one label the newest stays.
private func carrying(
  _ pictures: [Transcript.Segment], into entries: [Transcript.Entry]
) -> [Transcript.Entry] {
  guard !pictures.isEmpty else { return entries }
  var entries = entries
  let first = entries.firstIndex { if case .prompt = $0 { true } else { false } }
  var prompt = Transcript.Prompt(segments: [])
  if let first, case .prompt(let known) = entries[first] { prompt = known }
  var labels = Set(prompt.segments.compactMap(\.label))
  var kept: [Transcript.Segment] = []
  for picture in pictures.reversed() {
    if let label = picture.label, !labels.insert(label).inserted { continue }
    kept.insert(picture, at: 0)
  }
  prompt.segments = kept + prompt.segments
  if let first {
    entries[first] = .prompt(prompt)
  } else {
    entries.append(.prompt(prompt))
  }
  return entries
}

extension Transcript.Segment {
  fileprivate var isAttachment: Bool { if case .attachment = self { true } else { false } }
  fileprivate var label: String? {
    if case .attachment(let segment) = self { segment.label } else { nil }
  }
}
