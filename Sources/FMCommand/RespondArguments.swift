import FMCore
import FMImaging

/// What a command line of `fm respond` asks for, checked as far as it goes without any file.
struct RespondArguments: Equatable {
  /// A piece of the prompt, in the order given.
  enum Piece: Equatable {
    case text(String)
    case standardInput
    case image(Image)
  }

  struct Image: Equatable {
    var path: String
    var label: String?
    var orientation: ImageOrientation?
  }

  /// The pictures, `--text` and a lone dash; the prompt itself comes last.
  var pieces: [Piece] = []
  var prompt: String?
  var instructions: String?
  /// nil: as it suits the output.
  var streams: Bool?
  var asksJSON = false
  var schema: String?
  var options = GenerationOptions()
  var modelURL: String?
  var model: String?
  var timeoutSeconds: Double?
  var isVerbose = false
  var asksHelp = false

  init(_ arguments: [String]) throws(UsageError) {
    let parsed = try ArgumentParser<RespondOption>.parse(arguments)
    asksHelp = parsed.contains(.option(.help))
    guard !asksHelp else { return }
    var pairing = Pairing()
    var sampling = Sampling()
    for argument in parsed {
      switch argument {
      case .positional(let text): try take(positional: text)
      case .option(.greedy): sampling.isGreedy = true
      case .option(let option): take(option)
      case .value(let option, let value):
        try take(option, value, &pairing, &sampling)
      }
    }
    try pairing.close(&pieces)
    options = try sampling.options()
    if asksJSON, streams == true {
      throw UsageError(message: "--json prints one object at the end; leave --stream out")
    }
    if pieces.count(where: { $0 == .standardInput }) > 1 {
      throw UsageError(message: "stdin is asked for twice; give - once")
    }
  }

  private mutating func take(positional text: String) throws(UsageError) {
    if text == "-" {
      pieces.append(.standardInput)
    } else if prompt == nil {
      prompt = text
    } else {
      throw UsageError(
        message: "there is a prompt already and then \(typed(text)); put the prompt in quotes")
    }
  }

  private mutating func take(_ option: RespondOption) {
    switch option {
    case .stream: streams = true
    case .noStream: streams = false
    case .json: asksJSON = true
    case .verbose: isVerbose = true
    default: break
    }
  }

  private mutating func take(
    _ option: RespondOption, _ value: String, _ pairing: inout Pairing, _ sampling: inout Sampling
  ) throws(UsageError) {
    switch option {
    case .image:
      try pairing.begin(at: pieces.count, &pieces)
      pieces.append(.image(Image(path: value)))
    case .label: try pairing.add(label: value)
    case .orientation: try pairing.add(orientation: value)
    case .text: pieces.append(value == "-" ? .standardInput : .text(value))
    case .instructions: instructions = value
    case .schema: schema = value
    case .temperature:
      sampling.temperature = try number(option, value, "a number of at least 0") { $0 >= 0 }
    case .topK: sampling.topK = try integer(option, value, "a whole number of at least 1")
    case .topP:
      sampling.topP = try number(option, value, "a number from 0 to 1") { $0 >= 0 && $0 <= 1 }
    case .seed:
      guard let seed = UInt64(value) else {
        throw wrong(option, value, "a whole number of at least 0, below 2^64")
      }
      sampling.seed = seed
    case .maxTokens:
      sampling.maximumTokens = try integer(option, value, "a whole number of at least 1")
    case .modelURL: modelURL = value
    case .model: model = value
    case .timeout:
      // A day is more than any server waits, and keeps sums of it far from overflow.
      timeoutSeconds = try number(option, value, "a number of seconds above 0, up to 86400") {
        $0 > 0 && $0 <= 86_400
      }
    default: break
    }
  }
}

private func wrong(_ option: RespondOption, _ value: String, _ expected: String) -> UsageError {
  UsageError(message: "\(option.written) takes \(expected), not \(typed(value))")
}

private func number(
  _ option: RespondOption, _ text: String, _ expected: String, _ isGood: (Double) -> Bool
) throws(UsageError) -> Double {
  guard let value = Double(text), value.isFinite, isGood(value) else {
    throw wrong(option, text, expected)
  }
  return value
}

private func integer(_ option: RespondOption, _ text: String, _ expected: String)
  throws(UsageError) -> Int
{
  guard let value = Int(text), value >= 1 else { throw wrong(option, text, expected) }
  return value
}

/// Gives labels and orientations to pictures: one goes to the picture just before it; as many as
/// there are pictures before them go in order. Anything else has two readings and is refused.
private struct Pairing {
  /// Where the pictures stand that labels and orientations from here on belong to.
  private var images: [Int] = []
  private var labels: [String] = []
  private var orientations: [ImageOrientation?] = []

  /// A picture that follows labels or orientations starts a new group.
  mutating func begin(
    at index: Int, _ pieces: inout [RespondArguments.Piece]
  ) throws(UsageError) {
    if !labels.isEmpty || !orientations.isEmpty { try close(&pieces) }
    images.append(index)
  }

  mutating func add(label: String) throws(UsageError) {
    try requireImage("--label \(typed(label))")
    labels.append(label)
  }

  mutating func add(orientation text: String) throws(UsageError) {
    try requireImage("--orientation \(text)")
    guard let value = UInt32(text), value <= 8 else {
      throw wrong(.orientation, text, "1 to 8, or 0 for the file's own")
    }
    orientations.append(ImageOrientation(rawValue: value))
  }

  private func requireImage(_ what: String) throws(UsageError) {
    guard images.isEmpty else { return }
    throw UsageError(message: "\(what) comes before any picture; put it after its --image")
  }

  mutating func close(_ pieces: inout [RespondArguments.Piece]) throws(UsageError) {
    let labelled = try targets(of: labels.count, "labels")
    for (index, label) in zip(labelled, labels) {
      change(&pieces[index]) { $0.label = label }
    }
    let turned = try targets(of: orientations.count, "orientations")
    for (index, orientation) in zip(turned, orientations) {
      change(&pieces[index]) { $0.orientation = orientation }
    }
    self = Pairing()
  }

  private func targets(of count: Int, _ what: String) throws(UsageError) -> ArraySlice<Int> {
    if count <= 1 { return images.suffix(count) }
    guard count == images.count else {
      let pictures = images.count == 1 ? "1 picture" : "\(images.count) pictures"
      throw UsageError(
        message: "\(count) \(what) follow \(pictures); put each right after its --image")
    }
    return images[...]
  }

  private func change(
    _ piece: inout RespondArguments.Piece, _ body: (inout RespondArguments.Image) -> Void
  ) {
    guard case .image(var image) = piece else { return }
    body(&image)
    piece = .image(image)
  }
}

/// The sampling options, which have to go together.
private struct Sampling {
  var isGreedy = false
  var temperature: Double?
  var topK: Int?
  var topP: Double?
  var seed: UInt64?
  var maximumTokens: Int?

  func options() throws(UsageError) -> GenerationOptions {
    if isGreedy, temperature != nil || topK != nil || topP != nil || seed != nil {
      throw UsageError(
        message: "--greedy leaves nothing to chance; leave --temperature, --top-k, --top-p and"
          + " --seed out")
    }
    guard topK == nil || topP == nil else {
      throw UsageError(message: "give --top-k or --top-p, not both")
    }
    let mode: GenerationOptions.SamplingMode? =
      if isGreedy {
        .greedy
      } else if let topK {
        .random(top: topK, seed: seed)
      } else if let topP {
        .random(probabilityThreshold: topP, seed: seed)
      } else {
        seed.map { .random(seed: $0) }
      }
    return GenerationOptions(
      samplingMode: mode, temperature: temperature, maximumResponseTokens: maximumTokens)
  }
}
