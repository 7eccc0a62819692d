"""The cost of a streamed chunk in C, in processor time of the whole process.

A callback for each chunk gets the text so far. Bounds: 5 us a chunk, and a stream of 100,000 chunks
at most twice a chunk of one of 1,000.
"""

from __future__ import annotations

import statistics
from pathlib import Path

from _load import LoadServer, Programs, chunk_costs


def main() -> None:
    with Programs() as programs, LoadServer(programs) as server:
        client = programs.compile_with_library("stream_client")
        # In turn, so that a slow minute hits both.
        costs: dict[int, list[float]] = {1_000: [], 100_000: []}
        for _ in range(5):
            costs[1_000] += run(client, server.base, 1_000, 20)
            costs[100_000] += run(client, server.base, 100_000, 1)
        medians = {chunks: statistics.median(values) for chunks, values in costs.items()}
        for chunks, median in medians.items():
            print(f"{chunks:7} chunks: {median:6.2f} us of processor time a chunk (bound: 5)")
        print(f"long to short: {medians[100_000] / medians[1_000]:.2f} (bound: 2)")


def run(client: Path, base: str, chunks: int, repeats: int) -> list[float]:
    return chunk_costs(client, base, chunks, repeats, columns=(0, 1), expected=chunks)


main()
