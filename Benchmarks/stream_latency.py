"""How long a chunk takes from the server's write to a Python coroutine, with one stream.

Against the shortest way there is in the same run: a C thread that reads the socket, an eventfd, an
event loop. Bound: 1.5 x that.
"""

from __future__ import annotations

import asyncio
import statistics
import time

import openfm as fm
from _load import LoadServer, Programs, RawPath

CHUNKS = 1000
MODEL = f"load:chunks={CHUNKS},interval=1000"


def main() -> None:
    with Programs() as programs, LoadServer(programs) as server:
        raw = RawPath(programs)
        latencies: dict[str, list[float]] = {"openfm": [], "raw": []}
        for round_number in range(6):
            for name, values in (
                ("openfm", asyncio.run(ours(server.base))),
                ("raw", asyncio.run(shortest(raw, server.port))),
            ):
                if round_number:
                    latencies[name] += values
        medians = {name: statistics.median(values) for name, values in latencies.items()}
        for name, values in latencies.items():
            low, _, high = statistics.quantiles(values, n=4)
            print(
                f"{name:8} {medians[name] * 1e6:7.1f} us from the server's write to the coroutine "
                f"(quartiles {low * 1e6:.1f} to {high * 1e6:.1f}, n={len(values)})"
            )
        print(f"ratio    {medians['openfm'] / medians['raw']:7.2f} (bound: 1.5)")


async def ours(base: str) -> list[float]:
    session = fm.LanguageModelSession(model=fm.ChatCompletionsLanguageModel(base, MODEL))
    latencies = []
    async for text in session.stream_response("Write."):
        latencies.append((time.monotonic_ns() - int(text[-20:])) / 1e9)
    return latencies


async def shortest(raw: RawPath, port: int) -> list[float]:
    latencies = []
    async for data in raw.stream(port, MODEL):
        moment = time.monotonic_ns()
        at = data.rfind(b" word ")
        if at >= 0:
            latencies.append((moment - int(data[at + 6 : at + 26])) / 1e9)
    return latencies


main()
