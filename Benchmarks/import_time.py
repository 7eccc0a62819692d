"""What `import openfm` costs beyond the standard modules that it stands on.

Fresh interpreters take turns: one imports asyncio, json, ctypes, pathlib, dataclasses and typing,
another those and openfm, a third also makes a session, as every program does next. Each reports
its own time from its first line to its last, and its processor's time, which says more on a machine
that has other things to do. All find compiled modules, as pip leaves them.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

STANDARD = "import asyncio, json, ctypes, pathlib, dataclasses, typing"
OPENFM = f"{STANDARD}; import openfm"
SESSION = (
    f"{OPENFM}; openfm.LanguageModelSession("
    "model=openfm.ChatCompletionsLanguageModel('http://127.0.0.1:9/v1', 'any'))"
)
TIMED = (
    "import time; t, p = time.perf_counter(), time.process_time(); {}; "
    "print(time.perf_counter() - t, time.process_time() - p)"
)


def measure(statements: str, environment: dict[str, str]) -> tuple[float, float]:
    command = [sys.executable, "-c", TIMED.format(statements)]
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    elapsed, processor = map(float, run.stdout.split())
    return elapsed, processor


def main() -> None:
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        measure(SESSION, environment)
        times: dict[str, list[tuple[float, float]]] = {STANDARD: [], OPENFM: [], SESSION: []}
        for _ in range(25):
            for statements, taken in times.items():
                taken.append(measure(statements, environment))
    base, package, session = (
        [statistics.median(values) * 1e3 for values in zip(*taken, strict=True)]
        for taken in times.values()
    )
    for name, more, less, wanted in (
        ("standard modules", base, [0.0, 0.0], ""),
        ("openfm beyond them", package, base, " (at most 30 wanted)"),
        ("first session beyond it", session, package, " (at most 20 wanted)"),
    ):
        print(
            f"{name:24} {more[0] - less[0]:7.1f} ms, of the processor {more[1] - less[1]:7.1f} ms"
            f"{wanted}"
        )


main()
