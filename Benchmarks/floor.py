"""Runs floor.c, so that it can take turns with what is measured against it."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

from harness import end

SOURCE = Path(__file__).with_name("floor.c")


class Floor:
    """One ``floor`` process with its file in memory; ``run`` is one run of it."""

    def __init__(self, work: str, path: Path, *arguments: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        program = Path(self._folder.name, "floor")
        subprocess.run(["cc", "-O2", str(SOURCE), "-o", str(program), "-ljpeg"], check=True)
        self._process = subprocess.Popen(
            [str(program), work, str(path), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        if not self._process.stdout.readline():
            raise RuntimeError("floor.c ended; it cannot read the file")

    def __enter__(self) -> Floor:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        end(self._process)
        self._folder.cleanup()
