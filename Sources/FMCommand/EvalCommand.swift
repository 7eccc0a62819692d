import FMCore
import FMWire
import Glibc

/// `fm eval`: the evaluation of the Python package, run in the place of this process.
///
/// The engine of evaluations is Python, where the users of its results are; a second one in Swift
/// would be another one. What is passed on is the command line, the environment and the streams.
struct EvalCommand {
  let arguments: [String]
  let console: Console

  /// Ends this process, or throws why it cannot.
  ///
  /// The Python is the one that was installed beside this command, as in a virtual environment, else
  /// the `python3` on PATH.
  func run() throws -> Never {
    // What Console set up outlives exec, and Python takes interrupts and closed pipes its own way.
    var interrupt = sigset_t()
    sigemptyset(&interrupt)
    sigaddset(&interrupt, SIGINT)
    pthread_sigmask(SIG_UNBLOCK, &interrupt, nil)
    signal(SIGPIPE, SIG_DFL)
    let command = ["python3", "-c", Self.program] + arguments
    var words = command.map { strdup($0) }
    defer { for word in words { free(word) } }
    words.append(nil)
    if let folder = ProgramPath.folder { execv(folder + "/python3", words) }
    execvp("python3", words)
    throw Failure(
      .unknown,
      "eval needs Python 3.10 or newer with the package openfm, and there is no python3 on PATH "
        + "(\(String(cString: strerror(errno)))). Install Python, then OpenFM's wheel: "
        + "python3 -m pip install ./openfm-*.whl")
  }

  /// Says in one sentence what is missing. What lies in the working directory is not imported.
  private static let program = """
    sys = __import__("sys")
    sys.path[:] = [path for path in sys.path if path]
    try:
        from openfm.evaluation._command import main
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("openfm"):
            error = f"needs the Python package openfm, which {sys.executable} does not have; " \\
                f"install OpenFM's wheel with: {sys.executable} -m pip install ./openfm-*.whl"
        sys.stderr.write(f"fm: eval: {error}\\n")
        sys.exit(1)
    sys.exit(main())
    """
}
