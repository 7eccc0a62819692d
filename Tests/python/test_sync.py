"""Sessions for code that cannot await: plain scripts, notebook cells, threads."""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import threading
import time

import openfm as fm
import pytest
from conftest import Live, Models
from openfm import _sync
from scripted_server import ScriptedServer
from test_tools import WHO, Simple, Weather, calls


def test_without_a_loop(model: Models) -> None:
    session = fm.LanguageModelSession(model=model())
    assert session.respond_sync("Hello") == "Hello"
    assert session.respond_full_sync("Hello").finish_reason == "stop"
    words = fm.LanguageModelSession(model=model("text", text="a b c"))
    assert list(words.stream_sync("?"))[-1] == "a b c"


def test_inside_a_running_loop(model: Models) -> None:
    session = fm.LanguageModelSession(model=model())

    async def cell() -> None:
        assert session.respond_sync("one") == "one"
        assert await session.respond("two") == "two"
        assert list(session.stream_sync("three"))[-1] == "three"

    asyncio.run(cell())
    asyncio.run(cell())


def test_leaving_a_stream_frees_the_session(model: Models, live: Live) -> None:
    session = fm.LanguageModelSession(model=model("slow-stream", chunks=200))
    stream = session.stream_sync("?")
    assert next(stream)
    stream.close()
    assert not session.is_responding
    for _ in session.stream_sync("?"):
        break
    assert live.settle({"task": 0})["task"] == 0


def test_errors_come_through(model: Models) -> None:
    session = fm.LanguageModelSession(model=model("error", status=500))
    with pytest.raises(fm.ServerError):
        session.respond_sync("?")
    with pytest.raises(fm.PromptTypeError):
        session.respond_sync(3)
    with pytest.raises(fm.ServerError):
        list(session.stream_sync("?"))


def test_tools_see_the_callers_context(model: Models) -> None:
    tool = Weather()
    session = fm.LanguageModelSession(
        model=model("tools", calls=calls(("weather", {"city": "Rome"}))), tools=[tool]
    )
    context = contextvars.copy_context()
    context.run(WHO.set, "caller")
    assert context.run(session.respond_sync, "?") == "Sunny in Rome."
    assert tool.seen[0][1] == "caller"


def test_threads_with_a_session_each(model: Models) -> None:
    one = model()
    answers: list[str] = []

    def work(number: int) -> None:
        session = fm.LanguageModelSession(model=one)
        for turn in range(5):
            answers.append(session.respond_sync(f"{number}.{turn}"))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == sorted(f"{n}.{t}" for n in range(8) for t in range(5))


def test_an_interrupt_ends_the_request(server: ScriptedServer) -> None:
    code = (
        "import openfm as fm, sys\n"
        f"model = fm.ChatCompletionsLanguageModel({server.base_url!r}, 'scenario:hang-before')\n"
        "session = fm.LanguageModelSession(model=model)\n"
        "print('ready', flush=True)\n"
        "try:\n    session.respond_sync('Hello')\n"
        "except KeyboardInterrupt:\n    print('interrupted', flush=True)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.5)
    start = time.monotonic()
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=20)
    assert out == "interrupted\n"
    assert child.returncode == 0
    assert time.monotonic() - start < 10


def test_the_loop_goes_on_whatever_a_task_does_to_it(model: Models) -> None:
    async def stop() -> str:
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0.01)
        return "gone on"

    tool = Simple("stop", stop)
    session = fm.LanguageModelSession(model=model("tools", calls=calls(("stop", {}))), tools=[tool])
    assert session.respond_sync("?") == "gone on"
    loop = _sync._loop()

    async def leave() -> None:
        raise SystemExit(3)

    # It is the caller's, who ran it.
    with pytest.raises(SystemExit):
        _sync.run(leave())
    loop.call_soon_threadsafe(sys.exit)
    assert session.respond_sync("?") == "gone on"
    assert _sync._loop() is loop


def test_a_loop_that_ended_is_followed_by_another(model: Models) -> None:
    session = fm.LanguageModelSession(model=model())
    assert session.respond_sync("one") == "one"
    ended = _sync._current
    assert ended is not None
    ended.stop()
    assert not ended.thread.is_alive()
    assert session.respond_sync("two") == "two"
    assert _sync._current is not ended
