import FMImaging

/// What a request costs by rule of thumb, for models that nobody counts for.
///
/// Text by the way byte-pair vocabularies of 30,000 to 200,000 tokens cut it: a word of up to seven
/// letters is about one token, digits go in threes, every mark of punctuation is one, and scripts
/// without spaces take about one a character.
struct TokenEstimate {
  private var text = 0
  private var images = 0
  private var tools = 0
  private var framing = 3

  init(of request: LanguageModelExecutorGenerationRequest, for model: some LanguageModel) throws {
    for entry in request.transcript {
      framing += 4
      for segment in entry.segments {
        switch segment {
        case .text(let segment): text += Self.tokens(in: segment.content)
        case .structure(let segment): text += Self.tokens(in: segment.content.jsonString)
        case .attachment(let segment):
          if let label = segment.label { text += Self.tokens(in: labelMarker(label)) }
          guard case .image(let image) = segment.content else { continue }
          images += try Self.tokens(of: image, for: model)
        }
      }
      if case .toolCalls(let calls) = entry {
        for call in calls {
          text += 8 + Self.tokens(in: call.toolName) + Self.tokens(in: call.arguments.jsonString)
        }
      }
    }
    for tool in request.enabledToolDefinitions {
      tools +=
        12 + Self.tokens(in: tool.name) + Self.tokens(in: tool.description)
        + Self.tokens(in: tool.parameters.json.jsonText)
    }
  }

  var count: TokenCount {
    TokenCount(
      value: text + images + tools + framing, isExact: false,
      parts: ["text": text, "images": images, "tools": tools, "framing": framing])
  }

  static func tokens(in text: String) -> Int {
    var count = 0
    var letters = 0
    var digits = 0
    func endRun() {
      count += (letters + 6) / 7 + (digits + 2) / 3
      letters = 0
      digits = 0
    }
    for scalar in text.unicodeScalars {
      switch scalar.properties.generalCategory {
      case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .modifierLetter, .nonspacingMark:
        if digits > 0 { endRun() }
        letters += scalar.isASCII ? 1 : 2
      case .decimalNumber:
        if letters > 0 { endRun() }
        digits += 1
      case .spaceSeparator: endRun()
      default:
        endRun()
        // Pictographs take several bytes of a byte-level vocabulary.
        count += scalar.value > 0xFFFF ? 2 : 1
      }
    }
    endRun()
    return count
  }

  /// By the rule of the model's family, of the upright picture as it would be sent; prepares nothing.
  private static func tokens(
    of image: Transcript.ImageAttachment, for model: some LanguageModel
  ) throws -> Int {
    let info = try image.content.source.get().info
    let sent = image.content.policyChanges.applied(to: model.imagePolicy)
      .fit(width: info.storedWidth, height: info.storedHeight)
    let isTurned = (image.content.orientation ?? info.orientation).swapsAxes
    return model.imageTokenEstimate(
      width: isTurned ? sent.height : sent.width, height: isTurned ? sent.width : sent.height
    ).tokenCount
  }
}
