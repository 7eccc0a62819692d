"""C programs for benchmarks: a server that costs next to nothing, and peers without a runtime."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / ".build/openfm/lib"


class Programs:
    """A folder of programs compiled from Benchmarks/*.c, gone at the end of the block."""

    def __enter__(self) -> Programs:
        self._folder = Path(tempfile.mkdtemp(prefix="openfm-bench-"))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        shutil.rmtree(self._folder)

    def compile(self, name: str, *options: str) -> Path:
        program = self._folder / name
        source = ROOT / "Benchmarks" / f"{name}.c"
        subprocess.run(
            ["gcc", "-O2", "-Wall", "-Wextra", "-o", program, source, *options], check=True
        )
        return program

    def compile_with_library(self, name: str, *options: str) -> Path:
        return self.compile(
            name,
            f"-I{ROOT / 'include'}",
            f"-L{LIBRARY}",
            "-lFoundationModels",
            f"-Wl,-rpath,{LIBRARY}",
            *options,
        )


class LoadServer:
    """load_server.c as a process of its own."""

    def __init__(self, programs: Programs) -> None:
        self._program = programs.compile("load_server")

    def __enter__(self) -> LoadServer:
        self._process = subprocess.Popen(
            [self._program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self.base = f"http://127.0.0.1:{self.port}/v1"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)
