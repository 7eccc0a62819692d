/// A constraint of generated values. All bounds are inclusive.
public struct GenerationGuide<Value>: Sendable {
  let guide: SchemaGuide

  init(_ guide: SchemaGuide) { self.guide = guide }
}

extension GenerationGuide where Value == String {
  public static func constant(_ value: String) -> GenerationGuide { .init(.constant(value)) }
  public static func anyOf(_ values: [String]) -> GenerationGuide { .init(.anyOf(values)) }
  /// A regular expression that matches anywhere in the string; `Pattern` says which language. One
  /// that cannot be used is found when the schema is.
  public static func pattern(_ pattern: String) -> GenerationGuide { .init(.pattern(pattern)) }

  /// The same for a regex that Swift has read, by the pattern it stands for. One that holds code of
  /// the caller's stands for none; that is found when the schema is used, too.
  public static func pattern<Output>(_ regex: Regex<Output>) -> GenerationGuide {
    .init(SchemaGuide(regex))
  }
}

extension SchemaGuide {
  init<Output>(_ regex: Regex<Output>) {
    self = regex._literalPattern.map(SchemaGuide.pattern) ?? .opaquePattern
  }
}

extension GenerationGuide where Value == Int {
  public static func minimum(_ value: Int) -> GenerationGuide { .init(.minimum(Double(value))) }
  public static func maximum(_ value: Int) -> GenerationGuide { .init(.maximum(Double(value))) }
  public static func range(_ range: ClosedRange<Int>) -> GenerationGuide {
    .init(.range(Double(range.lowerBound), Double(range.upperBound)))
  }
}

extension GenerationGuide where Value: BinaryFloatingPoint {
  public static func minimum(_ value: Value) -> GenerationGuide { .init(.minimum(Double(value))) }
  public static func maximum(_ value: Value) -> GenerationGuide { .init(.maximum(Double(value))) }
  public static func range(_ range: ClosedRange<Value>) -> GenerationGuide {
    .init(.range(Double(range.lowerBound), Double(range.upperBound)))
  }
}

extension GenerationGuide {
  public static func minimumCount<Element>(_ count: Int) -> GenerationGuide
  where Value == [Element] { .init(.minimumCount(count)) }
  public static func maximumCount<Element>(_ count: Int) -> GenerationGuide
  where Value == [Element] { .init(.maximumCount(count)) }
  public static func count<Element>(_ count: Int) -> GenerationGuide
  where Value == [Element] { .init(.count(count)) }
  public static func count<Element>(_ range: ClosedRange<Int>) -> GenerationGuide
  where Value == [Element] { .init(.counts(range.lowerBound, range.upperBound)) }
  public static func element<Element>(_ guide: GenerationGuide<Element>) -> GenerationGuide
  where Value == [Element] { .init(.element(guide.guide)) }
}

/// The same for an array whose element type is not known yet, as macros write it.
extension GenerationGuide where Value == [Never] {
  public static func minimumCount(_ count: Int) -> GenerationGuide { .init(.minimumCount(count)) }
  public static func maximumCount(_ count: Int) -> GenerationGuide { .init(.maximumCount(count)) }
  public static func count(_ count: Int) -> GenerationGuide { .init(.count(count)) }
  public static func count(_ range: ClosedRange<Int>) -> GenerationGuide {
    .init(.counts(range.lowerBound, range.upperBound))
  }
}
