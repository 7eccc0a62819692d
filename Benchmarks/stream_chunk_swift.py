"""The cost of a streamed chunk in Swift, in processor time of the whole process.

A reader that keeps every snapshot until the next one, while the server sends as fast as it is
read: snapshots are copies, of which a reader who lags behind gets fewer. Bound: a stream of 100,000
chunks at most twice a chunk of one of 1,000.
"""

from __future__ import annotations

import os
import statistics
import subprocess
from pathlib import Path

from _load import ROOT, LoadServer, Programs, chunk_costs


def main() -> None:
    program = build()
    with Programs() as programs, LoadServer(programs) as server:
        # In turn, so that a slow minute hits both.
        costs: dict[int, list[float]] = {1_000: [], 100_000: []}
        for _ in range(5):
            costs[1_000] += run(program, server.base, 1_000, 20)
            costs[100_000] += run(program, server.base, 100_000, 1)
        medians = {chunks: statistics.median(values) for chunks, values in costs.items()}
        for chunks, median in medians.items():
            print(f"{chunks:7} chunks: {median:6.2f} us of processor time a chunk")
        print(f"long to short: {medians[100_000] / medians[1_000]:.2f} (bound: 2)")


def build() -> Path:
    """The program, from the objects of the release build."""
    vendor = ROOT / ".build/vendor/lib/pkgconfig"
    scratch = ROOT / ".build/static"
    environment = {
        **os.environ,
        "FM_STATIC": "1",
        "OPENFM_BENCHMARKS": "1",
        "PKG_CONFIG_PATH": f"{vendor}:{os.environ.get('PKG_CONFIG_PATH', '')}",
    }
    command = ["swift", "build", "-q", "-c", "release", "--static-swift-stdlib"]
    # As scripts/build has it: with other flags, all would be compiled anew, here and then there.
    for flag in ("-Xfrontend", "-disable-incremental-llvm-codegen"):
        command += ["-Xswiftc", flag]
    command += ["--product", "StreamBenchmark", "--scratch-path", str(scratch)]
    subprocess.run(command, check=True, cwd=ROOT, env=environment)
    return scratch / "release/StreamBenchmark"


def run(program: Path, base: str, chunks: int, repeats: int) -> list[float]:
    return chunk_costs(program, base, chunks, repeats, columns=(1, 2), expected=26 * chunks)


main()
