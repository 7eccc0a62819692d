import Testing

@testable import FMCommand

@Suite struct ArgumentParserTests {
  private func parse(_ words: String...) throws -> [Argument<RespondOption>] {
    try ArgumentParser.parse(words)
  }

  private func message(_ words: String...) -> String? {
    do {
      _ = try ArgumentParser<RespondOption>.parse(words)
      return nil
    } catch {
      return error.message
    }
  }

  @Test func longShortAndEqualsFormsAreAlike() throws {
    for words in [
      ["--model", "a b"], ["--model=a b"], ["-m", "a b"], ["-m=a b"],
    ] {
      #expect(try ArgumentParser<RespondOption>.parse(words) == [.value(.model, "a b")])
    }
    #expect(try parse("-g", "--json") == [.option(.greedy), .option(.json)])
  }

  @Test func orderIsKept() throws {
    #expect(
      try parse("first", "--text", "t", "--image=p=q", "last") == [
        .positional("first"), .value(.text, "t"), .value(.image, "p=q"), .positional("last"),
      ])
  }

  @Test func aMissingValueIsNeverTheNextOption() {
    #expect(message("--instructions", "--json")?.contains("--instructions needs a value") == true)
    #expect(message("--instructions", "--json")?.contains("--instructions=--json") == true)
    #expect(message("-i", "-g")?.hasPrefix("-i needs a value") == true)
    #expect(message("prompt", "--model")?.hasPrefix("--model needs a value: --model NAME") == true)
    #expect(message("--text", "--", "x")?.hasPrefix("--text needs a value") == true)
  }

  @Test func valuesWithADash() throws {
    #expect(try parse("--seed", "-1") == [.value(.seed, "-1")])
    #expect(try parse("--temperature", "-.5e3") == [.value(.temperature, "-.5e3")])
    #expect(try parse("--text=-g") == [.value(.text, "-g")])
    #expect(try parse("--text=") == [.value(.text, "")])
    #expect(try parse("--text", "-") == [.value(.text, "-")])
    #expect(message("--text", "-inf") != nil)
    #expect(message("--text", "-1x") != nil)
  }

  @Test func aLoneDoubleDashEndsTheOptions() throws {
    #expect(
      try parse("--json", "--", "--image", "-g", "--") == [
        .option(.json), .positional("--image"), .positional("-g"), .positional("--"),
      ])
    #expect(try parse("-") == [.positional("-")])
  }

  @Test func unknownOptionsAreNamedWithTheNearest() {
    #expect(message("--imgae", "x") == "unknown option \"--imgae\"; did you mean --image?")
    #expect(message("--max-token=3")?.contains("did you mean --max-tokens?") == true)
    #expect(message("--top_k", "3")?.contains("did you mean --top-k?") == true)
    #expect(message("--frobnicate")?.contains("did you mean") == false)
    #expect(message("-5 + 3 = ?")?.contains("a lone --") == true)
    #expect(message("-gv")?.contains("one by one") == true)
  }

  @Test func anOptionWithoutAValueTakesNone() {
    #expect(message("--json=yes") == "--json takes no value; write --json alone")
  }

  /// Distances by Wagner and Fischer's examples and one swap.
  @Test(arguments: [
    ("kitten", "sitting", 3), ("", "abc", 3), ("abc", "", 3), ("same", "same", 0),
    ("imgae", "image", 1), ("Saturday", "Sunday", 3),
  ])
  func distances(_ left: String, _ right: String, _ distance: Int) {
    #expect(editDistance(left, right) == distance)
    #expect(editDistance(right, left) == distance)
  }
}
