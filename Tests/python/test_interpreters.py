"""The package with every Python that is promised, as far as they are on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT
from scripted_server import ScriptedServer
from test_tools import calls

VERSIONS = ("3.10", "3.11", "3.12", "3.13")

PROGRAM = """
import asyncio, contextvars, sys
from typing import Optional
import openfm as fm

base, tools = sys.argv[1:]
who = contextvars.ContextVar("who", default="nobody")
for name in fm.__all__:
    getattr(fm, name)

@fm.generable("A city")
class City:
    city: str = fm.guide("Its name", anyOf=["Paris", "Rome"])
    twin: Optional["City"] = None

class Weather(fm.Tool):
    name = "weather"
    description = "Tells the weather."
    @property
    def arguments_schema(self):
        return {"type": "object", "properties": {"city": {"type": "string"}}}
    async def call(self, args):
        return who.get() + " " + args.value(str, for_property="city")

def model(scenario):
    return fm.ChatCompletionsLanguageModel(base, "scenario:" + scenario, supports_tools=True)

async def main():
    session = fm.LanguageModelSession("Be brief.", model("echo"))
    assert await session.respond("hello") == "hello"
    assert (await session.respond_full("hello")).finish_reason == "stop"
    assert [text async for text in session.stream_response("one two")][-1] == "one two"
    assert (await session.respond("?", generating=City)).city == "Paris"
    who.set("me")
    tooled = fm.LanguageModelSession(model=model(tools), tools=[Weather()])
    assert await tooled.respond("?") == "me Rome"
    transcript = await fm.Transcript.from_dict(await tooled.transcript.to_dict())
    again = fm.LanguageModelSession.from_transcript(transcript, model("echo"), [Weather()])
    assert await again.respond("more") == "more"
    assert await model("echo").token_count("hello") > 0
    try:
        silent = fm.LanguageModelSession(model=model("hang-before"))
        await asyncio.wait_for(silent.respond("?"), 0.2)
    except asyncio.TimeoutError:
        pass
    else:
        raise AssertionError("no timeout")
    assert session.respond_sync("in a running loop") == "in a running loop"

asyncio.run(main())
asyncio.run(main())
print(sys.version.split()[0])
"""


def interpreter(version: str) -> str | None:
    """A Python of that version: one of pyenv's, else the one on PATH."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for folder in sorted((root / "versions").glob(f"{version}.*")):
        if (folder / "bin/python").exists():
            return str(folder / "bin/python")
    found = shutil.which(f"python{version}")
    # A shim of pyenv is no interpreter.
    return found if found is not None and ".pyenv/shims" not in found else None


@pytest.mark.parametrize("version", VERSIONS)
def test_the_package_works_with(version: str, server: ScriptedServer) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} on this machine")
    tools = f"tools?calls={calls(('weather', {'city': 'Rome'}))}"
    done = subprocess.run(
        [python, "-W", "error", "-c", PROGRAM, server.base_url, tools],
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith(("OPENFM_", "PYTHON"))},
            "PYTHONPATH": str(ROOT / "python"),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(version)
    assert done.stderr == ""
