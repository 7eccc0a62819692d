"""The cost of a whole request in Python: a session's `respond`, and a bare httpx POST of the same.

Over a server that answers at once. Bound: at most 1.5 times the POST.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import openfm as fm
from _load import LoadServer, Programs, chat_request
from harness import alternate, report

CALLS = 200
MODEL = "load:chunks=1,interval=0"
PROMPT = "Hello"


def main() -> None:
    with Programs() as programs, LoadServer(programs) as server:
        print(f"{CALLS} requests, one after the other")
        report(alternate(peers(server.base), repeats=7), "openfm", "us", 1e6 / CALLS)


def peers(base: str) -> dict[str, Callable[[], object]]:
    model = fm.ChatCompletionsLanguageModel(base, MODEL)

    async def ours() -> None:
        for _ in range(CALLS):
            assert await fm.LanguageModelSession(model=model).respond(PROMPT)

    tasks: dict[str, Callable[[], object]] = {"openfm": lambda: asyncio.run(ours())}
    request = chat_request(MODEL, PROMPT)
    try:
        import httpx
    except ImportError:
        print("httpx is not installed: left out")
        return tasks

    async def with_httpx() -> None:
        async with httpx.AsyncClient(trust_env=False) as client:
            for _ in range(CALLS):
                response = await client.post(f"{base}/chat/completions", json=request)
                lines = [line[6:] for line in response.text.splitlines() if line[:6] == "data: "]
                assert json.loads(lines[0])["choices"]

    tasks["httpx"] = lambda: asyncio.run(with_httpx())
    return tasks


if __name__ == "__main__":
    main()
