"""A server that sends faster than its answer is read: it waits, and the memory does not grow."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import openfm as fm
import pytest
from conftest import Models
from scripted_server import ScriptedServer

# 64 MiB of events, each with 1,000 characters.
BYTES = 64 << 20
TEXT_AT_LEAST = 50_000_000
# Of Python's objects, the library's, and what the allocators keep.
GROWTH = 12 << 10


def resident_kib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


def sent_bytes(server: ScriptedServer) -> int:
    sent: int = server.log()[-1]["bytes_sent"]
    return sent


@pytest.mark.parametrize("how", ["the loop goes on", "the loop stands still"])
def test_a_slow_reader_holds_up_the_server(server: ScriptedServer, model: Models, how: str) -> None:
    session = fm.LanguageModelSession(model=model("flood", bytes=BYTES))

    async def rest() -> None:
        if how == "the loop goes on":
            await asyncio.sleep(0.7)
        else:
            time.sleep(0.7)

    async def main() -> int:
        length = rests = 0
        async for piece in session.stream_deltas("Tell me."):
            length += len(piece)
            assert set(piece) == {"y"}
            if rests < 2:
                rests += 1
                # What had been on its way when it began to rest may still come.
                await rest()
                before, sent = resident_kib(), sent_bytes(server)
                await rest()
                assert resident_kib() - before < GROWTH
                assert sent_bytes(server) - sent < GROWTH << 10
                assert sent_bytes(server) < BYTES // 2
        return length

    length = asyncio.run(main())
    assert length > TEXT_AT_LEAST
    assert length % 1000 == 0


def test_snapshots_of_a_slow_reader_hold_all(model: Models) -> None:
    session = fm.LanguageModelSession(model=model("flood", bytes=8 << 20))

    async def main() -> None:
        lengths = []
        async for text in session.stream_response("Tell me."):
            lengths.append(len(text))
            await asyncio.sleep(0.05)
        assert lengths == sorted(set(lengths))
        assert lengths[-1] > 6_000_000
        assert text == "y" * lengths[-1]

    asyncio.run(main())


def test_a_stream_that_rests_is_left_as_any_other(server: ScriptedServer, model: Models) -> None:
    session = fm.LanguageModelSession(model=model("flood", bytes=BYTES))

    async def main() -> None:
        stream = session.stream_deltas("Tell me.")
        await anext(stream)
        await asyncio.sleep(0.3)
        await stream.aclose()
        assert not session.is_responding
        entry = server.log(finished=1)[-1]
        assert not entry["complete"]

    asyncio.run(main())


def test_an_answer_has_a_largest_size(server: ScriptedServer) -> None:
    model = fm.ChatCompletionsLanguageModel(
        server.base_url, "scenario:flood", max_answer_bytes=1_000_000, max_retries=0
    )
    session = fm.LanguageModelSession(model=model)
    with pytest.raises(fm.InvalidResponseError, match="longer than 1000000 bytes") as caught:
        asyncio.run(session.respond("Tell me."))
    assert caught.value.code == 144
    with pytest.raises(ValueError, match="max_answer_bytes"):
        fm.ChatCompletionsLanguageModel(server.base_url, "m", max_answer_bytes=0)
