"""The cost of one streamed chunk: ours, httpx with json, and the openai client.

All read the same answers from the scripted server, as fast as it sends them. The server is a
process of its own. Each takes the text of every chunk; the time is divided by their number.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import openfm as fm
from harness import alternate, report

SERVER = Path(__file__).resolve().parents[1] / "Tests/server/scripted_server.py"
CHUNKS = 2000
SCENARIO = f"scenario:fast-stream?chunks={CHUNKS}"
PROMPT = "Write."


def main() -> None:
    server = subprocess.Popen(
        [sys.executable, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdin is not None and server.stdout is not None
    try:
        base = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
        tasks = peers(base)
        lengths = {name: task() for name, task in tasks.items()}
        assert len(set(lengths.values())) == 1, f"they read different answers: {lengths}"
        print(f"{CHUNKS} chunks, {lengths['openfm']} characters")
        report(alternate(tasks, repeats=9), "openfm", "us a chunk", 1e6 / CHUNKS)
    finally:
        server.stdin.close()
        server.wait(10)


def peers(base: str) -> dict[str, Callable[[], int]]:
    model = fm.ChatCompletionsLanguageModel(base, SCENARIO)

    async def ours() -> int:
        text = ""
        async for snapshot in fm.LanguageModelSession(model=model).stream_response(PROMPT):
            text = snapshot
        return len(text)

    tasks: dict[str, Callable[[], int]] = {"openfm": lambda: asyncio.run(ours())}
    request = {
        "model": SCENARIO,
        "messages": [{"role": "user", "content": PROMPT}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    try:
        import httpx
    except ImportError:
        print("httpx is not installed: left out")
    else:

        async def with_httpx() -> int:
            text = ""
            async with (
                httpx.AsyncClient(trust_env=False) as client,
                client.stream("POST", f"{base}/chat/completions", json=request) as response,
            ):
                async for line in response.aiter_lines():
                    if line.startswith("data: ") and line != "data: [DONE]":
                        for choice in json.loads(line[6:])["choices"]:
                            text += choice["delta"].get("content") or ""
            return len(text)

        tasks["httpx + json"] = lambda: asyncio.run(with_httpx())
    try:
        import openai
    except ImportError:
        print("openai is not installed: left out")
    else:

        async def with_openai() -> int:
            text = ""
            async with openai.AsyncOpenAI(base_url=base, api_key="none") as client:
                stream = await client.chat.completions.create(
                    model=SCENARIO,
                    messages=[{"role": "user", "content": PROMPT}],
                    stream=True,
                    stream_options={"include_usage": True},
                )
                async for chunk in stream:
                    for choice in chunk.choices:
                        text += choice.delta.content or ""
            return len(text)

        tasks["openai"] = lambda: asyncio.run(with_openai())
    return tasks


main()
