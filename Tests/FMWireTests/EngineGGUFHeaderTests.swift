import Foundation
import Testing

@testable import FMWire

@Suite struct EngineGGUFHeaderTests {
  @Test func readsTheModelOfTheDefault() async throws {
    let header = try GGUFHeader(path: try await EngineTestSupport.model())
    #expect(header.architecture == "llama")
    // What the model's makers publish for it.
    #expect(header.contextLength == 8192)
    #expect(!header.isProjector)
  }

  @Test func knowsAProjector() throws {
    let header = try GGUFHeader(path: EngineTestSupport.projector)
    #expect(header.isProjector)
    #expect(header.contextLength == nil)
  }

  @Test func findsTheLengthWhereverItStands() async throws {
    var builder = GGUFBuilder()
    builder.add("tokenizer.ggml.tokens", (0..<20_000).map { "token \($0)" })
    builder.add("other.context_length", 7)
    builder.add("odd.context_length", "text")
    builder.add("nested", kind: 9, nested(depth: 3))
    builder.add(
      "floats", kind: 9,
      GGUFBuilder.little(UInt32(6)) + GGUFBuilder.little(UInt64(50_000))
        + [UInt8](repeating: 0, count: 200_000))
    builder.add("late.context_length", kind: 10, GGUFBuilder.little(UInt64(131_072)))
    builder.add("general.type", "model")
    builder.add("general.architecture", "late")
    builder.add("general.name", "Späte Größe")
    builder.version = 2
    let header = try await header(of: builder.bytes)
    #expect(header.contextLength == 131_072)
    #expect(header.name == "Späte Größe")
    #expect(header.type == "model")
    #expect(header.version == 2)
  }

  @Test func namesTheFileThatIsNone() async throws {
    let huge = GGUFBuilder.little(UInt64.max)
    var longKey = Array(GGUFBuilder().bytes.dropLast(8))
    longKey += GGUFBuilder.little(UInt64(1)) + huge
    var longText = GGUFBuilder()
    longText.add("general.name", kind: 8, huge)
    var longSkip = GGUFBuilder()
    longSkip.add("some.text", kind: 8, huge)
    var longArray = GGUFBuilder()
    longArray.add("some.list", kind: 9, GGUFBuilder.little(UInt32(10)) + huge)
    var deep = GGUFBuilder()
    deep.add("nested", kind: 9, nested(depth: 9))
    var unknown = GGUFBuilder()
    unknown.add("what", kind: 99, [])
    var old = GGUFBuilder()
    old.version = 1
    var bigEndian = GGUFBuilder()
    bigEndian.version = UInt32(3).byteSwapped
    let cases: [(String, [UInt8], String)] = [
      ("empty", [], "ends inside"),
      ("text", Array("hello, this is no model".utf8), "GGUF"),
      ("long key", longKey, "bytes"),
      ("long text", longText.bytes, "bytes"),
      ("long skipped text", longSkip.bytes, "bytes"),
      ("long array", longArray.bytes, "array"),
      ("deep", deep.bytes, "nested"),
      ("unknown kind", unknown.bytes, "type 99"),
      ("old", old.bytes, "version 1"),
      ("big-endian", bigEndian.bytes, "big-endian"),
      ("many pairs", Array(GGUFBuilder().bytes.dropLast(8)) + huge, "entries"),
    ]
    for (name, bytes, words) in cases {
      try await EngineTestSupport.withFolder { folder in
        let path = "\(folder)/x.gguf"
        try EngineTestSupport.write(bytes, to: path)
        let error = #expect(throws: GGUFError.self, "\(name)") { try GGUFHeader(path: path) }
        #expect(error?.message.contains(path) == true, "\(name)")
        #expect(error?.message.contains(words) == true, "\(name): \(error?.message ?? "")")
      }
    }
    for path in ["/nonexistent/x.gguf", "/", "/dev/null"] {
      let error = #expect(throws: GGUFError.self) { try GGUFHeader(path: path) }
      #expect(error?.message.contains(path) == true)
    }
  }

  @Test func everyCutIsAnError() async throws {
    let bytes = GGUFBuilder.model()
    for length in 0..<bytes.count {
      await #expect(throws: GGUFError.self, "cut at \(length)") {
        try await header(of: Array(bytes[..<length]))
      }
    }
  }

  /// Damaged files are read or refused; never a crash, a hang or gigabytes.
  @Test func survivesDamage() async throws {
    var builder = GGUFBuilder()
    builder.add("general.architecture", "llama")
    builder.add("tokens", ["a", "bc", "def"])
    builder.add("nested", kind: 9, nested(depth: 3))
    builder.add("llama.context_length", 2048)
    let whole = builder.bytes
    var generator = SystemRandomNumberGenerator()
    try await EngineTestSupport.withFolder { folder in
      let path = "\(folder)/x.gguf"
      for _ in 0..<600 {
        await Task.yield()
        var bytes = whole
        for _ in 0..<Int.random(in: 1...4, using: &generator) {
          bytes[Int.random(in: 4..<bytes.count, using: &generator)] =
            [0, 1, 0x7F, 0x80, 0xFF, .random(in: 0...255)].randomElement()!
        }
        try Data(bytes).write(to: URL(filePath: path))
        do {
          _ = try GGUFHeader(path: path)
        } catch let error as GGUFError {
          #expect(error.message.contains(path), "\(bytes)")
        }
      }
    }
  }

  private func nested(depth: Int) -> [UInt8] {
    depth == 0
      ? GGUFBuilder.little(UInt32(4)) + GGUFBuilder.little(UInt64(1))
        + GGUFBuilder.little(UInt32(5))
      : GGUFBuilder.little(UInt32(9)) + GGUFBuilder.little(UInt64(1)) + nested(depth: depth - 1)
  }

  private func header(of bytes: [UInt8]) async throws -> GGUFHeader {
    try await EngineTestSupport.withFolder { folder in
      try EngineTestSupport.write(bytes, to: "\(folder)/x.gguf")
      return try GGUFHeader(path: "\(folder)/x.gguf")
    }
  }
}
