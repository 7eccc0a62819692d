"""The package in a process's life: its exit and its children."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from openfm import _ctypes_bindings
from scripted_server import ScriptedServer

ROOT = Path(__file__).resolve().parents[2]
# Of each kind of exit: 80 in all, 200 in scripts/soak.
TIMES = 50 if os.environ.get("OPENFM_SOAK") else 20


def python(*arguments: str, timeout: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "python"),
            "OPENFM_LIBRARY": str(_ctypes_bindings.library_path),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


def run(code: str, *arguments: str, timeout: float = 30) -> subprocess.CompletedProcess[str]:
    return python("-X", "dev", "-c", code, *arguments, timeout=timeout)


START = """
import asyncio, sys
import openfm as fm
session = fm.LanguageModelSession(
    model=fm.ChatCompletionsLanguageModel(
        sys.argv[1], "scenario:slow-stream?chunks=500&delay=0.002"
    )
)
"""
EXITS = {
    "in the middle of a stream": """
async def main():
    async for text in session.stream_response("Hello"):
        if len(text) > 50:
            sys.exit(0)
asyncio.run(main())
""",
    "with a loop that nobody closed": """
loop = asyncio.new_event_loop()
async def main():
    global stream
    stream = session.stream_response("Hello")
    await stream.__anext__()
loop.run_until_complete(main())
""",
    "with a thread that streams": """
import threading
started = threading.Event()
async def main():
    async for text in session.stream_response("Hello"):
        started.set()
threading.Thread(target=lambda: asyncio.run(main()), daemon=True).start()
started.wait(10)
""",
    "with an open stream in a global": """
async def main():
    global stream
    stream = session.stream_response("Hello")
    await stream.__anext__()
asyncio.run(main())
""",
}


@pytest.mark.parametrize("how", EXITS)
def test_exit_during_a_stream(server: ScriptedServer, how: str) -> None:
    for _ in range(TIMES):
        done = run(START + EXITS[how], server.base_url)
        assert done.returncode == 0, done.stderr
        assert "openfm" not in done.stderr, done.stderr
        assert "crash" not in done.stderr, done.stderr


def test_a_thread_is_not_told_of_the_exit(server: ScriptedServer) -> None:
    """However long the exit takes, a daemon thread that streams must not end with a traceback."""
    # Registered before the library's own exit handler, it runs after that.
    slow_exit = "import atexit, time\natexit.register(time.sleep, 0.3)\n"
    done = run(slow_exit + START + EXITS["with a thread that streams"], server.base_url)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


def test_the_library_refuses_after_shutdown(server: ScriptedServer) -> None:
    code = """
from openfm._ctypes_bindings import lib
lib.FMShutdown()
try:
    asyncio.run(session.respond("Hello"))
except fm.ShutDownError as error:
    print(error.code)
"""
    done = run(START + code, server.base_url)
    assert (done.stdout, done.returncode) == ("171\n", 0), done.stderr


FORK = """
import os
async def main():
    async for text in session.stream_response("Hello"):
        break
asyncio.run(main())
child = os.fork()
if child == 0:
    code = 1
    try:
        asyncio.run(session.respond("from the child"))
    except fm.UsedAfterForkError as error:
        code = 7 if "spawn" in str(error) or "fork" in str(error) else 2
    try:
        fm.LanguageModelSession(model=fm.ChatCompletionsLanguageModel(sys.argv[1], "m"))
        code = 3
    except fm.UsedAfterForkError:
        pass
    del session
    os._exit(code)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
async def rest():
    async for text in session.stream_response("Hello"):
        break
asyncio.run(rest())
"""


def test_a_forked_child_is_told_so_and_the_parent_goes_on(server: ScriptedServer) -> None:
    done = run(START + FORK, server.base_url)
    assert (done.stdout, done.returncode) == ("7\n", 0), done.stderr


def test_a_spawned_child_works(server: ScriptedServer, tmp_path: Path) -> None:
    script = tmp_path / "spawn.py"
    script.write_text(
        "import asyncio, multiprocessing, sys\n"
        "import openfm as fm\n"
        "def ask(url):\n"
        "    model = fm.ChatCompletionsLanguageModel(url, 'm')\n"
        "    return asyncio.run(fm.LanguageModelSession(model=model).respond('from the child'))\n"
        "if __name__ == '__main__':\n"
        "    ask(sys.argv[1])\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.apply(ask, (sys.argv[1],)))\n"
    )
    done = python(str(script), server.base_url, timeout=60)
    assert done.stdout == "from the child\n", done.stderr


def test_whether_there_is_a_model_starts_no_program(tmp_path: Path) -> None:
    """In a Python that has no engine of its own; whether another's can run shows at a request."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (tmp_path / "lib/python3.11/site-packages/xllamacpp").mkdir(parents=True)
    marker = tmp_path / "marker"
    other = tmp_path / "bin/python3"
    other.write_text(f"#!/bin/sh\necho started > {marker}\nexit 1\n")
    other.chmod(0o755)
    done = run(
        """
import asyncio, os, sys
from pathlib import Path
from openfm import engine
os.environ["OPENFM_MODEL_PATH"] = engine.default_model()
engine.default_command = engine.default_model = lambda: None
import openfm as fm
folder = Path(sys.argv[1])
os.environ["PATH"] = str(folder / "bin")
model = fm.SystemLanguageModel()
assert model.is_available() == (True, None), model.availability_message
assert model.describe()["engine"][0] == str(folder / "bin/python3"), model.describe()
model.context_size, model.capabilities
assert not (folder / "marker").exists()
for ask in (model.load, lambda: fm.LanguageModelSession(model=model).respond("Hello")):
    try:
        asyncio.run(ask())
    except fm.AssetsUnavailableError as error:
        assert f"{folder / 'bin/python3'} has xllamacpp and does not run" in str(error), error
    else:
        raise AssertionError("it cannot run")
assert (folder / "marker").exists()
reason = fm.SystemLanguageModelUnavailableReason.MODEL_NOT_READY
assert model.is_available() == (False, reason)
""",
        str(tmp_path),
    )
    assert done.returncode == 0, done.stderr
