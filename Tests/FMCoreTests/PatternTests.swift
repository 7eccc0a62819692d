import Testing

@testable import FMCore

@Suite struct PatternTests {
  @Test(arguments: [
    ("", "x", true), ("a", "bab", true), ("^a", "ba", false), ("a$", "ab", false),
    ("^$", "", true), ("^a|b$", "xb", true), ("^(a|b)$", "xb", false),
    ("^a*$", "", true), ("^a+$", "", false), ("^a?b$", "b", true), ("^a{2}$", "aaa", false),
    ("^a{2,}$", "aaaa", true), ("^a{1,2}$", "aaa", false), ("^a{,2}$", "a{,2}", true),
    ("^(?:ab)+?$", "abab", true), ("^(?<year>\\d{4})$", "2026", true),
    ("^[a-c-]+$", "a-c", true), ("^[^a-c]$", "d", true), ("^[^a-c]$", "b", false),
    ("^[]$", "", false), ("^[^]$", "\n", true), ("^[\\]\\d]+$", "]5", true),
    ("^.$", "\n", false), ("^.$", "\u{2028}", false), ("^.$", "😀", true),
    ("^\\w+$", "a_9", true), ("^\\w+$", "é", false), ("^\\d$", "٣", false),
    ("^\\s$", "\u{FEFF}", true), ("^\\S$", " ", false), ("^[\\D]$", "a", true),
    ("\\bcat\\b", "a cat!", true), ("\\bcat\\b", "concat", false), ("\\Bcat", "concat", true),
    ("^\\u0041\\x42\\u{43}\\cJ$", "ABC\n", true), ("^\\ud83d\\ude00$", "😀", true),
    ("^\\p{Lu}\\p{L}+$", "Émile", true), ("^\\P{L}$", "1", true), ("^[\\p{Nd}_]$", "٣", true),
    ("^\\p{gc=Decimal_Number}$", "5", true),
    ("^(?=.*\\d)(?=.*[a-z]).{4,}$", "abc1", true), ("^(?=.*\\d)(?=.*[a-z]).{4,}$", "abcd", false),
    ("^(?!.*forbidden).*$", "is forbidden", false), ("(?<=\\$)\\d+", "$42", true),
    ("(?<!\\$)\\b42", "$42", false), ("^(?=(?!b)a)a", "ab", true), ("a(?=b(?<=ab))", "ab", true),
    ("^a{0}$", "", true), ("^(|a)*$", "aaa", true), ("^((a*)*)*$", "aaa", true),
    ("^\\{\\}\\/\\-$", "{}/-", true), ("]", "]", true), ("^x{a}$", "x{a}", true),
  ])
  func matches(pattern: String, text: String, expected: Bool) throws {
    #expect(try Pattern(pattern).matches(text) == expected)
  }

  @Test(arguments: [
    "(", ")", "[", "a**", "*", "(?P<n>a)", "(?i)a", "\\", "\\u12", "\\k<n>", "(a)\\1", "\\p{Greek}",
    "\\p{Script=Greek}", "[b-a]", "[\\d-a]", "a{3,2}", "\\z", "(?<>a)", "^*", "(?=a)+", "\\01",
    "a{20000}", "((a{1000}){1000}){1000}",
  ])
  func refuses(pattern: String) {
    #expect(throws: PatternError.self) { try Pattern(pattern) }
  }

  /// What makes a backtracking engine run for longer than anybody waits.
  @Test(arguments: ["^(a+)+$", "^(a|aa)+$", "^(.*a){20}$", "(x+x+)+y", "^(?=(a+)+$)(?!(a*)*b)"])
  func timeGrowsWithTheTextAlone(pattern: String) throws {
    let pattern = try Pattern(pattern)
    let text = String(repeating: "a", count: 5000) + "!"
    #expect(!pattern.matches(text))
  }
}
