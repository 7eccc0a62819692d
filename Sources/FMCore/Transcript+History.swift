extension Transcript {
  /// The entries without the instructions that lead them. Setting it keeps those.
  public var history: HistoryView {
    get { HistoryView(entries[leadingCount...]) }
    set { entries.replaceSubrange(leadingCount..., with: newValue) }
  }

  /// 1 where the transcript begins with instructions, else 0; later ones belong to the history.
  private var leadingCount: Int {
    if case .instructions = entries.first { 1 } else { 0 }
  }

  /// What was said, without the instructions before it.
  public struct HistoryView: Sendable, Equatable {
    private var entries: [Entry]

    public init(_ entries: some Sequence<Entry>) { self.entries = Array(entries) }

    /// A position in the history; not the number of an entry.
    public struct Index: Sendable, Comparable {
      fileprivate let offset: Int
      public static func < (left: Index, right: Index) -> Bool { left.offset < right.offset }
    }
  }
}

extension Transcript.HistoryView: RandomAccessCollection, MutableCollection,
  RangeReplaceableCollection, ExpressibleByArrayLiteral
{
  public init() { entries = [] }
  public init(arrayLiteral elements: Transcript.Entry...) { entries = elements }
  public var startIndex: Index { Index(offset: entries.startIndex) }
  public var endIndex: Index { Index(offset: entries.endIndex) }
  public func index(after index: Index) -> Index { Index(offset: index.offset + 1) }
  public func index(before index: Index) -> Index { Index(offset: index.offset - 1) }
  public func index(_ index: Index, offsetBy distance: Int) -> Index {
    Index(offset: index.offset + distance)
  }
  public func distance(from start: Index, to end: Index) -> Int { end.offset - start.offset }
  public subscript(position: Index) -> Transcript.Entry {
    get { entries[position.offset] }
    set { entries[position.offset] = newValue }
  }
  public mutating func replaceSubrange(
    _ range: Range<Index>, with newElements: some Collection<Transcript.Entry>
  ) {
    entries.replaceSubrange(range.lowerBound.offset..<range.upperBound.offset, with: newElements)
  }
}
