"""Evaluations whose model has tools."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import openfm as fm
import pytest
from conftest import ROOT
from openfm.evaluation import EvaluationError, EvaluationResult, contains
from scripted_server import ScriptedServer

Make = Callable[..., fm.ChatCompletionsLanguageModel]
CASES = [{"text": f"Weather of number {index}", "expected": "Sunny in Rome."} for index in range(9)]


def evaluate(*arguments: Any, **more: Any) -> EvaluationResult:
    return fm.evaluate(*arguments, **{"progress": False, **more})


def asked(server: ScriptedServer) -> int:
    return sum(entry["method"] == "POST" for entry in server.log())


class Weather(fm.Tool):
    name = "weather"
    description = "Tells the weather of a city."
    cities = ("Paris", "Rome")

    def __init__(self) -> None:
        super().__init__()
        self.threads: list[int] = []

    @property
    def arguments_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": list(self.cities)}},
            "required": ["city"],
            "additionalProperties": False,
        }

    async def call(self, args: fm.GeneratedContent) -> str:
        self.threads.append(threading.get_ident())
        return f"Sunny in {args.value(str, for_property='city')}."


class Blocking(Weather):
    def call(self, args: fm.GeneratedContent) -> str:  # type: ignore[override]
        self.threads.append(threading.get_ident())
        return f"Sunny in {args.value(str, for_property='city')}."


class Sometimes(Weather):
    async def call(self, args: fm.GeneratedContent) -> str:
        self.threads.append(threading.get_ident())
        if len(self.threads) == 3:
            raise LookupError("no such city")
        return "Sunny in Rome."


@pytest.fixture(params=["native", "guided"])
def calling(request: pytest.FixtureRequest, server: ScriptedServer) -> Make:
    """Models that call the weather of Rome, by themselves or by guided generation."""

    def make(city: str = "Rome") -> fm.ChatCompletionsLanguageModel:
        query = urlencode({"calls": json.dumps([{"name": "weather", "arguments": {"city": city}}])})
        return fm.ChatCompletionsLanguageModel(
            server.base_url,
            f"scenario:tools?{query}",
            supports_tools=request.param == "native",
            context_size=4096,
        )

    return make


@pytest.mark.parametrize("kind", [Weather, Blocking])
def test_each_row_may_call_them(calling: Make, kind: type[Weather]) -> None:
    tool = kind()
    result = evaluate(
        CASES, "{text}", model=calling(), tools=[tool], scorers=contains(), max_concurrency=4
    )
    assert not result.failed, result.errors
    # A model that has no tools of its own reads what they gave as something that was said.
    assert [row.score("contains") for row in result] == [1.0] * len(CASES)
    # One call a row, by a session of its own.
    assert len(tool.threads) == len(CASES)
    assert all(row.attempts == 1 for row in result)
    assert result.run["tools"][0]["name"] == "weather"
    assert result.run["tools"][0]["arguments"]["properties"]["city"]["enum"] == ["Paris", "Rome"]


def test_with_a_schema_too(calling: Make) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 7}},
        "required": ["n"],
        "additionalProperties": False,
    }
    tool = Weather()
    result = evaluate(CASES, "{text}", model=calling(), tools=[tool], schema=schema, scorers=[])
    assert not result.failed, result.errors
    assert [row.answer for row in result] == [{"n": 7}] * len(CASES)
    assert len(tool.threads) == len(CASES)


def test_a_tool_that_raises_costs_its_row_only(calling: Make) -> None:
    """And is not called again: what it did may not be done twice."""
    tool = Sometimes()
    result = evaluate(CASES, "{text}", model=calling(), tools=[tool], max_concurrency=1)
    assert [row.index for row in result.failed] == [2]
    error = result[2].error
    assert error is not None and error.kind == "ToolCallError"
    assert "weather" in error.message and "no such city" in error.message
    assert result[2].attempts == 1 and len(tool.threads) == len(CASES)


PROGRAM = """
import sys, time
import openfm as fm

class Sometimes(fm.Tool):
    name, description, calls = "weather", "Tells the weather of a city.", 0
    arguments_schema = {"type": "object", "properties": {"city": {"type": "string"}}}

    def call(self, args):
        type(self).calls += 1
        if self.calls > 4:
            print("blocked", flush=True)
            time.sleep(60)
        return "Sunny in Rome."

try:
    fm.evaluate(
        [{"text": f"Weather of number {index}"} for index in range(9)], "{text}",
        model=fm.ChatCompletionsLanguageModel(sys.argv[1], sys.argv[2], context_size=4096),
        tools=[Sometimes()], out=sys.argv[3], max_concurrency=2, progress=False,
    )
except KeyboardInterrupt:
    print(time.monotonic(), flush=True)
    sys.exit(130)
"""


def test_an_interrupt_does_not_wait_for_a_tool_that_blocks(
    server: ScriptedServer, tmp_path: Path
) -> None:
    out = tmp_path / "run.jsonl"
    query = urlencode({"calls": json.dumps([{"name": "weather", "arguments": {"city": "Rome"}}])})
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, server.base_url, f"scenario:tools?{query}", str(out)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "blocked\n"
    # Both places may be blocked by then; what was answered is in the file.
    time.sleep(0.3)
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    told, errors = process.communicate(timeout=30)
    ended = time.monotonic() - begun
    assert process.returncode == 130, errors
    assert float(told.split()[-1]) - begun < 1
    # To the end of the process; of the machine's own slowness, half a second.
    assert ended < 1.5
    assert "stopped" in errors and str(out) in errors
    kept = EvaluationResult.load(out)
    assert len(kept) == 4 and not kept.failed


def test_arguments_that_do_not_fit_cost_the_row(calling: Make) -> None:
    tool = Weather()
    result = evaluate(CASES[:2], "{text}", model=calling("London"), tools=[tool])
    assert len(result.failed) == 2 and tool.threads == []


def test_an_answer_depends_on_what_a_tool_says_and_does(
    calling: Make, server: ScriptedServer, tmp_path: Path
) -> None:
    class Elsewhere(Weather):
        cities = ("Rome", "Oslo")

    class Described(Weather):
        description = "Tells whether the sun shines."

    class Other(Weather):
        async def call(self, args: fm.GeneratedContent) -> str:
            return "Rain."

    def run(tool: fm.Tool, **more: Any) -> tuple[EvaluationResult, int]:
        server.clear()
        result = evaluate(CASES[:1], "{text}", model=calling(), tools=[tool], **more)
        return result, asked(server)

    kept = {"cache": tmp_path / "answers"}
    first, sent = run(Weather(), **kept)
    assert sent and not first[0].cached
    again, sent = run(Weather(), **kept)
    assert (sent, again[0].cached) == (0, True) and "Sunny in Rome." in again[0].answer
    for tool in (Elsewhere(), Described(), Other()):
        changed, sent = run(tool, **kept)
        assert sent and not changed[0].cached, tool
    assert "Rain." in changed[0].answer

    run(Weather(), out=tmp_path / "run.jsonl")
    with pytest.raises(EvaluationError, match="holds a run with other tools"):
        run(Other(), out=tmp_path / "run.jsonl")


@pytest.mark.parametrize("tools", [["weather"], [Weather], [len]])
def test_what_is_no_tool_is_told_before_anything_is_sent(
    calling: Make, server: ScriptedServer, tools: list[Any]
) -> None:
    with pytest.raises(EvaluationError, match=r"tools must be instances of fm\.Tool"):
        evaluate(CASES, "{text}", model=calling(), tools=tools)
    assert asked(server) == 0
