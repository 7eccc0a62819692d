"""Examples/python/describe.py, run as a user runs it, over the scripted server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from openfm import _ctypes_bindings
from scripted_server import ScriptedServer

ROOT = Path(__file__).resolve().parents[2]


def describe(server: ScriptedServer, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "Examples/python/describe.py", *map(str, arguments)],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "python"),
            "OPENFM_LIBRARY": str(_ctypes_bindings.library_path),
            "OPENFM_BASE_URL": server.base_url,
            "OPENFM_MODEL": "scripted",
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


def test_its_errors_are_sentences(server: ScriptedServer, tmp_path: Path) -> None:
    done = describe(server, tmp_path / "missing.jpg")
    assert done.returncode == 1
    assert "missing.jpg" in done.stderr
    assert "Traceback" not in done.stderr
    assert describe(server).returncode == 2
    assert server.log() == []
