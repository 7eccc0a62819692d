/// What one request was and what became of it, for logs. Holds no key and no picture.
package struct RequestRecord: Sendable, Equatable {
  /// A picture as it was sent.
  package struct Image: Sendable, Equatable {
    package var width: Int
    package var height: Int
    package var byteCount: Int
    package init(width: Int, height: Int, byteCount: Int) {
      self.width = width
      self.height = height
      self.byteCount = byteCount
    }
  }

  package var method: String
  /// Without user, password and query.
  package var url: String
  package var model: String?
  package var images: [Image] = []
  /// Of the newest attempt; nil = no answer came.
  package var status: Int?
  package var requestBytes = 0
  package var responseBytes = 0
  /// Seconds from the request's start to the answer's head, to the first text, reasoning or tool
  /// call, and to the end.
  package var secondsToHead: Double?
  package var secondsToFirstToken: Double?
  package var secondsToEnd = 0.0
  /// Attempts after the first.
  package var retries = 0
  package var usage: ChatUsage?
  package var finishReason: String?
  /// Why there is no answer: the kind of the failure, or "cancelled".
  package var failure: String?

  package init(method: String, url: String, model: String? = nil, images: [Image] = []) {
    self.method = method
    self.url = url
    self.model = model
    self.images = images
  }

  /// One line for people, without a line end.
  package var line: String {
    var words = [method, url]
    func add(_ name: String, _ value: (some Any)?) {
      if let value { words.append("\(name)=\(value)") }
    }
    add("model", model.map(Self.word))
    add("status", status)
    add("sent", "\(requestBytes)B")
    add("received", "\(responseBytes)B")
    if !images.isEmpty {
      let sizes = images.map { "\($0.width)x\($0.height)/\($0.byteCount)B" }
      add("images", "\(images.count)(\(sizes.joined(separator: ",")))")
    }
    add("head", secondsToHead.map(Self.milliseconds))
    add("first", secondsToFirstToken.map(Self.milliseconds))
    add("end", Self.milliseconds(secondsToEnd))
    add("retries", retries)
    if let usage {
      func text(_ count: Int?) -> String { count.map { "\($0)" } ?? "?" }
      var tokens = "\(text(usage.promptTokens))+\(text(usage.completionTokens))"
      if let cached = usage.cachedPromptTokens { tokens += ",cached=\(cached)" }
      if let reasoning = usage.reasoningTokens { tokens += ",reasoning=\(reasoning)" }
      add("tokens", tokens)
    }
    add("finish", finishReason.map(Self.word))
    add("failure", failure)
    return words.joined(separator: " ")
  }

  /// The same for programs: seconds and bytes as numbers, what is unknown as null.
  package var json: JSONValue {
    func number(_ value: Int?) -> JSONValue { value.map { .number(JSONNumber($0)) } ?? .null }
    func number(_ value: Double?) -> JSONValue {
      value.flatMap(JSONNumber.init(_:)).map(JSONValue.number) ?? .null
    }
    func text(_ value: String?) -> JSONValue { value.map(JSONValue.string) ?? .null }
    return [
      "method": .string(method), "url": .string(url), "model": text(model),
      "status": number(status), "request_bytes": number(requestBytes),
      "response_bytes": number(responseBytes),
      "images": .array(
        images.map {
          [
            "width": number($0.width), "height": number($0.height),
            "byte_count": number($0.byteCount),
          ]
        }),
      "seconds_to_head": number(secondsToHead),
      "seconds_to_first_token": number(secondsToFirstToken),
      "seconds_to_end": number(secondsToEnd), "retries": number(retries),
      "tokens": [
        "prompt": number(usage?.promptTokens), "completion": number(usage?.completionTokens),
        "cached": number(usage?.cachedPromptTokens), "reasoning": number(usage?.reasoningTokens),
      ],
      "finish_reason": text(finishReason), "failure": text(failure),
    ]
  }

  /// A name from outside, as one word of a line.
  private static func word(_ text: String) -> String {
    let isPlain = !text.isEmpty && text.utf8.allSatisfy { 33...126 ~= $0 && $0 != 34 }
    return isPlain ? text : JSONValue.string(text).jsonText
  }

  private static func milliseconds(_ seconds: Double) -> String {
    let tenths = (seconds * 10_000).rounded()
    return "\(tenths / 10)ms"
  }
}
