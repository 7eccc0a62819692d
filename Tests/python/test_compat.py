"""Programs written for the reference SDK run with one import changed, or none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from scripted_server import ScriptedServer

# As someone would write it who has only read the reference's documentation.
SCRIPT = """
import asyncio
import sys

import apple_fm_sdk as fm
from apple_fm_sdk.errors import GenerationError
from apple_fm_sdk.tool import Tool


class Clock(Tool):
    name = "clock"
    description = "Tells the time."

    @property
    def arguments_schema(self):
        return {"type": "object", "properties": {}}

    async def call(self, args):
        return "It is noon."


async def main():
    model = fm.SystemLanguageModel()
    available, reason = model.is_available()
    assert available, reason
    session = fm.LanguageModelSession("You are brief.", model=model, tools=[Clock()])
    print(await session.respond(sys.argv[1]))
    async for snapshot in session.stream_response("again"):
        last = snapshot
    print(last)
    transcript = await session.transcript.to_dict()
    again = fm.LanguageModelSession.from_transcript(await fm.Transcript.from_dict(transcript))
    print(await again.respond("more"))
    assert await model.token_count("hello") > 0
    try:
        await session.respond("")
    except fm.FoundationModelsError as error:
        assert not isinstance(error, GenerationError)
    assert isinstance(fm.ConcurrentRequestsError("x"), GenerationError)

asyncio.run(main())
assert __name__ == "__main__"
"""


@pytest.fixture
def environment(server: ScriptedServer) -> dict[str, str]:
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith("OPENFM_")},
        "PYTHONPATH": os.pathsep.join(sys.path),
        "OPENFM_BASE_URL": server.base_url,
        "OPENFM_MODEL": "scenario:echo",
    }


def run(*command: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, timeout=120
    )


def test_a_script_runs_unchanged(tmp_path: Path, environment: dict[str, str]) -> None:
    script = tmp_path / "program.py"
    script.write_text(SCRIPT)
    done = run("-m", "openfm.compat", str(script), "one", environment=environment)
    assert done.stderr == ""
    assert done.stdout.split() == ["one", "again", "more"]


def test_a_module_runs_unchanged(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "program.py").write_text(SCRIPT)
    environment["PYTHONPATH"] += os.pathsep + str(tmp_path)
    done = run("-m", "openfm.compat", "-m", "program", "one", environment=environment)
    assert done.stdout.split() == ["one", "again", "more"], done.stderr


def test_in_a_program(environment: dict[str, str]) -> None:
    code = (
        "import openfm; openfm.install_as_apple_fm_sdk(); openfm.install_as_apple_fm_sdk()\n"
        "import apple_fm_sdk as fm, apple_fm_sdk.session as session\n"
        "assert fm.LanguageModelSession is openfm.LanguageModelSession\n"
        "assert session.LanguageModelSession is openfm.LanguageModelSession\n"
        "from apple_fm_sdk.transcript import Transcript\n"
        "assert Transcript is openfm.Transcript\n"
    )
    assert run("-c", code, environment=environment).stderr == ""


def test_the_real_package_is_not_replaced(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "apple_fm_sdk.py").write_text("")
    environment["PYTHONPATH"] += os.pathsep + str(tmp_path)
    code = "import apple_fm_sdk, openfm; openfm.install_as_apple_fm_sdk()"
    assert "was imported before" in run("-c", code, environment=environment).stderr


@pytest.mark.parametrize("arguments", [[], ["nothing.py"]])
def test_what_cannot_be_run(arguments: list[str], environment: dict[str, str]) -> None:
    done = run("-m", "openfm.compat", *arguments, environment=environment)
    assert done.returncode == 2
    assert done.stderr
