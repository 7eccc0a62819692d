"""A request body of 5 MB: ours against plain libcurl, both in C, both on a kept connection.

Ours starts with a prompt and ends with an answer in a transcript; libcurl is given the finished
body. Bound: 1.3 x libcurl. "prompt" counts the making of the prompt too: a look at the text for
what is no UTF-8, and a copy of it.
"""

from __future__ import annotations

import statistics
import subprocess
from pathlib import Path

from _load import LoadServer, Programs

SIZE = 5_000_000


def main() -> None:
    with Programs() as programs, LoadServer(programs) as server:
        program = programs.compile_with_library("request_body", "-lcurl")
        seconds: dict[str, list[float]] = {"openfm": [], "prompt": [], "curl": []}
        for _ in range(7):
            for name in seconds:
                seconds[name] += run(program, name, server.base)
        medians = {name: statistics.median(values) for name, values in seconds.items()}
        for name, median in medians.items():
            print(f"{name:8} {median * 1e3:7.2f} ms a request of {SIZE} bytes")
        for name in ("openfm", "prompt"):
            print(f"{name} to curl: {medians[name] / medians['curl']:.2f} (bound: 1.3)")


def run(program: Path, name: str, base: str) -> list[float]:
    output = subprocess.run(
        [program, name, base, "load:chunks=1", str(SIZE), "10"],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    return [float(line) for line in output.split()]


main()
