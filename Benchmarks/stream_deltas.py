"""What a piece of a long answer costs in Python: the same as one of a short answer.

Processor time a chunk of `stream_deltas`, over answers of 1,000 and of 100,000 chunks that come as
fast as they are taken. Bound: twice.
"""

from __future__ import annotations

import asyncio
import statistics
import time

import openfm as fm
from _load import LoadServer, Programs


def main() -> None:
    costs: dict[int, list[float]] = {1_000: [], 100_000: []}
    with Programs() as programs, LoadServer(programs) as server:
        for _ in range(5):
            for chunks, repeats in ((1_000, 20), (100_000, 1)):
                for _ in range(repeats):
                    costs[chunks].append(cost(server.base, chunks))
    medians = {chunks: statistics.median(values[1:]) for chunks, values in costs.items()}
    for chunks, median in medians.items():
        print(f"{chunks:7} chunks: {median:6.2f} us of processor time a chunk")
    print(f"long to short: {medians[100_000] / medians[1_000]:.2f} (bound: 2)")


def cost(base: str, chunks: int) -> float:
    model = fm.ChatCompletionsLanguageModel(base, f"load:chunks={chunks}")

    async def read() -> int:
        length = 0
        async for piece in fm.LanguageModelSession(model=model).stream_deltas("Write."):
            length += len(piece)
        return length

    start = time.process_time()
    length = asyncio.run(read())
    used = time.process_time() - start
    assert length == 26 * chunks, f"{length} characters"
    return used / chunks * 1e6


main()
