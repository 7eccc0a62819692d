import FMCore
import Glibc

/// The `fm` command line tool.
public enum Command {
  /// Runs `fm` with the arguments that follow the program's name, nil for one that is not UTF-8;
  /// returns the exit code.
  ///
  /// Blocks the calling thread, which should be the process's first, until the answer is there.
  /// Takes SIGINT and ignores SIGPIPE for the process. A request that does not end within seconds
  /// after it was cancelled, or a second interrupt, ends the process at once.
  public static func run(_ arguments: [String?]) -> Int32 {
    let console = Console()
    let code: ExitCode
    do {
      code = try dispatch(readable(arguments), console)
    } catch let error as UsageError {
      let command = arguments.first?.flatMap { Help.commands.contains($0) ? $0 : nil }
      let more = command.map { "fm help \($0)" } ?? "fm help"
      console.report("\(error.message) (see \(more))")
      code = .usage
    } catch let stop as Stop {
      code = stop.exitCode
      if stop == .interrupted { try? console.endLine() }
    } catch {
      let failure = Failure(error)
      console.report(failure.message)
      code = ExitCode(failure)
    }
    if console.hasAbandonedWork { _exit(code.rawValue) }
    return code.rawValue
  }

  /// A repaired text would be another path, or another prompt, than the one given.
  private static func readable(_ arguments: [String?]) throws -> [String] {
    try arguments.enumerated().map { index, argument in
      guard let argument else {
        throw UsageError(
          message: "argument \(index + 1) is not UTF-8; give texts and paths in UTF-8 (rename a"
            + " file, convert a prompt with iconv)")
      }
      return argument
    }
  }

  private static func dispatch(_ arguments: [String], _ console: Console) throws -> ExitCode {
    let rest = Array(arguments.dropFirst())
    switch arguments.first {
    case nil: throw UsageError(message: "no command given; try fm respond \"Name three colours\"")
    case "respond":
      let arguments = try RespondArguments(rest)
      guard !arguments.asksHelp else { return try show(Help.respond, console) }
      try RespondCommand(arguments: arguments, console: console).run()
      return .success
    case "available":
      let parsed = try ArgumentParser<AvailableOption>.parse(rest)
      guard !parsed.contains(.option(.help)) else { return try show(Help.available, console) }
      for case .positional(let text) in parsed {
        throw UsageError(message: "available takes no \(typed(text))")
      }
      let command = AvailableCommand(asksJSON: parsed.contains(.option(.json)), console: console)
      return try command.run() ? .success : .unavailable
    case "eval": try EvalCommand(arguments: rest, console: console).run()
    case "model":
      let command = try ModelCommand(rest, console: console)
      guard !command.asksHelp else { return try show(Help.model, console) }
      try command.run()
      return .success
    case "image":
      let parsed = try ArgumentParser<ImageOption>.parse(rest)
      guard !parsed.contains(.option(.help)) else { return try show(Help.image, console) }
      try ImageCommand(parsed, console: console).run()
      return .success
    case "help", "--help", "-h":
      guard let topic = rest.first(where: { $0 != "--help" && $0 != "-h" }) else {
        return try show(Help.overview, console)
      }
      guard let text = Help.text(for: topic) else { throw unknown(topic) }
      return try show(text, console)
    case "--version": return try show(Help.version, console)
    case let word?: throw unknown(word)
    }
  }

  private static func show(_ text: String, _ console: Console) throws -> ExitCode {
    try console.write(text)
    return .success
  }

  private static func unknown(_ word: String) -> UsageError {
    if word.hasPrefix("-") {
      let near = nearest(to: word, among: ["--help", "--version"])
      return UsageError(
        message: "unknown option \(typed(word)); "
          + (near.map { "did you mean \($0)?" } ?? "options come after the command"))
    }
    let near = nearest(to: word, among: Help.commands)
    return UsageError(
      message: "unknown command \(typed(word)); "
        + (near.map { "did you mean \($0)?" } ?? "to ask a model: fm respond \"...\""))
  }
}
