"""Measures ours and its peers in one run: in turn, repeatedly, as medians and ratios.

Machines are noisy. What is measured takes turns, so that a slow minute hits all alike; medians are
quoted; and the ratio to ours is the figure that means something.
"""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable
from typing import Any


def alternate(
    tasks: dict[str, Callable[[], object]],
    repeats: int,
    warm_up: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Runs every task `repeats` times, in turn, after `warm_up` unmeasured rounds; seconds each.

    `clock` is `time.process_time` where the processor's time counts.
    """
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for round_number in range(warm_up + repeats):
        for name, task in tasks.items():
            start = clock()
            task()
            elapsed = clock() - start
            if round_number >= warm_up:
                seconds[name].append(elapsed)
    return seconds


def report(
    seconds: dict[str, list[float]], ours: str, unit: str = "ms", scale: float = 1e3
) -> None:
    """One line a task: the median, the quartiles, and its ratio to ours."""
    base = statistics.median(seconds[ours])
    for name, values in seconds.items():
        median = statistics.median(values)
        low, _, high = statistics.quantiles(values, n=4)
        print(
            f"{name:24} {median * scale:9.2f} {unit}  "
            f"(quartiles {low * scale:.2f} to {high * scale:.2f}, n={len(values)})  "
            f"{median / base:5.2f} x ours"
        )


def end(process: subprocess.Popen[Any]) -> None:
    """Closes the program's standard input, at which those of the benchmarks end, and waits."""
    assert process.stdin is not None
    process.stdin.close()
    process.wait(10)
