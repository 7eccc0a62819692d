"""1,000 streams at once in one Python process, 5,000 chunks a second, one I/O thread.

The time from the server's write to the coroutine. Bound: a median under 1 ms. Measured a second
time with processors that are kept from going idle: waking virtual ones takes long.
"""

from __future__ import annotations

import asyncio
import resource
import statistics
import time

import openfm as fm
from _load import KeepAwake, LoadServer, Programs

STREAMS = 1000
CHUNKS = 30
INTERVAL = 200_000


def main() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    with Programs() as programs, LoadServer(programs) as server:
        measure(server.base)
        with KeepAwake(programs):
            print("processors kept awake:")
            measure(server.base)


def measure(base: str) -> None:
    cpu = time.process_time()
    start = time.monotonic()
    latencies = asyncio.run(run(base))
    seconds = time.monotonic() - start
    used = time.process_time() - cpu
    quantiles = statistics.quantiles(latencies, n=100)
    print(
        f"{STREAMS} streams, {len(latencies)} snapshots of {STREAMS * CHUNKS} chunks in "
        f"{seconds:.1f} s, {used / seconds * 100:.0f} % of a processor"
    )
    print(
        f"median {quantiles[49] * 1e3:.2f} ms (bound: 1), 90 % {quantiles[89] * 1e3:.2f} ms, "
        f"99 % {quantiles[98] * 1e3:.2f} ms"
    )


async def run(base: str) -> list[float]:
    latencies: list[float] = []

    async def one(number: int) -> None:
        # The streams' chunks are spread over the interval.
        start = 1_000_000 + number * INTERVAL // STREAMS
        model = fm.ChatCompletionsLanguageModel(
            base, f"load:chunks={CHUNKS},interval={INTERVAL},start={start}"
        )
        seen = 0
        async for text in fm.LanguageModelSession(model=model).stream_response("Write."):
            moment = time.monotonic_ns()
            seen += 1
            # The first second connects and warms up.
            if seen > 5:
                latencies.append((moment - int(text[-20:])) / 1e9)

    await asyncio.gather(*(one(number) for number in range(STREAMS)))
    return latencies


main()
