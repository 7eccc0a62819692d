"""Many calls of every kind on one another's heels: nothing that they used is left over.

300 in the tests, OPENFM_SOAK_CALLS of them in scripts/soak.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
from pathlib import Path

import openfm as fm
import pytest
from conftest import Live, Models
from test_tools import CITY, Weather, calls

CALLS = int(os.environ.get("OPENFM_SOAK_CALLS", "300"))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident() -> int:
    """Bytes of memory that the process holds."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def one_call(kind: str, models: dict[str, fm.LanguageModel], picture: Path) -> None:
    session = fm.LanguageModelSession("Be brief.", models[kind])
    if kind == "text":
        assert await session.respond("hello") == "hello"
    elif kind == "image":
        assert "image/jpeg" in await session.respond(["see", fm.ImageAttachment(picture, "A")])
    elif kind == "guided":
        assert (await session.respond("?", json_schema=CITY)).value() == {"city": "Paris"}
    elif kind == "tool":
        session = fm.LanguageModelSession(model=models[kind], tools=[Weather()])
        assert "Sunny" in await session.respond("?")
    elif kind == "stream":
        async for _ in session.stream_response("?"):
            pass
    elif kind == "left":
        async for _ in session.stream_response("?"):
            break
    elif kind == "cancel":
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(session.respond("?"), 0.02)
    elif kind == "error":
        with pytest.raises(fm.ServerError):
            await session.respond("?")
    elif kind == "count":
        assert await models[kind].token_count(["a b", fm.ImageAttachment(picture)]) > 0
    else:
        text = session.transcript.to_json()
        read = fm.Transcript.from_json(text)
        again = fm.LanguageModelSession.from_transcript(read, models[kind])
        assert await again.respond("more") == "more"


def test_nothing_is_left_over(model: Models, picture: Path, live: Live) -> None:
    models: dict[str, fm.LanguageModel] = {
        "text": model(),
        "image": model(),
        "guided": model(),
        "tool": model("tools", calls=calls(("weather", {"city": "Rome"}))),
        "stream": model("fast-stream", chunks=20),
        "left": model("slow-stream", chunks=50),
        "cancel": model("slow-stream", chunks=50),
        "error": model("error", status=500),
        "count": model(),
        "transcript": model(),
    }
    chance = random.Random(7)

    async def run(count: int) -> None:
        kinds = [chance.choice(list(models)) for _ in range(count)]
        for start in range(0, count, 10):
            batch = kinds[start : start + 10]
            await asyncio.gather(*(one_call(kind, models, picture) for kind in batch))

    asyncio.run(run(CALLS // 3))
    gc.collect()
    before = (live.now()["any"], descriptors(), resident())
    asyncio.run(run(CALLS - CALLS // 3))
    kinds = {name: count for name, count in live.now().items() if name != "any"}
    after = live.settle({"any": before[0]})
    grown = resident() - before[2]
    print(f"{CALLS} calls: {after['any']} objects, {grown >> 10} KiB more")
    assert after["any"] <= before[0], kinds
    assert descriptors() <= before[1] + 4
    # Allocators keep some; a leak of a kilobyte a call would be more.
    assert grown < max(24 << 20, CALLS * 512)
