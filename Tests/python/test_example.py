"""Examples/python/describe.py and Examples/c/describe.c, run as a user runs them, over the scripted
server."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from openfm import _ctypes_bindings
from scripted_server import ScriptedServer

ROOT = Path(__file__).resolve().parents[2]


def describe(
    server: ScriptedServer,
    *arguments: object,
    model: str = "scripted",
    command: tuple[object, ...] = (sys.executable, ROOT / "Examples/python/describe.py"),
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, command), *map(str, arguments)],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "python"),
            "OPENFM_LIBRARY": str(_ctypes_bindings.library_path),
            "OPENFM_BASE_URL": server.base_url,
            "OPENFM_MODEL": model,
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_it_describes_a_picture(server: ScriptedServer, picture: Path) -> None:
    done = describe(server, picture)
    assert done.returncode == 0, done.stderr
    assert "Describe the image." in done.stdout
    assert "sent arrow: 48x64" in done.stdout
    assert "tokens: " in done.stdout


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example in C, with the library that this package has loaded."""
    made = tmp_path_factory.mktemp("example") / "describe"
    library = _ctypes_bindings.library_path
    subprocess.run(
        ["cc", "-std=c11", ROOT / "Examples/c/describe.c", "-o", made, f"-I{ROOT / 'include'}",
         str(library), f"-Wl,-rpath,{Path(library).parent}", "-lpthread"],
        check=True,
    )  # fmt: skip
    return made


@pytest.mark.parametrize(("usage", "counted"), [("last", True), ("none", False)])
@pytest.mark.parametrize("language", ["python", "c"])
def test_tokens_that_were_not_counted_are_unknown(
    language: str,
    usage: str,
    counted: bool,
    server: ScriptedServer,
    picture: Path,
    program: Path,
) -> None:
    more: dict[str, Any] = {"command": (program,)} if language == "c" else {}
    done = describe(server, picture, model=f"scenario:echo?usage={usage}", **more)
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert "48x64" in done.stdout and "tokens" in last
    told = last.partition("tokens")[2]
    assert told.count("unknown") == (0 if counted else 2), last
    assert bool(re.search(r"\d", told)) == counted, last
    assert "-1" not in last and "None" not in last


def test_its_errors_are_sentences(server: ScriptedServer, tmp_path: Path) -> None:
    done = describe(server, tmp_path / "missing.jpg")
    assert done.returncode == 1
    assert "missing.jpg" in done.stderr
    assert "Traceback" not in done.stderr
    assert describe(server).returncode == 2
    assert server.log() == []
