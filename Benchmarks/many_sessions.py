"""200 sessions at once in one Python process: ours against the openai client's async streams.

Answers of 20 chunks from a server that takes no time. Bound: twice the openai client's throughput.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import openfm as fm
from _load import LoadServer, Programs
from harness import alternate, report

SESSIONS = 200
REQUESTS = 2
CHUNKS = 20
MODEL = f"load:chunks={CHUNKS}"


def main() -> None:
    with Programs() as programs, LoadServer(programs) as server:
        seconds = alternate(peers(server.base), repeats=3)
        print(f"{SESSIONS} sessions, {REQUESTS} requests each, {CHUNKS} chunks an answer")
        report(seconds, "openfm", "ms a request", 1e3 / (SESSIONS * REQUESTS))


def peers(base: str) -> dict[str, Callable[[], object]]:
    model = fm.ChatCompletionsLanguageModel(base, MODEL)

    async def ours() -> None:
        async def one() -> None:
            for _ in range(REQUESTS):
                session = fm.LanguageModelSession(model=model)
                last = ""
                async for text in session.stream_response("Write."):
                    last = text
                assert len(last) == 26 * CHUNKS

        await asyncio.gather(*(one() for _ in range(SESSIONS)))

    tasks: dict[str, Callable[[], object]] = {"openfm": lambda: asyncio.run(ours())}
    try:
        import openai
    except ImportError:
        print("openai is not installed: left out")
        return tasks

    async def with_openai() -> None:
        async with openai.AsyncOpenAI(base_url=base, api_key="none") as client:

            async def one() -> None:
                for _ in range(REQUESTS):
                    stream = await client.chat.completions.create(
                        model=MODEL,
                        messages=[{"role": "user", "content": "Write."}],
                        stream=True,
                        stream_options={"include_usage": True},
                    )
                    text = ""
                    async for chunk in stream:
                        for choice in chunk.choices:
                            text += choice.delta.content or ""
                    assert len(text) == 26 * CHUNKS

            await asyncio.gather(*(one() for _ in range(SESSIONS)))

    tasks["openai"] = lambda: asyncio.run(with_openai())
    return tasks


main()
