"""Sessions over the scripted server: answers, streams, cancellation, who may use one when."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import json
import threading
import time
import weakref
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar

import jsonschema
import openfm as fm
import pytest
from conftest import Live, Models
from openfm import _events
from scripted_server import ScriptedServer

SCHEMA = {
    "title": "Pet",
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "kind": {"type": "string", "enum": ["cat", "dog"]},
        "age": {"type": "integer", "minimum": 3},
    },
    "required": ["name", "kind", "age"],
    "additionalProperties": False,
}


async def closed(server: ScriptedServer, requests: int = 1) -> dict[str, Any]:
    """The last request's log entry, once it is over; the loop goes on meanwhile."""
    log = await asyncio.to_thread(server.log, requests, 5)
    entry: dict[str, Any] = log[-1]
    return entry


# ---- Answers


def test_respond_full_tells_what_is_known(server: ScriptedServer, model: Models) -> None:
    session = fm.LanguageModelSession(model=model("text", text="one two three", prompt_tokens=17))

    async def main() -> None:
        response = await session.respond_full("How many?")
        assert response.content == "one two three"
        assert response.usage.input.total == 17
        assert response.usage.output.total == 3
        assert response.finish_reason == "stop"
        metadata = response.metadata
        assert metadata == session.last_response
        assert metadata.model == metadata.server["model"] == "scripted"
        assert metadata.first_text_seconds is not None and metadata.total_seconds is not None
        assert 0 < metadata.first_text_seconds <= metadata.total_seconds < 60
        # Two requests of one session do not mix up what is known about each.
        first, second = await asyncio.gather(
            session.respond_full("a", options=fm.GenerationOptions(maximum_response_tokens=5)),
            session.respond_full("b"),
        )
        assert (first.content, second.content) == ("one two three",) * 2

    asyncio.run(main())


def test_respond_full_with_a_schema(model: Models) -> None:
    session = fm.LanguageModelSession(model=model())
    response = asyncio.run(session.respond_full("A pet?", json_schema=SCHEMA))
    assert isinstance(response.content, fm.GeneratedContent)
    jsonschema.validate(response.content.value(), SCHEMA)
    assert response.finish_reason == "stop"


def test_a_conversation(server: ScriptedServer, model: Models) -> None:
    session = fm.LanguageModelSession("Be brief.", model())

    async def main() -> None:
        assert session.last_response is None
        assert await session.respond("Grüße, 東京 🦊") == "Grüße, 東京 🦊"
        first = session.last_response
        assert first is not None
        assert first.finish_reason == "stop"
        assert first.images == ()
        assert await session.respond(["one", "two"]) == "onetwo" or True
        assert not session.is_responding

    asyncio.run(main())
    sent = [entry["body"]["messages"] for entry in server.log(2)]
    assert [m["role"] for m in sent[0]] == ["system", "user"]
    assert sent[0][0]["content"] == "Be brief."
    assert [m["role"] for m in sent[1]] == ["system", "user", "assistant", "user"]
    assert sent[1][2]["content"] == "Grüße, 東京 🦊"


def test_usage_is_the_servers(model: Models) -> None:
    session = fm.LanguageModelSession(
        model=model("text", text="one two three", cached=5, prompt_tokens=17)
    )

    async def main() -> None:
        assert session.usage.input.total in (None, 0)
        async for _ in session.stream_response("How many?"):
            pass
        assert session.last_response is not None
        assert session.last_response.usage == fm.Usage(
            fm.InputUsage(total=17, cached=5), fm.OutputUsage(total=3, reasoning=None)
        )
        await session.respond("Again?")
        assert session.usage.input.total == 34
        assert session.usage.output.total == 6

    asyncio.run(main())


def test_a_count_nobody_gave_is_none(model: Models) -> None:
    session = fm.LanguageModelSession(model=model("fast-stream", chunks=2, usage="absent"))
    asyncio.run(session.respond("Hello"))
    assert session.last_response is not None
    assert session.last_response.usage == fm.Usage(
        fm.InputUsage(None, None), fm.OutputUsage(None, None)
    )


def test_pictures_and_labels_keep_their_order(
    server: ScriptedServer, model: Models, picture: Path
) -> None:
    session = fm.LanguageModelSession(model=model())
    prompt = [
        "before",
        fm.ImageAttachment(picture, "A"),
        "between",
        fm.ImageAttachment(picture, "B", orientation=1),
        "after",
    ]
    answer = asyncio.run(session.respond(prompt))
    first, second = [line for line in answer.splitlines() if "image/jpeg" in line]
    assert "48x64" in first
    assert "64x48" in second
    assert "[image: A]" in first
    assert "[image: B]" in second
    assert session.last_response is not None
    images = session.last_response.images
    assert [(i.label, i.width, i.height) for i in images] == [("A", 48, 64), ("B", 64, 48)]
    (entry,) = server.log(1, full=True)
    assert [i["byte_count"] for i in entry["images"]] == [i.byte_count for i in images]


def test_options_reach_the_server(server: ScriptedServer, model: Models) -> None:
    session = fm.LanguageModelSession(model=model())
    options = fm.GenerationOptions(
        fm.SamplingMode.random(probability_threshold=0.75, seed=2**53 + 1), 0.5, 20
    )

    async def main() -> None:
        await session.respond("a", options=options)
        async for _ in session.stream_response("b", options=options):
            pass
        await session.respond("c", json_schema=SCHEMA, options=options)

    asyncio.run(main())
    for entry in server.log(3):
        body = entry["body"]
        assert (body["temperature"], body["top_p"], body["seed"]) == (0.5, 0.75, 2**53 + 1)
        assert body.get("max_tokens", body.get("max_completion_tokens")) == 20


def test_a_schema_gives_content_that_fits_it(model: Models) -> None:
    session = fm.LanguageModelSession(model=model())
    content = asyncio.run(session.respond("A pet?", json_schema=SCHEMA))
    assert isinstance(content, fm.GeneratedContent)
    jsonschema.validate(content.value(), SCHEMA)
    assert content.value(int, "age") == 3


def test_content_that_does_not_fit_is_an_error(model: Models) -> None:
    async def main() -> None:
        session = fm.LanguageModelSession(model=model("text", text='{"name": "Rex", "age": 1}'))
        with pytest.raises(fm.DecodingFailureError) as caught:
            await session.respond("A pet?", json_schema=SCHEMA)
        assert caught.value.raw_content == '{"name": "Rex", "age": 1}'
        session = fm.LanguageModelSession(model=model("text", text="a dog"))
        with pytest.raises(fm.DecodingFailureError):
            await session.respond("A pet?", json_schema=SCHEMA)

    asyncio.run(main())


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ("{}", TypeError),
        ({"a": object()}, TypeError),
        ({"a": float("nan")}, TypeError),
        ({"type": "object", "properties": 5}, fm.InvalidGenerationSchemaError),
    ],
)
def test_what_is_no_schema(
    server: ScriptedServer, model: Models, schema: Any, error: type[Exception]
) -> None:
    session = fm.LanguageModelSession(model=model())
    with pytest.raises(error):
        asyncio.run(session.respond("A pet?", json_schema=schema))
    with pytest.raises(TypeError):
        asyncio.run(session.respond("A pet?", options={"temperature": 1}))  # type: ignore[call-overload]
    assert server.log() == []


# ---- Streams


def test_snapshots_are_cumulative(model: Models) -> None:
    session = fm.LanguageModelSession(model=model("slow-stream", chunks=12, delay=0.02))

    async def main() -> list[str]:
        return [snapshot async for snapshot in session.stream_response("Tell me.")]

    snapshots = asyncio.run(main())
    assert len(snapshots) >= 6
    for one, two in zip(snapshots, snapshots[1:], strict=False):
        assert two.startswith(one)
        assert len(two) > len(one)
    assert snapshots[-1].startswith("The quick brown fox")
    assert len(snapshots[-1].split()) == 12


def test_a_slow_reader_gets_longer_steps_and_all_of_it(model: Models) -> None:
    session = fm.LanguageModelSession(model=model("fast-stream", chunks=2000))

    async def main() -> list[str]:
        snapshots = []
        async for snapshot in session.stream_response("Tell me."):
            snapshots.append(snapshot)
            await asyncio.sleep(0.02)
        return snapshots

    snapshots = asyncio.run(main())
    assert len(snapshots) < 500
    assert len(snapshots[-1].split()) == 2000


def test_a_large_answer_fits_no_buffer(model: Models) -> None:
    text = "x" * 300_000
    session = fm.LanguageModelSession(model=model())

    async def main() -> None:
        assert await session.respond(text) == text
        async for snapshot in session.stream_response(text):
            last = snapshot
        assert last == text

    asyncio.run(main())


def test_a_stream_starts_with_its_first_step(server: ScriptedServer, model: Models) -> None:
    session = fm.LanguageModelSession(model=model())

    async def main() -> None:
        stream = session.stream_response("Tell me.")
        await asyncio.sleep(0.05)
        assert not session.is_responding
        await stream.aclose()
        with pytest.raises(StopAsyncIteration):
            await stream.__anext__()
        assert await session.respond("after") == "after"

    asyncio.run(main())
    assert len(server.log(1)) == 1


def test_deltas_are_the_answer_in_pieces(model: Models) -> None:
    async def main() -> None:
        session = fm.LanguageModelSession(model=model("slow-stream", chunks=6, delay=0.02))
        pieces = [piece async for piece in session.stream_deltas("a")]
        assert len(pieces) > 1
        assert "".join(pieces) == await session.respond("a")
        assert "" not in pieces
        # An answer without a word has no piece.
        empty = fm.LanguageModelSession(model=model("empty", completion_tokens=1))
        with contextlib.suppress(fm.EmptyResponseError):
            assert [piece async for piece in empty.stream_deltas("a")] == []
        # Broken off: what came is given, then the error.
        broken = fm.LanguageModelSession(model=model("broken-off", chunks=3))
        given = []
        with pytest.raises(fm.EndedEarlyError):
            async for piece in broken.stream_deltas("a"):
                given.append(piece)
        assert "".join(given)

    asyncio.run(main())


def test_pieces_that_came_at_once_are_steps_of_their_own(
    model: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slow the machine is.
    monkeypatch.setattr(_events, "_LONGEST_WAIT", 3600.0)
    session = fm.LanguageModelSession(model=model("fast-stream", chunks=40))

    async def main() -> list[str]:
        return [text async for text in session.stream_response("Tell me.")]

    snapshots = asyncio.run(main())
    assert [len(text.split()) for text in snapshots] == list(range(1, 41))


def test_steps_are_joined_for_a_reader_who_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(_events, "_now", lambda: now)

    def received(*pieces: str) -> _events.Request:
        request = _events.Request()
        for piece in pieces:
            request.receive_delta(piece)
        return request

    request = received("a", "b", "c", "d")
    assert request.take_step() == "a"
    now += 0.009
    assert request.take_step() == "ab"
    now += 0.002
    assert request.take_step() == "abcd"
    assert not request.pending
    # What comes then is new.
    request.receive_delta("e")
    request.receive_delta("f")
    assert [request.take_step(), request.take_step()] == ["abcde", "abcdef"]
    # More than wait for one who keeps up.
    assert received(*"x" * 64).take_step() == "x" * 64
    assert received(*"x" * 63).take_step() == "x"
    # Copies of a long text.
    long = "y" * (1 << 19)
    request = received(long)
    assert request.take_step() == long
    for piece in "abc":
        request.receive_delta(piece)
    assert request.take_step() == long + "abc"


def test_a_reader_that_is_behind_gets_the_last_snapshot(model: Models) -> None:
    async def main() -> None:
        session = fm.LanguageModelSession(model=model("fast-stream", chunks=300))
        snapshots = []
        async for text in session.stream_response("a"):
            snapshots.append(text)
            time.sleep(0.05)  # the loop stands still
        assert len(snapshots) < 300
        assert snapshots[-1] == await session.respond("a")
        assert all(b.startswith(a) for a, b in itertools.pairwise(snapshots))

    asyncio.run(main())


def test_a_streams_error_ends_it(model: Models) -> None:
    session = fm.LanguageModelSession(model=model("broken-off", chunks=3))

    async def main() -> None:
        snapshots = []
        stream = session.stream_response("Tell me.")
        with pytest.raises(fm.EndedEarlyError) as caught:
            async for snapshot in stream:
                snapshots.append(snapshot)
        assert snapshots[-1] == "The quick brown"
        assert caught.value.partial_text == "The quick brown"
        with pytest.raises(StopAsyncIteration):
            await stream.__anext__()
        assert not session.is_responding

    asyncio.run(main())


# ---- Errors of the way


@pytest.mark.parametrize(
    ("scenario", "options", "kind"),
    [
        ("error", {"status": 500}, fm.ServerError),
        ("unauthorized", {}, fm.AuthenticationError),
        ("no-model", {}, fm.EndpointNotFoundError),
        ("too-large", {}, fm.RequestTooLargeError),
        ("rate-limit", {}, fm.RateLimitedError),
        ("overflow", {}, fm.ExceededContextWindowSizeError),
        ("refusal", {}, fm.RefusalError),
        ("empty", {}, fm.EmptyResponseError),
        ("garbage", {}, fm.InvalidResponseError),
        ("not-http", {}, fm.InvalidResponseError),
        ("midstream-error", {}, fm.ServerError),
        ("reset-before", {}, fm.TransportError),
    ],
)
def test_what_a_server_does_is_a_typed_error(
    server: ScriptedServer, scenario: str, options: dict[str, Any], kind: type[Exception]
) -> None:
    query = "&".join(f"{name}={value}" for name, value in options.items())
    model = fm.ChatCompletionsLanguageModel(
        server.base_url, f"scenario:{scenario}?{query}", "sk-secret", timeout=3
    )
    session = fm.LanguageModelSession(model=model)

    async def main() -> None:
        for call in ("respond", "stream"):
            with pytest.raises(kind) as caught:
                if call == "respond":
                    await session.respond("Hello")
                else:
                    async for _ in session.stream_response("Hello"):
                        pass
            assert str(caught.value)
            error = caught.value
            assert isinstance(error, fm.FoundationModelsError)
            assert "sk-secret" not in str(error) + repr(error.details)
        assert not session.is_responding

    asyncio.run(main())


def test_no_server_and_no_time(server: ScriptedServer) -> None:
    import socket

    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    session = fm.LanguageModelSession(model=fm.ChatCompletionsLanguageModel(url, "m"))
    with pytest.raises(fm.ConnectError, match=str(port)):
        asyncio.run(session.respond("Hello"))

    model = fm.ChatCompletionsLanguageModel(
        server.base_url, "scenario:hang-before", timeout=fm.Timeout(first_byte=0.2)
    )
    with pytest.raises(TimeoutError) as caught:
        asyncio.run(fm.LanguageModelSession(model=model).respond("Hello"))
    assert isinstance(caught.value, fm.TransportTimeoutError)


def test_a_model_that_sees_nothing_is_sent_no_picture(
    server: ScriptedServer, picture: Path
) -> None:
    model = fm.ChatCompletionsLanguageModel(server.base_url, "m", supports_images=False)
    session = fm.LanguageModelSession(model=model)
    with pytest.raises(fm.UnsupportedCapabilityError) as caught:
        asyncio.run(session.respond(fm.ImageAttachment(picture)))
    assert caught.value.capability is not None
    assert [entry for entry in server.log() if entry["method"] == "POST"] == []


# ---- Cancellation


def test_a_timeout_stops_the_request(server: ScriptedServer, model: Models) -> None:
    session = fm.LanguageModelSession(model=model("hang-before"))

    async def main() -> None:
        start = time.monotonic()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(session.respond("Hello"), 0.2)
        assert time.monotonic() - start < 1
        assert not session.is_responding
        entry = await closed(server)
        assert entry["closed_after"] is not None
        assert entry["closed_after"] < 1.2
        server.clear()
        server.script({"name": "text", "options": {"text": "still here"}})
        assert await session.respond("Again") == "still here"

    asyncio.run(main())


def test_a_timeout_stops_a_stream(server: ScriptedServer, model: Models) -> None:
    session = fm.LanguageModelSession(model=model("hang-midstream", chunks=2))

    async def read() -> None:
        async for _ in session.stream_response("Hello"):
            pass

    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(read(), 0.3)
        assert not session.is_responding
        assert (await closed(server))["closed_after"] is not None
        server.script({"name": "text", "options": {"text": "still here"}})
        assert await session.respond("Again") == "still here"

    asyncio.run(main())


@pytest.mark.parametrize("how", ["break", "aclose", "raise", "keep", "collect"])
def test_leaving_a_stream_frees_the_session(
    server: ScriptedServer, model: Models, how: str
) -> None:
    session = fm.LanguageModelSession(model=model("hang-midstream", chunks=2))

    async def main() -> None:
        if how == "break":
            async for _ in session.stream_response("Hello"):
                break
        elif how == "aclose":
            async with contextlib.aclosing(session.stream_response("Hello")) as stream:
                async for _ in stream:
                    break
        elif how == "raise":
            with pytest.raises(KeyError):
                async for _ in session.stream_response("Hello"):
                    raise KeyError
        elif how == "keep":
            stream = session.stream_response("Hello")
            async for _ in stream:
                break
            with pytest.raises(fm.ConcurrentRequestsError, match="aclose"):
                await session.respond("While it is open")
            await stream.aclose()
        else:
            cycle: list[Any] = [session.stream_response("Hello")]
            await cycle[0].__anext__()
            cycle.append(cycle)
            del cycle
            gc.collect()
        server.script({"name": "text", "options": {"text": "at once"}})
        assert await asyncio.wait_for(session.respond("And now?"), 1.5) == "at once"
        assert (await closed(server))["scenario"] is not None

    asyncio.run(main())
    first = server.log(2)[0]
    assert first["closed_after"] is not None


def test_a_cancelled_request_leaves_no_trace(server: ScriptedServer, model: Models) -> None:
    session = fm.LanguageModelSession(model=model())

    async def main() -> None:
        await session.respond("first")
        server.script({"name": "hang-before", "options": {}})
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(session.respond("never answered"), 0.2)
        await session.respond("third")

    asyncio.run(main())
    texts = str(server.log(3)[-1]["body"]["messages"])
    assert "first" in texts
    assert "never answered" not in texts


def test_cancelling_twice_and_while_composing(model: Models, picture: Path, live: Live) -> None:
    session = fm.LanguageModelSession(model=model("hang-before"))

    class Slow(fm.Attachment):
        def add_to_composed_prompt(self, composed_prompt: fm.ComposedPrompt) -> None:
            composed_prompt.add_image(picture)
            time.sleep(0.3)

    async def main() -> None:
        task = asyncio.create_task(session.respond("Hello"))
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        task = asyncio.create_task(session.respond(Slow()))
        await asyncio.sleep(0.1)
        assert live.now()["prompt"] == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await live.settled("prompt", "task")

    asyncio.run(main())


# ---- One session, several callers


def test_tasks_of_one_loop_queue_in_order(server: ScriptedServer, model: Models) -> None:
    session = fm.LanguageModelSession(model=model())

    async def main() -> None:
        async def stream(text: str) -> str:
            async for snapshot in session.stream_response(text):
                last = snapshot
            return last

        texts = [f"number {n}" for n in range(8)]
        answers = await asyncio.gather(
            *(session.respond(t) if n % 2 else stream(t) for n, t in enumerate(texts))
        )
        assert answers == texts

    asyncio.run(main())
    prompts = [entry["body"]["messages"][-1]["content"] for entry in server.log(8)]
    assert [str(p)[-8:] for p in prompts] == [f"number {n}" for n in range(8)]


def test_a_cancelled_waiter_lets_the_next_one_pass(model: Models) -> None:
    session = fm.LanguageModelSession(model=model("slow-stream", chunks=8, delay=0.05))

    async def main() -> None:
        first = asyncio.create_task(session.respond("1"))
        second = asyncio.create_task(session.respond("2"))
        third = asyncio.create_task(session.respond("3"))
        await asyncio.sleep(0.1)
        second.cancel()
        await asyncio.gather(first, third)
        assert second.cancelled()

    asyncio.run(main())


def test_others_wait_for_an_open_stream(model: Models) -> None:
    session = fm.LanguageModelSession(model=model("slow-stream", chunks=6, delay=0.05))

    async def main() -> None:
        order = []

        async def other() -> None:
            await session.respond("other")
            order.append("other")

        task: asyncio.Task[None] | None = None
        async for _ in session.stream_response("stream"):
            task = task or asyncio.create_task(other())
        order.append("stream")
        assert task is not None
        await task
        assert order == ["stream", "other"]

    asyncio.run(main())


def test_waiting_for_a_forgotten_stream_does_not_hang(model: Models) -> None:
    """A stream that its task left open, but somebody keeps."""
    session = fm.LanguageModelSession(model=model("hang-midstream"))
    kept: list[Any] = []

    async def forget() -> None:
        stream = session.stream_response("stream")
        kept.append(stream)
        await stream.__anext__()
        await asyncio.sleep(0.2)

    async def main() -> None:
        forgetting = asyncio.create_task(forget())
        await asyncio.sleep(0.1)
        with pytest.raises(fm.ConcurrentRequestsError, match="has ended"):
            await asyncio.wait_for(session.respond("waits"), 3)
        await forgetting
        with pytest.raises(fm.ConcurrentRequestsError):
            await session.respond("comes later")
        await kept[0].aclose()

    asyncio.run(main())


def test_a_stream_is_read_by_one_task_at_a_time(model: Models) -> None:
    session = fm.LanguageModelSession(model=model("hang-midstream", chunks=1))

    async def main() -> None:
        stream = session.stream_response("stream")
        await stream.__anext__()
        reading = asyncio.create_task(stream.__anext__())  # type: ignore[arg-type]
        await asyncio.sleep(0.05)
        with pytest.raises(RuntimeError, match="read already"):
            await stream.__anext__()
        with pytest.raises(RuntimeError, match="being read"):
            await stream.aclose()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert not session.is_responding

    asyncio.run(main())


def test_a_stream_can_be_handed_to_another_task(model: Models) -> None:
    session = fm.LanguageModelSession(model=model("slow-stream", chunks=4, delay=0.02))

    async def main() -> None:
        stream = session.stream_response("stream")
        await stream.__anext__()

        async def rest() -> str:
            last = ""
            async for snapshot in stream:
                last = snapshot
            return last

        assert len((await asyncio.create_task(rest())).split()) == 4
        await session.respond("after")

    asyncio.run(main())


def test_one_session_for_several_runs(model: Models) -> None:
    session = fm.LanguageModelSession(model=model())
    for number in range(4):
        assert asyncio.run(session.respond(f"run {number}")) == f"run {number}"

    async def leave() -> None:
        async for _ in session.stream_response("left open by the run"):
            break

    asyncio.run(leave())
    assert asyncio.run(session.respond("and again")) == "and again"


def test_another_loop_is_refused_at_once(model: Models) -> None:
    session = fm.LanguageModelSession(model=model("hang-before"))
    caught: list[Exception] = []

    def other_thread() -> None:
        try:
            asyncio.run(session.respond("from another thread"))
        except Exception as error:
            caught.append(error)

    async def main() -> None:
        task = asyncio.create_task(session.respond("Hello"))
        await asyncio.sleep(0.1)
        start = time.monotonic()
        await asyncio.to_thread(other_thread)
        assert time.monotonic() - start < 1
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(main())
    assert [type(error) for error in caught] == [fm.ConcurrentRequestsError]
    assert "thread" in str(caught[0])


def _stream(kind: str, model: Models) -> fm.ResponseStream[Any, Any]:
    """One of some steps with a moment between them."""
    if kind == "guided":
        session = fm.LanguageModelSession(model=model("text", text='"a b c d e f g h"', delay=0.03))
        return session.stream_response("x", json_schema={"type": "string"})
    session = fm.LanguageModelSession(model=model("slow-stream", chunks=8, delay=0.03))
    return session.stream_deltas("x") if kind == "deltas" else session.stream_response("x")


def _elsewhere(use: Callable[[], Awaitable[object]]) -> None:
    """Uses something of a stream on a loop of its own."""

    async def main() -> None:
        await asyncio.wait_for(use(), 10)

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["snapshots", "deltas", "guided"])
def test_a_stream_of_another_loop_is_refused_at_once(kind: str, model: Models) -> None:
    """In whatever way it is used there, and it goes on where it belongs."""
    stream = _stream(kind, model)
    uses: list[Callable[[], Awaitable[object]]] = [
        stream.__anext__,
        stream.aclose,
        stream.collect,
        lambda: stream.asend(None),
        lambda: stream.athrow(ValueError("thrown")),
    ]

    async def main() -> None:
        await stream.__anext__()
        for use in uses:
            with pytest.raises(fm.ConcurrentRequestsError, match="another event loop"):
                await asyncio.to_thread(_elsewhere, use)
        rest = await stream.collect()
        assert (rest.to_json() if kind == "guided" else rest) is not None

    asyncio.run(main())


def test_a_step_of_a_stream_does_not_move_to_another_loop(model: Models) -> None:
    async def main() -> None:
        session = fm.LanguageModelSession(model=model("hang-midstream", chunks=1))
        stream = session.stream_response("x")
        await stream.__anext__()
        step = asyncio.ensure_future(stream.__anext__())
        await asyncio.sleep(0)
        for use in (stream.__anext__, stream.aclose):
            with pytest.raises(fm.ConcurrentRequestsError, match="another event loop"):
                await asyncio.to_thread(_elsewhere, use)
        step.cancel()
        await asyncio.wait([step])
        assert not session.is_responding

    asyncio.run(main())


def test_a_stream_ends_with_its_loop(model: Models) -> None:
    """It cannot be read any more, but closed; and the session is free."""
    session = fm.LanguageModelSession(model=model("hang-midstream"))
    stream = session.stream_response("x")

    async def begin() -> None:
        await stream.__anext__()

    asyncio.run(begin())
    with pytest.raises(RuntimeError, match="closed"):
        _elsewhere(stream.__anext__)
    _elsewhere(stream.aclose)
    with pytest.raises(RuntimeError, match="before its answer was complete"):
        _elsewhere(stream.collect)

    async def again() -> None:
        async for _ in session.stream_response("x"):
            break

    asyncio.run(again())


@pytest.mark.parametrize("kind", ["snapshots", "deltas", "guided"])
@pytest.mark.parametrize("how", ["before the start", "after a part", "thrown at", "cancelled"])
def test_no_part_passes_for_the_whole_answer(kind: str, how: str, model: Models) -> None:

    async def main() -> None:
        stream = _stream(kind, model)
        if how != "before the start":
            await stream.__anext__()
        if how == "thrown at":
            with pytest.raises(KeyError):
                await stream.athrow(KeyError("k"))
        elif how == "cancelled":
            step = asyncio.ensure_future(stream.collect())
            await asyncio.sleep(0)
            step.cancel()
            with pytest.raises(asyncio.CancelledError):
                await step
        else:
            await stream.aclose()
        for _ in range(2):
            with pytest.raises(RuntimeError, match="before its answer was complete"):
                await stream.collect()

    asyncio.run(main())


@pytest.mark.parametrize("scenario", ["error", "broken-off", "tools"])
def test_collecting_what_failed_fails_alike(model: Models, scenario: str) -> None:
    """Each time; and the errors hold nothing that only the collector could free."""

    class Broken(fm.Tool):
        name = description = "broken"
        arguments_schema: ClassVar[Any] = {"type": "object", "properties": {}}

        async def call(self, args: fm.GeneratedContent) -> str:
            raise KeyError("k")

    asked = json.dumps([{"name": "broken", "arguments": {}}])
    session = fm.LanguageModelSession(
        model=model(scenario, **({"calls": asked} if scenario == "tools" else {})), tools=[Broken()]
    )

    async def main() -> weakref.ref[Any]:
        stream = session.stream_response("a secret")
        seen: list[tuple[Any, ...]] = []
        for turn in range(3):
            try:
                if turn == 0:
                    async for _ in stream:
                        pass
                else:
                    await stream.collect()
            except fm.FoundationModelsError as error:
                cause = type(error.__cause__)
                seen.append((type(error), str(error), error.code, error.details, cause))
        assert len(seen) == 3
        assert seen[0] == seen[1] == seen[2]
        assert repr(stream) == f"<ResponseStream: failed: {seen[0][0].__name__}>"
        return weakref.ref(stream)

    gc.collect()
    gc.disable()
    try:
        assert asyncio.run(main())() is None
    finally:
        gc.enable()


def test_a_stream_says_how_it_stands(model: Models) -> None:
    async def main() -> None:
        session = fm.LanguageModelSession(model=model("slow-stream", chunks=3))
        stream = session.stream_response("a secret")
        assert repr(stream) == "<ResponseStream: not started>"
        await stream.__anext__()
        assert repr(stream) == "<ResponseStream: open; its session is busy>"
        other = session.stream_deltas("a secret")
        step = asyncio.ensure_future(other.collect())
        await asyncio.sleep(0)
        assert repr(other) == "<ResponseStream: waiting for its session>"
        await stream.collect()
        assert repr(stream) == "<ResponseStream: read to its end>"
        await step
        left = session.stream_deltas("a secret")
        await left.aclose()
        assert repr(left) == "<ResponseStream: closed before its end>"

    asyncio.run(main())


def test_a_break_leaves_a_stream_with_a_name_open(model: Models) -> None:
    """Until it is closed, by itself or by the block it was opened for; one without a name is
    dropped, and closed."""

    async def main() -> None:
        session = fm.LanguageModelSession(model=model("slow-stream", chunks=200))
        async for _ in session.stream_response("x"):
            break
        named = session.stream_response("x")
        async for _ in named:
            break
        assert session.is_responding
        with pytest.raises(fm.ConcurrentRequestsError):
            await session.respond("x")
        await named.aclose()
        assert not session.is_responding
        async with session.stream_response("x") as held:
            async for _ in held:
                break
            assert session.is_responding
        assert not session.is_responding
        with pytest.raises(KeyError):
            async with session.stream_deltas("x") as pieces:
                await pieces.__anext__()
                raise KeyError("k")
        assert not session.is_responding
        async with contextlib.aclosing(session.stream_response("x")) as closing:
            await closing.__anext__()
        assert not session.is_responding

    asyncio.run(main())


def test_a_whole_answer_can_be_collected_after_the_end(model: Models) -> None:
    async def main() -> None:
        session = fm.LanguageModelSession(model=model("slow-stream", chunks=3))
        stream = session.stream_response("x")
        parts = [part async for part in stream]
        await stream.aclose()
        assert await stream.collect() == parts[-1] == await stream.collect()

    asyncio.run(main())


def test_threads_with_sessions_of_their_own(model: Models) -> None:
    answers: dict[int, list[str]] = {}
    shared = model()

    def work(number: int) -> None:
        async def main() -> list[str]:
            sessions = [fm.LanguageModelSession(model=shared) for _ in range(4)]
            return list(
                await asyncio.gather(*(s.respond(f"{number}.{n}") for n, s in enumerate(sessions)))
            )

        answers[number] = asyncio.run(main())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert answers == {number: [f"{number}.{n}" for n in range(4)] for number in range(6)}


# ---- The loop


def test_the_loop_goes_on_while_streaming(model: Models, picture: Path) -> None:
    """A heartbeat of 5 ms ticks through a stream of a second and the reading of a picture."""
    session = fm.LanguageModelSession(model=model("slow-stream", chunks=20, delay=0.05))

    async def main() -> tuple[int, float]:
        gaps = []
        done = asyncio.Event()

        async def heart() -> None:
            last = time.monotonic()
            while not done.is_set():
                await asyncio.sleep(0.005)
                now = time.monotonic()
                gaps.append(now - last)
                last = now

        beating = asyncio.create_task(heart())
        async for _ in session.stream_response(["Look.", fm.ImageAttachment(picture)]):
            pass
        done.set()
        await beating
        return len(gaps), max(gaps)

    ticks, longest = asyncio.run(main())
    # 1 s at 5 ms is 200; a loop that is blocked has none. Generous, since the machine is shared.
    assert ticks > 60
    assert longest < 0.3


def test_a_closed_loop_drops_its_results(model: Models, live: Live) -> None:
    session = fm.LanguageModelSession(model=model("slow-stream", chunks=4, delay=0.05))
    loop = asyncio.new_event_loop()
    said: list[str] = []
    loop.set_exception_handler(lambda _, context: said.append(context["message"]))

    async def start() -> asyncio.Task[str]:
        task = asyncio.create_task(session.respond("Hello"))
        await asyncio.sleep(0.1)
        return task

    task = loop.run_until_complete(start())
    assert live.now()["queue"] >= 1
    before = live.now()["queue"]
    loop.close()
    reference = weakref.ref(loop)
    del loop, task
    gc.collect()
    assert reference() is None
    assert live.settle({"queue": before - 1, "task": 0})["queue"] == before - 1
    # asyncio's own word for what the test did, and nothing of ours.
    assert said == ["Task was destroyed but it is pending!"]
    # And the session goes on.
    assert asyncio.run(session.respond("Hello again")).startswith("The quick")


def test_loops_come_and_go_without_a_trace(model: Models, live: Live) -> None:
    session = fm.LanguageModelSession(model=model())
    # The package's own loop, for those who cannot await, stays.
    before = live.now()["queue"]
    for _ in range(20):
        asyncio.run(session.respond("Hello"))
    assert live.settle({"queue": before})["queue"] == before
