import FMImaging
import FMWire
import Testing

@testable import FMCore

@Suite struct CallerJSONTests {
  @Test func optionsTakeNumbersAndNumericTexts() throws {
    let options = try GenerationOptions(
      json: #"""
        {"sampling": {"mode": "random", "top_k": "40", "top_p": 0.5, "seed": "18446744073709551615"},
         "temperature": "0.7", "maximum_response_tokens": 12, "unknown": []}
        """#)
    #expect(options.samplingMode?.kind == .randomTopK(40, seed: .max))
    #expect(options.temperature == 0.7)
    #expect(options.maximumResponseTokens == 12)
    #expect(try GenerationOptions(json: nil) == GenerationOptions())
    #expect(
      try GenerationOptions(json: #"{"sampling":{"mode":"random","seed":3}}"#).samplingMode?.kind
        == .random(seed: 3))
    #expect(
      try GenerationOptions(json: #"{"sampling":{"mode":"random","top_p":1}}"#).samplingMode?.kind
        == .randomProbabilityThreshold(1, seed: nil))
    #expect(
      try GenerationOptions(json: #"{"sampling":{"mode":"greedy"}}"#).samplingMode == .greedy)
  }

  @Test(arguments: [
    "[]", "{", "3", #"{"temperature": true}"#, #"{"temperature": -1}"#, #"{"temperature": "hot"}"#,
    #"{"maximum_response_tokens": 0}"#, #"{"maximum_response_tokens": 1.5}"#,
    #"{"sampling": "greedy"}"#, #"{"sampling": {}}"#, #"{"sampling": {"mode": "beam"}}"#,
    #"{"sampling": {"mode": "random", "top_k": 0}}"#,
    #"{"sampling": {"mode": "random", "top_p": 1.5}}"#,
    #"{"sampling": {"mode": "random", "seed": -1}}"#,
  ])
  func badOptionsAreRefused(text: String) {
    let error = #expect(throws: Failure.self) { try GenerationOptions(json: text) }
    #expect(error?.status == .unknown)
  }

  @Test func modelOptionsAreRead() throws {
    let chat = try ChatConfiguration(
      baseURL: "http://h", model: "m", apiKey: "k",
      optionsJSON: ##"""
        {"headers": {"X-A": "1"}, "timeout": {"connect": 1, "idle": 0}, "context_size": 2048,
         "supports_images": false, "image": {"max_long_edge": 512, "background": "#ff8000"},
         "extra_body": {"a": [1]}}
        """##)
    #expect(chat.endpoint.apiKey == "k")
    #expect(chat.endpoint.headers == ["X-A": "1"])
    #expect(chat.endpoint.timeouts.connect == 1)
    #expect(chat.endpoint.timeouts.idle == 0)
    #expect(chat.endpoint.timeouts.total == HTTPTimeouts().total)
    #expect(chat.contextSize == 2048)
    #expect(chat.supportsImages == false)
    #expect(chat.imagePolicy == ImagePolicy(maxLongEdge: 512, background: 0xFF8000))
    #expect(chat.extraBody["a"] == [1])
  }

  @Test(arguments: [
    #"{"header": {}}"#, #"{"headers": {"a": 1}}"#, #"{"headers": {"a": "x\r\ny: z"}}"#,
    #"{"timeout": {"idle": -1}}"#, #"{"timeout": {"read": 1}}"#, #"{"context_size": 0}"#,
    #"{"image": {"quality": 0}}"#, #"{"image": {"quality": 101}}"#,
    #"{"supports_tools": 1}"#, #"{"server": "llamacpp"}"#, #"{"server": 1}"#, "[]", "x",
    #"{"image": {"max_long_edge": -1}}"#, #"{"image": {"background": "white"}}"#,
    ##"{"image": {"background": "#+12345"}}"##, #"{"supports_images": 1}"#, "[]", "x",
  ])
  func badModelOptionsAreRefused(text: String) {
    let error = #expect(throws: Failure.self) {
      try ChatConfiguration(baseURL: "http://h", model: "m", apiKey: nil, optionsJSON: text)
    }
    #expect(error?.status == .invalidArgument)
  }

  @Test func failuresCarryTheirDetails() throws {
    let failure = Failure(
      WireError(
        kind: .contextSizeExceeded, message: "too long", url: "http://h", httpStatus: 400,
        tokenCount: 9, contextSize: 8), partialText: "so far")
    #expect(failure.status == .exceededContextWindowSize)
    let details = try JSONValue(parsing: failure.json)
    #expect(
      details == [
        "message": "too long", "url": "http://h", "http_status": 400, "token_count": 9,
        "context_size": 8, "partial_text": "so far",
      ])
    #expect(Failure(CancellationError()).message == "Operation cancelled")
    for kind in ImageError.Kind.allCases {
      let failure = Failure(ImageError(kind: kind, message: "m", path: "p"))
      #expect((100..<120).contains(failure.status.rawValue))
      #expect(failure.details["path"] == "p")
    }
    for kind in WireError.Kind.allCases where kind != .cancelled {
      #expect(Failure(WireError(kind: kind, message: "m")).status != .unknown)
    }
  }
}
