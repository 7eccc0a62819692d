"""What `import openfm` costs beyond the standard modules that it stands on.

Two fresh interpreters take turns: one imports asyncio, json, ctypes, pathlib, dataclasses and
typing, the other those and openfm. Each reports its own time from its first line to its last.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

STANDARD = "import asyncio, json, ctypes, pathlib, dataclasses, typing"
TIMED = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"


def measure(imports: str) -> float:
    run = subprocess.run(
        [sys.executable, "-c", TIMED.format(imports)], check=True, capture_output=True, text=True
    )
    return float(run.stdout)


def main() -> None:
    plain: list[float] = []
    ours: list[float] = []
    for _ in range(25):
        plain.append(measure(STANDARD))
        ours.append(measure(f"{STANDARD}; import openfm"))
    base, total = statistics.median(plain), statistics.median(ours)
    print(f"standard modules  {base * 1e3:7.1f} ms")
    print(f"with openfm       {total * 1e3:7.1f} ms  {total / base:.2f} x")
    print(f"openfm alone      {(total - base) * 1e3:7.1f} ms (at most 30 wanted)")


main()
