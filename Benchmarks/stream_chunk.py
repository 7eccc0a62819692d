"""The cost of one streamed chunk in Python: ours, httpx with json, and the openai client.

In processor time of the whole process, all threads, with a server that leaves time between its
writes, so that a reader keeps up: ours then gives one snapshot a chunk. Bounds: 15 us a chunk, a
tenth of the openai client's, and not more than httpx with json takes.

In two paces of the same speed. "one by one": a write a chunk, so that every chunk wakes the reader.
"socket to loop" is what waking a C thread and an event loop costs alone, without HTTP and JSON:
nothing can be below it, and on a busy or virtual machine it is most of each figure. "in bursts": 16
chunks a write, as networks and servers under load deliver them, so that they share the waking and
what is left is each client's own work. All of it is measured a second time with processors that are
kept from going idle in between.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Callable

import openfm as fm
from _load import KeepAwake, LoadServer, Programs, RawPath, chat_request
from harness import alternate, report

CHUNKS = 2000
INTERVAL = 500
BURST = 16
PACES = {
    "one by one": f"load:chunks={CHUNKS},interval={INTERVAL}",
    "in bursts": f"load:chunks={CHUNKS},interval={INTERVAL * BURST},burst={BURST}",
}
PROMPT = "Write."


def main() -> None:
    with Programs() as programs, LoadServer(programs) as server:
        raw = RawPath(programs)
        for pace, model in PACES.items():
            snapshots: list[int] = []
            tasks = peers(server, raw, model, snapshots)
            measure(tasks, snapshots, f"{pace}, idle between them")
            with KeepAwake(programs):
                measure(tasks, snapshots, f"{pace}, processors kept awake")


def measure(tasks: dict[str, Callable[[], object]], snapshots: list[int], how: str) -> None:
    print(f"{CHUNKS} chunks, {INTERVAL} us each, {how}")
    snapshots.clear()
    seconds = alternate(tasks, repeats=5, clock=time.process_time)
    report(seconds, "openfm", "us a chunk", 1e6 / CHUNKS)
    share = statistics.mean(snapshots) / CHUNKS
    # A machine that is busy otherwise joins a few.
    print(f"openfm gave {share:.2f} snapshots a chunk")


def peers(
    server: LoadServer, raw: RawPath, name: str, counts: list[int]
) -> dict[str, Callable[[], object]]:
    base = server.base
    model = fm.ChatCompletionsLanguageModel(base, name)

    async def ours() -> None:
        snapshots = 0
        last = ""
        async for text in fm.LanguageModelSession(model=model).stream_response(PROMPT):
            snapshots += 1
            last = text
        check(last)
        counts.append(snapshots)

    tasks: dict[str, Callable[[], object]] = {"openfm": lambda: asyncio.run(ours())}
    request = chat_request(name, PROMPT)
    try:
        import httpx
    except ImportError:
        print("httpx is not installed: left out")
    else:

        async def with_httpx() -> None:
            text = ""
            async with (
                httpx.AsyncClient(trust_env=False) as client,
                client.stream("POST", f"{base}/chat/completions", json=request) as response,
            ):
                async for line in response.aiter_lines():
                    if line.startswith("data: ") and line != "data: [DONE]":
                        for choice in json.loads(line[6:])["choices"]:
                            text += choice["delta"].get("content") or ""
            check(text)

        tasks["httpx + json"] = lambda: asyncio.run(with_httpx())
    try:
        import openai
    except ImportError:
        print("openai is not installed: left out")
    else:

        async def with_openai() -> None:
            text = ""
            async with openai.AsyncOpenAI(base_url=base, api_key="none") as client:
                stream = await client.chat.completions.create(
                    model=name,
                    messages=[{"role": "user", "content": PROMPT}],
                    stream=True,
                    stream_options={"include_usage": True},
                )
                async for chunk in stream:
                    for choice in chunk.choices:
                        text += choice.delta.content or ""
            check(text)

        tasks["openai"] = lambda: asyncio.run(with_openai())

    async def least() -> None:
        async for _ in raw.stream(server.port, name):
            pass

    tasks["socket to loop"] = lambda: asyncio.run(least())
    return tasks


def check(text: str) -> None:
    # " word " and 20 digits a chunk.
    assert len(text) == 26 * CHUNKS, f"{len(text)} characters"


main()
