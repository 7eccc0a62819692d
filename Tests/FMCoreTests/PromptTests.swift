import FMImaging
import Testing

@testable import FMCore

@Suite struct PromptTests {
  @Test func buildersKeepTheOrder() throws {
    let image = Attachment(try SourceImage(bytes: onePixelPNG))
    let missing: Prompt? = nil
    let extra: Prompt? = Prompt("extra")
    let prompt = Prompt {
      "one"
      image.label("A")
      for index in 0..<2 { "loop \(index)" }
      if let extra { extra }
      if let missing { missing }
      if prompts.isEmpty { "empty" } else { prompts }
      3
      [1.5, 2]
      true
    }
    #expect(
      prompt.components == [
        .text("one"), .image(image.label("A")), .text("loop 0"), .text("loop 1"), .text("extra"),
        .text("p"), .text("q"), .text("3"), .text("1.5"), .text("2.0"), .text("true"),
      ])
  }

  private let prompts = [Prompt("p"), Prompt("q")]

  @Test func anEmptyPromptIsLegalToBuild() {
    #expect(Prompt {}.components.isEmpty)
  }

  @Test func instructionsMirrorPrompts() {
    let instructions = Instructions {
      "one"
      for word in ["two", "three"] { word }
    }
    #expect(instructions.components == [.text("one"), .text("two"), .text("three")])
  }

  @Test func attachmentsRecordFailuresAndValidateOnRequest() {
    let attachment = Attachment(path: "/no/such.jpg", orientation: .right).label("x")
    #expect(attachment.labelText == "x")
    #expect(throws: ImageError.self) { try Attachment(validating: "/no/such.jpg") }
  }

  @Test func identifiersAreVersion4UUIDs() throws {
    let pattern = /[0-9A-F]{8}-[0-9A-F]{4}-4[0-9A-F]{3}-[89AB][0-9A-F]{3}-[0-9A-F]{12}/
    for _ in 0..<1000 { #expect(try pattern.wholeMatch(in: makeUUID()) != nil) }
    #expect(Set((0..<1000).map { _ in makeUUID() }).count == 1000)
  }
}
