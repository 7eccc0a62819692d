/// The options of `fm respond`.
enum RespondOption: String, CommandOption {
  case image
  case label
  case orientation
  case text
  case instructions
  case stream
  case noStream = "no-stream"
  case json
  case schema
  case greedy
  case temperature
  case topK = "top-k"
  case topP = "top-p"
  case seed
  case maxTokens = "max-tokens"
  case modelURL = "model-url"
  case model
  case timeout
  case verbose
  case help

  var form: OptionForm {
    switch self {
    case .image:
      OptionForm(value: "PATH", "a picture file (JPEG, PNG); may be given again")
    case .label:
      OptionForm(
        value: "LABEL", "the name by which the model can refer to the picture given",
        "just before; as many labels after as many pictures go in order")
    case .orientation:
      OptionForm(
        value: "N", "1 to 8 in place of that picture's EXIF orientation, 0 for",
        "the file's own; goes to its picture as a label does")
    case .text: OptionForm(value: "TEXT", "a text at this place among the pictures; - is stdin")
    case .instructions:
      OptionForm(short: "i", value: "TEXT", "what the model is to be and do, before the prompt")
    case .stream: OptionForm("print the answer as it comes; so it is on a terminal")
    case .noStream: OptionForm("print the answer when it is complete; so it is elsewhere")
    case .json: OptionForm("print one JSON object, see below")
    case .schema:
      OptionForm(
        value: "SCHEMA", "a JSON Schema the answer is valid by: a file's path, or the",
        "schema itself, which begins with {")
    case .greedy: OptionForm(short: "g", "always the likeliest token")
    case .temperature: OptionForm(value: "T", "0 is the most predictable, larger more varied")
    case .topK: OptionForm(value: "K", "choose among the K likeliest tokens")
    case .topP: OptionForm(value: "P", "choose among the tokens that make up probability P")
    case .seed: OptionForm(value: "N", "the random numbers' start, for the same answer again")
    case .maxTokens: OptionForm(value: "N", "cut the answer off after N tokens")
    case .modelURL:
      OptionForm(
        value: "URL", "a chat-completions server, such as http://127.0.0.1:8080/v1,",
        "in place of the default model")
    case .model:
      OptionForm(short: "m", value: "NAME", "the model on that server; its first one if not given")
    case .timeout: OptionForm(value: "SECONDS", "give up when the answer is not complete by then")
    case .verbose: OptionForm(short: "v", "tell the model, pictures, tokens and time on stderr")
    case .help: OptionForm(short: "h", "print this help")
    }
  }
}
