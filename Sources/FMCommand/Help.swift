import FMWire

/// The texts of `--help`.
enum Help {
  static let version = "fm (OpenFM) \(openFMVersion)\n"

  static let commands = ["respond", "available", "image", "eval", "model", "help"]

  static let overview = """
    Asks a language model about texts and pictures.

    Usage:
      fm respond [PROMPT] [OPTIONS]   one prompt, one answer
      fm available [--json]           what the default model is, or how to get one
      fm eval CASES --prompt FILE     a prompt on many cases, scored
      fm model COMMAND                fetch, list and remove model files
      fm image PATH [OPTIONS]         what a picture is sent as, and what it costs
      fm help [COMMAND]
      fm --version

    Examples:
      fm respond "Name three colours"
      fm respond "Which way does the arrow point?" --image arrow.jpg
      fm respond "What differs?" --image a.jpg --label before --image b.jpg --label after
      fm respond "Summarize this" < notes.txt

    \(environment)

    \(exitCodes)

    """

  static let respond = """
    Sends one prompt to a model and prints its answer.

    Usage: fm respond [PROMPT] [OPTIONS]

    Options:
    \(table(of: RespondOption.self))

    The prompt: pictures and texts go in the order given, then stdin, then PROMPT. A text that begins
    with a dash comes after a lone --; an option's value that does is written --option=VALUE.

    Stdin: without PROMPT and --text, it is the prompt, unless it is a terminal. With one of them, a
    file or a pipe on stdin is context and goes before PROMPT; nothing else is read, and a pipe on
    which nothing comes for 30 s is an error. A lone - as PROMPT, beside it, or after --text reads
    stdin as long as it takes. </dev/null says that there is none: in a loop that reads a file, fm
    would else take the rest of it.

    JSON: {"content": text or the value by the schema, "finish_reason", "usage": {"input": {"total",
    "cached"}, "output": {"total", "reasoning"}}, "images": [{"label", "original_width",
    "original_height", "width", "height", "byte_count", "mime_type", "action"}], "model": {...},
    "seconds"}. A count that nobody gave is null. When the request fails it is {"error": {"name",
    "code", "message", ...}} instead, and the line on stderr comes as well; a usage error and an
    interrupt print no JSON.

    \(environment)

    \(exitCodes)

    """

  static let image = """
    Tells what a picture file is and what a model would be sent for it: upright, within the limits,
    without transparency and metadata. Connects to nothing.

    Usage: fm image PATH [OPTIONS]

    Options:
    \(table(of: ImageOption.self))

    JSON: {"path", "file": {"mime_type", "width", "height", "orientation", "byte_count", "sha256"},
    "sent": {"original_width", "original_height", "width", "height", "scale", "orientation",
    "byte_count", "mime_type", "action": "passthrough", "lossless-turn" or "re-encoded", "sha256",
    "warning_count"},
    "tokens" with --model: {"count", "is_exact", "family"}}. The file's size is as it is stored, the
    original's is upright. A failure is {"error": {"name", "code", "message", ...}} instead, and the
    line on stderr comes as well.

    Exit codes: 0 the picture can be sent; 1 it is missing, damaged or of no known kind; 2 the command
    line is wrong.

    """

  static let available = """
    Tells what the default model is, or what to do to get one. Starts nothing and connects to
    nothing. Exits with 0 when there is one, else with 5.

    Usage: fm available [OPTIONS]

    Options:
    \(table(of: AvailableOption.self))

    JSON: {"available", "kind": "chat-completions", "engine" or "unavailable", "explanation" when
    unavailable, and what applies of "model", "base_url", "model_path", "mmproj_path", "engine",
    "context_size"}, with "build": {"version", "image_formats", "tls", "http2", "unix_sockets",
    "engine", "linked"}, which is what this fm was built with and can do.

    \(environment)

    """

  static let eval = """
    Asks a model about every case of a file or a folder of pictures, and scores the answers. Runs the
    evaluation of the Python package openfm, which must be installed; fm eval --help tells the scores
    and the exit codes.

    Usage: fm eval CASES --prompt FILE [OPTIONS]

    Options:
          --prompt FILE        template: a file's text, with {members} of the case
          --prompt-text TEXT   template, given here
          --instructions FILE  instructions: a file's text
          --schema FILE        JSON Schema of the answers
          --score NAME[:FIELD]  how answers are scored; repeatable
          --expected MEMBER    member of a case with what is right
          --ignore-case        in exact and regex
          --tolerance X        of numeric and fields-f1
          --fail-under SCORE   exit with 7 when a score is lower
          --out FILE           append every row to this .jsonl, and go on from it
          --cache FOLDER       keep answers here, and use those that are there
          --report FILE        write an HTML report
          --json               print the summary as one JSON object
          --model-url URL      a server to ask instead of the default model
          --model NAME         the model's name there
          --max-concurrency N  requests at once
          --timeout S          seconds for a row
          --retries N          more attempts
          --patience S         seconds of 429 and 503 to wait out
          --temperature T      sample by chance; else greedy
          --max-tokens N       longest answer
          --repeat N           ask each case N times
          --seed N             of the first repeat
          --limit N            only the first N cases
          --quiet              no progress
      -h, --help               print the help of the evaluation

    Examples:
      fm eval cases.jsonl --prompt prompt.txt --out run.jsonl
      fm eval photos/ --prompt-text "Which animal is it?" --score contains --fail-under 0.9
      fm eval cases.csv --prompt prompt.txt --schema s.json --score exact:colour --report run.html

    \(exitCodes)

    """

  static let model = """
    Fetches, lists, finds and removes model files. The newest installed one is the default model where
    no other is named.

    Usage:
      fm model list [--json]
      fm model pull MODEL [--mmproj REFERENCE] [--sha256 DIGEST] [--json]
      fm model path MODEL [--json]
      fm model remove MODEL [--json]

    Options:
    \(table(of: ModelOption.self))

    MODEL: a name that fm model list shows, hf://ORGANISATION/REPOSITORY[@REVISION]/FILE.gguf for a
    file of the Hugging Face hub, or the URL of a GGUF file; for path and remove also a file's name.

    Pull goes on where an earlier one broke off, checks the SHA-256 that the hub tells or DIGEST, and
    installs a file only when it is complete. It prints the path; the progress goes to a terminal's
    stderr. HF_ENDPOINT names another hub, HF_TOKEN is the key for it.

    Files lie in $XDG_DATA_HOME/openfm/models (~/.local/share/openfm/models), each with a note on where
    it came from; what is not complete lies in $XDG_CACHE_HOME/openfm/downloads.

    \(exitCodes)

    """

  private static let environment = """
    Environment: the default model is the server of OPENFM_BASE_URL (its model OPENFM_MODEL), else
    the embedded engine with OPENFM_MODEL_PATH (OPENFM_MMPROJ_PATH for pictures) or an installed
    model. The key for a server, --model-url's too, is OPENFM_API_KEY; it is no option, since others
    can see a command line. Output has no colours.
    """

  private static let exitCodes = """
    Exit codes: 0 answered; 1 failed, or a file is missing or damaged; 2 the command line or what it
    gives (a schema, a label, a URL, the prompt's text) is wrong; 3 the model declined or a content
    filter stopped it; 4 more than the model's context; 5 no model: none installed, its engine does
    not start, its server is not reached; 6 rate limited; 130 interrupted; 141 nobody reads the
    output. Every error is one line on stderr that begins with "fm: ".
    """

  static func text(for command: String) -> String? {
    switch command {
    case "respond": respond
    case "available": available
    case "eval": eval
    case "model": model
    case "image": image
    case "help": overview
    default: nil
    }
  }

  /// The options with their explanations in a second column.
  private static func table<Option: CommandOption>(of type: Option.Type) -> String {
    let column = 27
    var lines: [String] = []
    for option in Option.allCases {
      let form = option.form
      var left = form.short.map { "  -\($0), " } ?? "      "
      left += option.written + (form.value.map { " " + $0 } ?? "")
      for (index, line) in form.help.enumerated() {
        let start = index == 0 ? left : ""
        lines.append(start + String(repeating: " ", count: max(2, column - start.count)) + line)
      }
    }
    return lines.joined(separator: "\n")
  }
}
