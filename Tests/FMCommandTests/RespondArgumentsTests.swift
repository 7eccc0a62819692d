import FMCore
import Testing

@testable import FMCommand

@Suite struct RespondArgumentsTests {
  private typealias Piece = RespondArguments.Piece

  private func arguments(_ words: String...) throws -> RespondArguments {
    try RespondArguments(words)
  }

  private func message(_ words: String...) -> String {
    do {
      _ = try RespondArguments(words)
      return ""
    } catch {
      return error.message
    }
  }

  /// The pictures as `path label orientation`.
  private func images(_ words: String...) throws -> [String] {
    try RespondArguments(words).pieces.compactMap { piece in
      guard case .image(let image) = piece else { return nil }
      let orientation = image.orientation.map { String($0.rawValue) } ?? "-"
      return "\(image.path) \(image.label ?? "-") \(orientation)"
    }
  }

  @Test func piecesStayInOrderAndThePromptIsApart() throws {
    let all = try arguments("P", "--text", "t1", "--image", "a", "--text=t2", "--image", "b")
    #expect(all.prompt == "P")
    #expect(
      all.pieces == [
        .text("t1"), .image(.init(path: "a")), .text("t2"), .image(.init(path: "b")),
      ])
  }

  @Test func aLabelGoesToThePictureJustBefore() throws {
    #expect(
      try images("--image", "a", "--label", "A", "--image", "b", "--label", "B") == [
        "a A -", "b B -",
      ])
    #expect(try images("--image", "a", "--image", "b", "--label", "B") == ["a - -", "b B -"])
    #expect(try images("--image", "a", "--label", "A", "--image", "b") == ["a A -", "b - -"])
  }

  @Test func asManyLabelsAsPicturesGoInOrder() throws {
    #expect(
      try images("--image", "a", "--image", "b", "--label", "A", "--label", "B") == [
        "a A -", "b B -",
      ])
    #expect(
      try images(
        "--image", "x", "--label", "X", "--image", "a", "--text", "and", "--image", "b",
        "--label", "A", "--orientation", "3", "--label", "B", "--orientation", "0") == [
          "x X -", "a A 3", "b B -",
        ])
  }

  @Test func whatHasTwoReadingsIsRefused() {
    #expect(
      message("--image", "a", "--image", "b", "--image", "c", "--label", "A", "--label", "B")
        == "2 labels follow 3 pictures; put each right after its --image")
    #expect(
      message("--image", "a", "--label", "A", "--label", "B")
        == "2 labels follow 1 picture; put each right after its --image")
    #expect(message("--label", "A", "--image", "a").contains("before any picture"))
    #expect(message("--orientation", "6", "--image", "a").contains("before any picture"))
  }

  @Test(arguments: ["9", "-1", "six", "", "1.5", "99999999999999999999"])
  func orientations(_ value: String) {
    #expect(message("--image", "a", "--orientation=" + value).contains("1 to 8, or 0"))
  }

  @Test func samplingOptions() throws {
    #expect(try arguments("-g").options == GenerationOptions(samplingMode: .greedy))
    #expect(
      try arguments("--top-k", "3", "--seed", "18446744073709551615", "--temperature=0.5").options
        == GenerationOptions(samplingMode: .random(top: 3, seed: .max), temperature: 0.5))
    #expect(
      try arguments("--top-p", "1", "--max-tokens", "7").options
        == GenerationOptions(
          samplingMode: .random(probabilityThreshold: 1), maximumResponseTokens: 7))
    #expect(
      try arguments("--top-p", "0").options
        == GenerationOptions(samplingMode: .random(probabilityThreshold: 0)))
    #expect(
      try arguments("--seed", "0").options == GenerationOptions(samplingMode: .random(seed: 0)))
    #expect(try arguments("x").options == GenerationOptions())
  }

  @Test(arguments: [
    ["--temperature", "-1"], ["--temperature", "nan"], ["--temperature", "1e999"],
    ["--temperature", "warm"], ["--top-k", "0"], ["--top-k", "1.5"], ["--top-p", "-0.1"],
    ["--top-p", "1.1"], ["--seed", "-1"], ["--seed", "18446744073709551616"],
    ["--max-tokens", "0"], ["--max-tokens", "-5"], ["--timeout", "0"], ["--timeout", "1e9"],
  ])
  func valuesOutOfRangeNameTheOption(_ words: [String]) {
    let error = #expect(throws: UsageError.self) { try RespondArguments(words) }
    #expect(error?.message.hasPrefix("\(words[0]) takes ") == true)
    #expect(error?.message.hasSuffix("not \"\(words[1])\"") == true)
  }

  @Test func whatCannotGoTogether() {
    #expect(message("-g", "--seed", "1").contains("--greedy"))
    #expect(message("--top-k", "1", "--top-p", "0.5").contains("not both"))
    #expect(message("--json", "--stream").contains("--stream"))
    #expect(message("what", "is").contains("in quotes"))
    #expect(message("-", "--text", "-").contains("twice"))
  }

  @Test func theLastOfTwoHolds() throws {
    #expect(try arguments("--stream", "--no-stream").streams == false)
    #expect(try arguments("--timeout", "1", "--timeout", "2.5").timeoutSeconds == 2.5)
  }

  @Test func aDashIsStdinInItsPlace() throws {
    #expect(
      try arguments("-", "Q", "--image", "a").pieces == [.standardInput, .image(.init(path: "a"))])
    #expect(try arguments("-").prompt == nil)
  }

  @Test func helpComesBeforeWhatIsWrong() throws {
    #expect(try arguments("--label", "A", "--help").asksHelp)
  }
}
