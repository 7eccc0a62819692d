import FMImaging
import Testing

@testable import FMCore

@Suite("Families of models that see")
struct ImageModelFamilyTests {
  @Test(arguments: [
    ("gpt-4o-2024-08-06", "openai-tiles"), ("gpt-4o-mini", "openai-tiles-4o-mini"),
    ("gpt-4.1", "openai-tiles"), ("gpt-4.1-mini", "openai-patches"),
    ("openai/gpt-4.1-nano", "openai-patches-nano"), ("gpt-5", "openai-tiles-5"),
    ("gpt-5-mini-2025", "openai-patches-5"), ("o4-mini", "openai-patches-o4"),
    ("o3", "openai-tiles-o"), ("claude-sonnet-4-5", "claude"),
    ("anthropic/claude-opus-4.7", "claude-large"), ("gemini-2.5-flash", "gemini"),
    ("models/gemini-3-pro", "gemini-3"), ("Qwen/Qwen2.5-VL-7B-Instruct", "qwen2-vl"),
    ("qwen2.5vl:7b", "qwen2-vl"), ("unsloth_Qwen3-VL-4B.Q4_K_M.gguf", "qwen3-vl"),
    ("llava:7b", "llava"), ("llava-v1.6-mistral-7b", "llava-next"), ("gemma3:4b", "gemma-3"),
    ("google/gemma-3-27b-it", "gemma-3"), ("SmolVLM-256M-Instruct", "smolvlm"),
    ("HuggingFaceTB/SmolVLM-Instruct", "smolvlm-tiles-384"), ("pixtral-12b-2409", "pixtral"),
    ("mistral-small3.1", "mistral"), ("InternVL3-8B", "internvl"), ("minicpm-v", "minicpm-v"),
    ("llama3.2-vision:11b", "llama-3.2-vision"),
    ("meta-llama/Llama-3.2-11B-Vision-Instruct", "llama-3.2-vision"),
  ])
  func isToldByTheName(model: String, family: String) {
    #expect(ImageModelFamily(ofModel: model)?.name == family)
  }

  @Test(arguments: ["", "SmolLM2-135M-Instruct", "foo3b", "turbo1", "mistral-7b-v0.3", "gemma2:9b"])
  func otherNamesTellNothing(model: String) {
    #expect(ImageModelFamily(ofModel: model) == nil)
    var chat = ChatConfiguration(endpoint: .init(baseURL: "http://h"), model: model)
    #expect(chat.imagePolicy == .default)
    chat.imagePolicy.quality = 3
    #expect(chat.imagePolicy == ImagePolicy(quality: 3))
  }

  @Test func namesAreUniqueAndFindTheirFamily() {
    let names = ImageModelFamily.all.map(\.name)
    #expect(Set(names).count == names.count)
    for family in ImageModelFamily.all { #expect(ImageModelFamily(named: family.name) == family) }
    #expect(ImageModelFamily(named: "nobody") == nil)
  }

  /// Published examples and measured counts: what is not our own arithmetic.
  @Test(arguments: [
    ("gpt-4o", 1024, 1024, 765), ("gpt-4o", 2048, 4096, 1105), ("gpt-4o", 4032, 3024, 765),
    ("gpt-4o", 100, 100, 255),
    ("claude-sonnet-4", 256, 256, 100), ("claude-sonnet-4", 512, 512, 361),
    ("claude-sonnet-4", 1024, 1024, 1369),
    ("qwen3-vl", 4032, 3024, 11844), ("qwen3-vl", 640, 480, 300), ("qwen3-vl", 16, 16, 64),
    ("qwen2.5-vl", 4032, 3024, 15552), ("qwen2.5-vl", 640, 480, 391),
    ("llava:7b", 4032, 3024, 576), ("gemma-3-4b", 4032, 3024, 256),
    ("pixtral-12b", 1024, 1024, 64 * 64 + 63), ("pixtral-12b", 512, 512, 32 * 32 + 31),
    ("gemini-2.5-pro", 384, 384, 258), ("gemini-2.5-pro", 960, 540, 6 * 258),
    ("gpt-4.1-mini", 1024, 1024, 1659),
  ])
  func tokens(model: String, width: Int, height: Int, count: Int) {
    #expect(ImageTokenEstimate(width: width, height: height, model: model).tokenCount == count)
  }

  @Test func everyRuleIsSaneForEverySize() {
    for family in ImageModelFamily.all {
      for (width, height) in [(1, 1), (1, 9000), (9000, 1), (640, 480), (4032, 3024)] {
        let fitted = family.policy.fit(width: width, height: height)
        let estimate = family.tokenEstimate(width: fitted.width, height: fitted.height)
        #expect(estimate.tokenCount > 0 && estimate.tokenCount < 50_000, "\(family.name)")
        #expect(estimate.family == family.name && estimate.isExact == family.isExact)
      }
    }
    let unknown = ImageTokenEstimate(width: 280, height: 28, model: "somebody's")
    #expect(unknown == ImageTokenEstimate(tokenCount: 10, isExact: false, family: nil))
  }

  /// A model's policy goes over its family's, an attachment's over both, member by member.
  @Test func policiesGoOverEachOther() throws {
    let model = try ImagePolicyChanges(json: #"{"quality": 70, "max_long_edge": 0}"#)
    let one = ImagePolicy.forModel("gemma3:4b", changes: model)
    #expect(one == ImagePolicy(maxLongEdge: nil, maxShortEdge: 896, quality: 70))
    let attachment = try ImagePolicyChanges(json: #"{"max_long_edge": 500, "verify": null}"#)
    #expect(attachment.applied(to: one).maxLongEdge == 500)
    #expect(attachment.applied(to: one).quality == 70)
    let preset = try ImagePolicyChanges(json: ##"{"preset": "llava", "background": "#010203"}"##)
    #expect(preset.applied(to: one) == ImagePolicy(maxLongEdge: 672, background: 0x010203))
    // What is written is read back.
    let text = one.json.jsonText.split(separator: "null").joined(separator: "0")
    #expect(try ImagePolicyChanges(json: text).applied(to: .default) == one)
  }
}
