import FMCore

/// The `fm` command line tool.
public enum Command {
  /// Runs `fm` with the arguments that follow the program's name; returns the exit code.
  public static func run(_ arguments: [String]) -> Int32 { fatalError() }
}
