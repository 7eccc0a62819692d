"""Thousands of picture requests of every outcome: nothing may grow."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import openfm as fm
import pytest

ROUNDS = 2000 if not os.environ.get("OPENFM_SOAK") else 20000
WARM_UP = 200


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_nothing_grows_over_thousands_of_pictures(
    model: Callable[..., fm.ChatCompletionsLanguageModel], picture: Path, live: object
) -> None:
    answering, failing = model("echo"), model("error", status=500)
    slow = model("slow-stream", chunks=100, delay=0.01)
    bad = picture.with_name("bad.jpg")
    bad.write_bytes(picture.read_bytes()[:60])

    async def answered() -> None:
        session = fm.LanguageModelSession(model=answering)
        assert await session.respond(["look", fm.ImageAttachment(picture, "A")])

    async def failed() -> None:
        session = fm.LanguageModelSession(model=failing)
        with pytest.raises(fm.ServerError):
            await session.respond([fm.ImageAttachment(picture)])

    async def cancelled() -> None:
        session = fm.LanguageModelSession(model=slow)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(session.respond([fm.ImageAttachment(picture)]), 0.002)

    async def left_early() -> None:
        session = fm.LanguageModelSession(model=slow)
        stream = session.stream_response([fm.ImageAttachment(picture)])
        async for _ in stream:
            break
        await stream.aclose()

    async def refused() -> None:
        with pytest.raises(fm.CorruptImageError, match="bad.jpg"):
            fm.ImageAttachment(bad)

    kinds = [answered, failed, cancelled, left_early, refused]

    async def main() -> tuple[tuple[int, int], tuple[int, int]]:
        warm = (0, 0)
        for index in range(ROUNDS):
            await kinds[index % len(kinds)]()
            if index == WARM_UP:
                await asyncio.sleep(0.3)
                warm = (descriptors(), resident_bytes())
        await asyncio.sleep(0.3)
        return warm, (descriptors(), resident_bytes())

    (few_descriptors, memory), (descriptors_after, memory_after) = asyncio.run(main())
    # A few idle connections may be kept open or not; a leak of one a round would be hundreds.
    assert descriptors_after <= few_descriptors + 4
    assert memory_after - memory < 24 << 20
