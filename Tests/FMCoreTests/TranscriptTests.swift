import FMImaging
import FMWire
import Foundation
import Testing

@testable import FMCore

@Suite struct TranscriptTests {
  private func turn(_ number: Int, _ extra: [Transcript.Segment] = []) -> [Transcript.Entry] {
    [
      .prompt(
        Transcript.Prompt(
          segments: [.text(Transcript.TextSegment(content: "prompt \(number)"))] + extra)),
      .response(
        Transcript.Response(
          segments: [.text(Transcript.TextSegment(content: "answer \(number)"))])),
    ]
  }

  private func picture(_ label: String?) -> Transcript.Segment {
    let failed = ImageAttachmentContent(
      source: .failure(ImageError(kind: .notFound, message: "gone", path: "/gone.png")),
      orientation: nil)
    return .attachment(
      Transcript.AttachmentSegment(
        content: .image(Transcript.ImageAttachment(content: failed)), label: label))
  }

  private let instructions = Transcript.Entry.instructions(
    Transcript.Instructions(segments: [.text(Transcript.TextSegment(content: "Be brief."))]))

  @Test func historyHidesTheLeadingInstructionsOnly() {
    var transcript = Transcript(entries: [instructions] + turn(1) + [instructions])
    #expect(transcript.history.count == 3)
    transcript.history = Transcript.HistoryView(turn(2))
    #expect(transcript.map(\.text) == ["Be brief.", "prompt 2", "answer 2"])
    transcript.history.append(contentsOf: turn(3))
    transcript.history.removeFirst()
    #expect(transcript.map(\.text) == ["Be brief.", "answer 2", "prompt 3", "answer 3"])
    transcript.history = []
    #expect(transcript == Transcript(entries: [instructions]))
  }

  @Test func aWindowKeepsPicturesOfTheTurnsBefore() throws {
    let entries =
      [instructions] + turn(1, [picture("A"), picture(nil)]) + turn(2, [picture("B")])
      + turn(3, [picture("B")])
    let kept = try HistoryTransform.rollingWindow(turns: 1).transform(entries)
    #expect(kept.count == 3)
    guard case .prompt(let prompt) = kept[1] else {
      Issue.record("no prompt")
      return
    }
    let labels = prompt.segments.compactMap { segment -> String? in
      if case .attachment(let attachment) = segment { attachment.label ?? "none" } else { nil }
    }
    #expect(labels == ["A", "none", "B"], "of two pictures with one label the newer")
    #expect(try HistoryTransform.rollingWindow(turns: 5).transform(entries) == entries)
    #expect(try HistoryTransform.rollingWindow(turns: 0).transform(turn(1)) == [])
  }

  @Test func optionsThatChangeAreWrittenAnew() throws {
    let json = """
      {"version":1,"type":"FoundationModels.Transcript","transcript":{"entries":[{"id":"1",\
      "role":"user","contents":[],"options":{"temperature":"0.5","other":1}}]}}
      """
    var transcript = try Transcript(json: json)
    #expect(try JSONValue(parsing: transcript.jsonText()) == JSONValue(parsing: json))
    guard case .prompt(var prompt) = transcript[0] else {
      Issue.record("no prompt")
      return
    }
    #expect(prompt.options.temperature == 0.5)
    prompt.options.temperature = 1
    transcript[0] = .prompt(prompt)
    #expect(transcript.jsonText().contains(#""options":{"temperature":1.0}"#))
  }

  @Test func pathsBecomeURLsAndBack() {
    for path in ["/a b/ü#?%.png", "/plain", "/a%41"] {
      #expect(FileURL.text(of: path) == URL(fileURLWithPath: path).absoluteString)
      #expect(FileURL.path(of: FileURL.text(of: path)) == path)
    }
    #expect(FileURL.path(of: "file://localhost/a") == "/a")
    #expect(FileURL.path(of: "https://example.org/a.png") == nil)
    #expect(FileURL.path(of: "file:///a%zz") == nil)
  }

  @Test func base64IsThatOfEveryoneElse() {
    for count in 0..<70 {
      let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 37 &+ 11) }
      let text = Data(bytes).base64EncodedString()
      #expect(Base64.text(of: bytes) == text)
      #expect(Base64.bytes(of: text) == bytes)
    }
    for bad in ["A", "AB", "AB=", "A===", "AB==C", "A*BC", "AAAA="] {
      #expect(Base64.bytes(of: bad) == nil, "\(bad)")
    }
    #expect(Base64.bytes(of: "QUJD\r\nRA==\n") == Array("ABCD".utf8))
  }

  @Test func countsSayHowTheyCameAbout() async throws {
    let model = ScriptedModel(saying: ["x"])
    let one = try await model.tokenCount(for: "Hello")
    let two = try await model.tokenCount(for: "Hello there, how are you doing today?")
    #expect(!one.isExact)
    #expect(two.value > one.value)
    #expect(try await model.tokenCount(for: Instructions("Be brief.")).value > 0)
    #expect(try await model.tokenCount(for: String.generationSchema).isExact == false)
    #expect(try await model.tokenCount(for: Transcript(entries: [])).value == 0)
  }
}
