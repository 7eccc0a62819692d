"""What `import openfm` costs beyond the standard modules that it stands on.

Fresh interpreters take turns: one imports asyncio, json, ctypes, pathlib, dataclasses and typing,
another those and openfm, a third also makes a session, as every program does next. Each reports
its own time from its first line to its last. All find compiled modules, as pip leaves them.
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
TIMED = "import time; t = time.perf_counter(); {}; print(time.perf_counter() - t)"


def measure(statements: str, environment: dict[str, str]) -> float:
    command = [sys.executable, "-c", TIMED.format(statements)]
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return float(run.stdout)


def main() -> None:
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        measure(SESSION, environment)
        times: dict[str, list[float]] = {STANDARD: [], OPENFM: [], SESSION: []}
        for _ in range(25):
            for statements, taken in times.items():
                taken.append(measure(statements, environment))
    base, package, session = (statistics.median(taken) for taken in times.values())
    print(f"standard modules        {base * 1e3:7.1f} ms")
    print(f"openfm beyond them      {(package - base) * 1e3:7.1f} ms (at most 30 wanted)")
    print(f"first session beyond it {(session - package) * 1e3:7.1f} ms (at most 20 wanted)")


main()
