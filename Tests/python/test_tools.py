"""Tools: where they run, what they give back, what becomes of their failures."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import openfm as fm
import pytest
from conftest import ROOT, Live, Models
from scripted_server import ScriptedServer

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")

CITY = {
    "title": "CityArguments",
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}


class Weather(fm.Tool):
    name = "weather"
    description = "Tells the weather of a city."

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, str, int, object]] = []

    @property
    def arguments_schema(self) -> dict[str, Any]:
        return CITY

    async def call(self, args: fm.GeneratedContent) -> str:
        city = args.value(str, for_property="city")
        loop = asyncio.get_running_loop()
        self.seen.append((city, WHO.get(), threading.get_ident(), loop))
        await asyncio.sleep(0)
        return f"Sunny in {city}."


class Simple(fm.Tool):
    """Does what it is given to do."""

    description = "Does something."

    def __init__(self, name: str, does: Any) -> None:
        self.name = name
        self.does = does
        super().__init__()

    @property
    def arguments_schema(self) -> dict[str, Any]:
        return {"type": "object", "properties": {}, "additionalProperties": False}

    def call(self, args: fm.GeneratedContent) -> Any:
        return self.does()


def calls(*entries: tuple[str, Any]) -> str:
    return json.dumps([{"name": name, "arguments": arguments} for name, arguments in entries])


@pytest.fixture(params=["native", "guided"])
def tool_model(request: pytest.FixtureRequest, server: ScriptedServer) -> Any:
    """Models that call those tools: by themselves, and by guided generation."""

    def make(*entries: tuple[str, Any], **options: Any) -> fm.ChatCompletionsLanguageModel:
        from urllib.parse import urlencode

        query = urlencode({"calls": calls(*entries), **options})
        return fm.ChatCompletionsLanguageModel(
            server.base_url,
            f"scenario:tools?{query}",
            supports_images=True,
            supports_tools=request.param == "native",
            context_size=4096,
        )

    return make


def test_a_tool_is_called_and_its_output_used(server: ScriptedServer, tool_model: Any) -> None:
    tool = Weather()
    session = fm.LanguageModelSession(
        "Be brief.", tool_model(("weather", {"city": "Rome"})), [tool]
    )
    answer = asyncio.run(session.respond("How is it in Rome?"))
    assert "Sunny in Rome." in answer
    assert [seen[0] for seen in tool.seen] == ["Rome"]
    roles = [e["role"] for e in json.loads(session.transcript.to_json())["transcript"]["entries"]]
    assert roles == ["instructions", "user", "response", "tool", "response"]
    asked = [entry for entry in server.log() if entry["path"].endswith("/chat/completions")]
    assert len(asked) > 1
    for entry in asked:
        assert "weather" in json.dumps(entry["body"]), "every request tells of the tool"


def test_async_tools_run_where_the_request_is_awaited(tool_model: Any) -> None:
    tool = Weather()
    session = fm.LanguageModelSession(
        model=tool_model(("weather", {"city": "Paris"})), tools=[tool]
    )

    async def main() -> None:
        WHO.set("me")
        await session.respond("?")
        assert tool.seen == [("Paris", "me", threading.get_ident(), asyncio.get_running_loop())]

    asyncio.run(main())


def test_plain_tools_run_in_a_worker_thread_with_the_context(tool_model: Any) -> None:
    seen: list[tuple[str, int]] = []
    tool = Simple("plain", lambda: seen.append((WHO.get(), threading.get_ident())) or "done")
    session = fm.LanguageModelSession(model=tool_model(("plain", {})), tools=[tool])

    async def main() -> None:
        WHO.set("me")
        assert "done" in await session.respond("?")
        assert seen[0][0] == "me"
        assert seen[0][1] != threading.get_ident()

    asyncio.run(main())


def test_calls_of_one_answer_run_at_once(model: Models) -> None:
    """Two tools that wait for each other."""
    barrier = threading.Barrier(2, timeout=20)
    tools = [Simple(name, lambda: str(barrier.wait() in (0, 1))) for name in ("left", "right")]
    both = model("tools", calls=calls(("left", {}), ("right", {})))
    session = fm.LanguageModelSession(model=both, tools=tools)
    assert asyncio.run(session.respond("?")) == "True\nTrue"


def test_a_stream_ends_with_the_answer(tool_model: Any) -> None:
    session = fm.LanguageModelSession(
        model=tool_model(("weather", {"city": "Rome"}), say="Let me look."), tools=[Weather()]
    )

    async def main() -> list[str]:
        return [text async for text in session.stream_response("?")]

    assert asyncio.run(main())[-1].endswith("Sunny in Rome.")


@pytest.mark.parametrize("error", [ValueError("no such city"), asyncio.CancelledError()])
def test_what_a_tool_raises_is_a_tool_call_error(tool_model: Any, error: BaseException) -> None:
    async def fail() -> str:
        raise error

    session = fm.LanguageModelSession(
        model=tool_model(("broken", {})), tools=[Simple("broken", fail)]
    )

    async def main() -> None:
        with pytest.raises(fm.ToolCallError) as caught:
            await asyncio.wait_for(session.respond("?"), 20)
        assert caught.value.tool_name == "broken"
        assert caught.value.underlying_error is error
        assert not session.is_responding

    asyncio.run(main())
    assert len(json.loads(session.transcript.to_json())["transcript"]["entries"]) == 1


def test_a_tools_error_can_be_its_output(tool_model: Any) -> None:
    def fail() -> str:
        raise ValueError("no such city")

    session = fm.LanguageModelSession(
        model=tool_model(("broken", {})), tools=[Simple("broken", fail)], tool_errors="output"
    )
    assert "Tool error: no such city" in asyncio.run(session.respond("?"))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TimeoutError(), "TimeoutError"),
        (KeyError("city"), "KeyError: 'city'"),
        (KeyError("a city"), "KeyError: 'a city'"),
        (AssertionError(), "AssertionError"),
        (IndexError(5), "IndexError: 5"),
        (ValueError(" "), "ValueError"),
        (OSError(2, "No such file", "x.txt"), "[Errno 2] No such file: 'x.txt'"),
        (asyncio.CancelledError(), "CancelledError"),
    ],
    ids=repr,
)
def test_a_tools_error_says_what_it_is(tool_model: Any, error: BaseException, words: str) -> None:
    """To who asked and to the model: a class, where the exception says nothing by itself."""

    async def fail() -> str:
        raise error

    def session(**more: Any) -> fm.LanguageModelSession:
        return fm.LanguageModelSession(
            model=tool_model(("broken", {})), tools=[Simple("broken", fail)], **more
        )

    with pytest.raises(fm.ToolCallError) as caught:
        asyncio.run(session().respond("?"))
    assert str(caught.value) == f"Tool 'broken' failed: {words}"
    if isinstance(error, Exception):
        read = asyncio.run(session(tool_errors="output").respond("?"))
        assert f"Tool error: {words}" in read


@pytest.mark.parametrize("leaves", ["SystemExit(3)", "KeyboardInterrupt()"])
def test_an_exit_inside_a_tool_is_said_once(server: ScriptedServer, leaves: str) -> None:
    """It is the request's error, and leaves no second traceback of a lost task."""
    calls = urlencode({"calls": json.dumps([{"name": "leave", "arguments": {}}])})
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", f"""
import asyncio, gc
import openfm as fm

class Leave(fm.Tool):
    name = description = "leave"
    arguments_schema = {{"type": "object", "properties": {{}}, "additionalProperties": False}}

    async def call(self, args):
        raise {leaves}

model = fm.ChatCompletionsLanguageModel({server.base_url!r}, {f"scenario:tools?{calls}"!r})
session = fm.LanguageModelSession(model=model, tools=[Leave()])
try:
    asyncio.run(session.respond("?"))
finally:
    gc.collect()
"""],
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "never retrieved" not in done.stderr
    # The tool's, and that of the request which it is the cause of.
    assert done.stderr.count("Traceback") == 2, done.stderr
    assert "ToolCallError: Tool 'leave' failed: " in done.stderr.splitlines()[-1]


class Abandon(BaseException):
    """Derives from nothing that is caught by habit."""


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, Abandon])
@pytest.mark.parametrize("how", ["plain", "async", "task"])
@pytest.mark.parametrize("asks", ["respond", "respond_sync", "stream_sync"])
def test_a_tool_that_leaves_fails_its_request_alone(
    tool_model: Any, model: Models, kind: type[BaseException], how: str, asks: str
) -> None:
    """Also where it leaves by a task of its own, which takes the caller's loop along, but not the
    package's."""
    if asks == "respond" and how == "task":
        pytest.skip("a task's exit ends asyncio.run, as the language has it")

    def leave() -> str:
        raise kind(3)

    async def leave_later() -> str:
        await asyncio.sleep(0)
        return leave()

    async def leave_by_a_task() -> str:
        return await asyncio.create_task(leave_later())

    call = {"plain": leave, "async": leave_later, "task": leave_by_a_task}[how]
    session = fm.LanguageModelSession(
        model=tool_model(("leave", {})), tools=[Simple("leave", call)]
    )
    handler = signal.getsignal(signal.SIGINT)
    for _ in range(3):
        with pytest.raises(fm.ToolCallError, match="3") as caught:
            if asks == "respond":
                asyncio.run(session.respond("?"))
            elif asks == "respond_sync":
                session.respond_sync("?")
            else:
                list(session.stream_sync("?"))
        assert type(caught.value.underlying_error) is kind
        assert not session.is_responding
        # Other sessions, on the same loop.
        assert fm.LanguageModelSession(model=model()).respond_sync("on") == "on"
    assert signal.getsignal(signal.SIGINT) is handler


def begun_with_a_tool_that_sleeps(
    server: ScriptedServer, define: str, asks: str
) -> subprocess.Popen[str]:
    """A program whose ``model`` calls the tool ``Sleep``, which by now blocks its thread.

    ``define`` is "def" or "async def"; ``asks`` is the rest of the program.
    """
    calls = urlencode({"calls": json.dumps([{"name": "sleep", "arguments": {}}])})
    child = subprocess.Popen(
        [sys.executable, "-c", f"""
import asyncio, time
import openfm as fm

class Sleep(fm.Tool):
    name = description = "sleep"
    arguments_schema = {{"type": "object", "properties": {{}}, "additionalProperties": False}}

    {define} call(self, args):
        print("begun", flush=True)
        time.sleep(60)

model = fm.ChatCompletionsLanguageModel({server.base_url!r}, {f"scenario:tools?{calls}"!r})
{asks}"""],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
    )  # fmt: skip
    assert child.stdout is not None and child.stdout.readline() == "begun\n"
    return child


@pytest.mark.parametrize(
    "asks",
    [
        "asyncio.run(session.respond('?'))",
        "asyncio.new_event_loop().run_until_complete(session.respond('?'))",
    ],
)
def test_an_interrupt_that_meets_an_async_tool_is_the_programs(
    server: ScriptedServer, asks: str
) -> None:
    """One that blocks the main thread; asyncio.run only asks the task to end at the first."""
    child = begun_with_a_tool_that_sleeps(server, "async def", f"""
session = fm.LanguageModelSession(model=model, tools=[Sleep()], tool_errors="output")
try:
    {asks}
except KeyboardInterrupt:
    print("interrupted", flush=True)
""")  # fmt: skip
    for _ in range(100):
        child.send_signal(signal.SIGINT)
        try:
            child.wait(0.3)
            break
        except subprocess.TimeoutExpired:
            continue
    told, _ = child.communicate(timeout=30)
    assert told == "interrupted\n" or child.returncode == -signal.SIGINT, (told, child.returncode)


@pytest.mark.parametrize(
    "asks",
    [
        "asyncio.run(session.respond('?'))",
        "session.respond_sync('?')",
        "list(session.stream_sync('?'))",
        "asyncio.run(asyncio.wait_for(session.respond('?'), 0.2))",
    ],
)
def test_nobody_waits_for_a_tool_that_blocks(server: ScriptedServer, asks: str) -> None:
    """An interrupt, or a time limit, ends the request and the program while a plain tool sleeps in
    its thread."""
    child = begun_with_a_tool_that_sleeps(server, "def", f"""
session = fm.LanguageModelSession(model=model, tools=[Sleep()])
try:
    {asks}
except (KeyboardInterrupt, asyncio.TimeoutError) as error:
    asked = session.transcript.to_json().count('"user"')
    print(type(error).__name__, session.is_responding, asked, flush=True)
""")  # fmt: skip
    begun = time.monotonic()
    if "wait_for" not in asks:
        child.send_signal(signal.SIGINT)
    told, errors = child.communicate(timeout=30)
    assert time.monotonic() - begun < 5
    # The transcript holds nothing of a request that was given up.
    what = "TimeoutError" if "wait_for" in asks else "KeyboardInterrupt"
    assert told == f"{what} False 0\n", (told, errors)
    assert (child.returncode, errors) == (0, "")


@pytest.mark.parametrize(
    ("call", "part"),
    [
        (("weather", {"city": "Berlin"}), 'city: "Berlin" is none of'),
        (("weather", {}), "city"),
        (("weather", "{not json"), "no JSON"),
        (("wether", {"city": "Rome"}), "there are weather"),
    ],
)
def test_a_call_that_is_wrong_never_reaches_the_tool(
    model: Models, call: tuple[str, Any], part: str
) -> None:
    tool = Weather()
    wrong = model("tools", calls=calls(call))
    session = fm.LanguageModelSession(model=wrong, tools=[tool])
    with pytest.raises(fm.ToolCallError, match=part) as caught:
        asyncio.run(session.respond("?"))
    assert caught.value.tool_name == call[0]
    session = fm.LanguageModelSession(model=wrong, tools=[tool], tool_errors="output")
    assert part in asyncio.run(session.respond("?"))
    assert tool.seen == []


def test_rounds_have_a_bound(tool_model: Any) -> None:
    session = fm.LanguageModelSession(
        model=tool_model(("weather", {"city": "Rome"}), ("weather", {"city": "Rome"}), rounds=50),
        tools=[Weather()],
        max_tool_rounds=2,
    )
    with pytest.raises(fm.ToolRoundLimitError) as caught:
        asyncio.run(session.respond("?"))
    assert caught.value.limit == 2


def test_a_model_that_may_not_call_does_not(tool_model: Any) -> None:
    tool = Weather()
    session = fm.LanguageModelSession(model=tool_model(("weather", {"city": "Rome"})), tools=[tool])
    options = fm.GenerationOptions(tool_choice="disallowed")
    assert asyncio.run(session.respond("?", options=options)) == "nothing"
    assert tool.seen == []


def test_a_tool_is_cancelled_with_its_request(tool_model: Any) -> None:
    started, ended = threading.Event(), []

    async def wait() -> str:
        started.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return "never"

    session = fm.LanguageModelSession(model=tool_model(("slow", {})), tools=[Simple("slow", wait)])

    async def main() -> None:
        task = asyncio.create_task(session.respond("?"))
        await asyncio.to_thread(started.wait, 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        deadline = time.monotonic() + 5
        while not ended and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        assert ended == ["cancelled"]
        assert not session.is_responding

    asyncio.run(main())


def test_a_tool_cannot_ask_the_session_that_waits_for_it(tool_model: Any) -> None:
    async def ask() -> str:
        try:
            await session.respond("and you?")
        except fm.ConcurrentRequestsError as error:
            return f"refused: {error}"
        return "answered"

    session = fm.LanguageModelSession(model=tool_model(("ask", {})), tools=[Simple("ask", ask)])
    answer = asyncio.run(asyncio.wait_for(session.respond("?"), 30))
    assert "refused: the session is busy" in answer


def test_outputs_may_hold_pictures(server: ScriptedServer, tool_model: Any, picture: Path) -> None:
    tool = Simple("look", lambda: ["See:", fm.ImageAttachment(picture, "photo")])
    session = fm.LanguageModelSession(model=tool_model(("look", {})), tools=[tool])
    answer = asyncio.run(session.respond("?"))
    assert "See:" in answer
    last = server.log(full=True)[-1]
    assert [image["media_type"] for image in last["images"]] == ["image/jpeg"]
    assert "[image: photo]" in last["images"][0]["after"]
    assert all(
        isinstance(message["content"], str)
        for message in last["body"]["messages"]
        if message["role"] == "tool"
    )


def test_other_outputs_are_made_text(tool_model: Any) -> None:
    tool = Simple("count", lambda: {"n": 3, "nul": "a\0b"})
    session = fm.LanguageModelSession(model=tool_model(("count", {})), tools=[tool])
    assert "'n': 3" in asyncio.run(session.respond("?"))


def test_a_session_keeps_its_tools(tool_model: Any, live: Live) -> None:
    before = live.now()["tool"]
    session = fm.LanguageModelSession(
        model=tool_model(("weather", {"city": "Rome"})), tools=[Weather()]
    )
    gc.collect()
    assert "Sunny" in asyncio.run(session.respond("?"))
    tool = weakref.ref(session._tools["weather"])
    gc.disable()
    try:
        del session
        assert tool() is None, "a circle that only the collector opens"
        assert live.now()["tool"] == before
    finally:
        gc.enable()


def test_one_tool_in_many_sessions_at_once(tool_model: Any) -> None:
    tool = Weather()
    model = tool_model(("weather", {"city": "Rome"}))

    async def main() -> None:
        sessions = [fm.LanguageModelSession(model=model, tools=[tool]) for _ in range(20)]
        answers = await asyncio.gather(*(session.respond("?") for session in sessions))
        assert all("Sunny in Rome." in answer for answer in answers)

    asyncio.run(main())
    assert len(tool.seen) == 20


def test_tools_and_a_schema_together(server: ScriptedServer, tool_model: Any) -> None:
    session = fm.LanguageModelSession(
        model=tool_model(("weather", {"city": "Rome"})), tools=[Weather()]
    )
    content = asyncio.run(session.respond("?", json_schema=CITY))
    assert content.value() == {"city": "Paris"}
    assert "Sunny in Rome." in json.dumps(server.log()[-1]["body"])


def test_what_a_class_lacks_is_said() -> None:
    class NoName(fm.Tool):
        description = "x"
        arguments_schema: Any = CITY

        async def call(self, args: fm.GeneratedContent) -> str:
            return ""

    for kind in (AssertionError, fm.ToolDefinitionError, ValueError):
        with pytest.raises(kind, match="'name'"):
            NoName()
    NoName.name = 3  # type: ignore[assignment]
    with pytest.raises(TypeError, match="name of NoName must be a str"):
        NoName()
    NoName.name = "good"
    NoName.arguments_schema = "no schema"
    with pytest.raises(TypeError, match="GenerationSchema"):
        NoName()
    NoName.arguments_schema = CITY
    assert NoName().name == "good"
    NoName.name = "not good"
    with pytest.raises(fm.InvalidArgumentError, match="64 letters"):
        fm.LanguageModelSession(tools=[NoName()])
    with pytest.raises(ValueError, match="two tools"):
        fm.LanguageModelSession(tools=[Weather(), Weather()])


def test_capabilities_say_how_tools_are_called(tool_model: Any) -> None:
    model = tool_model()

    async def main() -> None:
        before = model.capabilities.tool_calling
        await model.load()
        assert model.capabilities.tool_calling == before
        assert before in ("native", "guided")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("profile", "calling"), [("llamacpp", "native"), ("llamacpp-toolless", "guided")]
)
def test_a_template_without_tools_makes_none_vanish(
    server: ScriptedServer, profile: str, calling: str
) -> None:
    name = f"scenario:tools?calls={calls(('weather', {'city': 'Rome'}))}"
    model = fm.ChatCompletionsLanguageModel(f"{server.base_url}/p/{profile}", name)
    tool = Weather()

    async def main() -> None:
        session = fm.LanguageModelSession(model=model, tools=[tool])
        assert "Sunny in Rome." in await session.respond("?")
        await model.load()
        assert model.capabilities.tool_calling == calling

    asyncio.run(main())
    assert [seen[0] for seen in tool.seen] == ["Rome"]
