"""C programs for benchmarks: a server that costs next to nothing, and peers without a runtime."""

from __future__ import annotations

import asyncio
import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType

from harness import end

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / ".build/openfm/lib"


def chat_request(model: str, prompt: str) -> dict[str, object]:
    """What a session sends for a first prompt, for peers that send it themselves."""
    return {
        "model": model,
        "messages": [{"role": "user", "content": prompt}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


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
        end(self._process)


class KeepAwake:
    """keep_awake.c for the length of the block: no processor goes idle meanwhile."""

    def __init__(self, programs: Programs) -> None:
        self._program = programs.compile("keep_awake", "-pthread")

    def __enter__(self) -> None:
        self._process = subprocess.Popen([self._program], stdin=subprocess.PIPE)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        end(self._process)


def chunk_costs(
    program: Path, base: str, chunks: int, repeats: int, *, columns: tuple[int, int], expected: int
) -> list[float]:
    """Processor time in us a chunk, of each of a program's streams. It prints a line a stream, of
    which one column is what it received and must be `expected`, another the seconds."""
    output = subprocess.run(
        [program, base, f"load:chunks={chunks}", str(repeats)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    costs = []
    for line in output.splitlines():
        words = line.split()
        received, seconds = (words[column] for column in columns)
        assert int(received) == expected, f"{received} where {chunks} chunks make {expected}"
        costs.append(float(seconds) / chunks * 1e6)
    return costs


class RawPath:
    """raw_path.c: the least that it takes from a socket to a coroutine, without HTTP and JSON."""

    def __init__(self, programs: Programs) -> None:
        self._library = ctypes.CDLL(
            str(programs.compile("raw_path", "-shared", "-fPIC", "-pthread"))
        )

    async def stream(self, port: int, model: str) -> AsyncIterator[bytes]:
        """What arrives, in the pieces it arrives in, up to [DONE]."""
        body = f'{{"model":"{model}"}}'.encode()
        head = "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: "
        request = f"{head}{len(body)}\r\n\r\n".encode() + body
        loop = asyncio.get_running_loop()
        event = self._library.raw_start(port, request, ctypes.c_size_t(len(request)))
        if event < 0:
            raise RuntimeError("no connection")
        buffer = ctypes.create_string_buffer(1 << 20)
        arrivals: asyncio.Queue[bytes] = asyncio.Queue()

        def take() -> None:
            count = self._library.raw_take(buffer, ctypes.c_size_t(len(buffer)))
            arrivals.put_nowait(ctypes.string_at(buffer, count))

        loop.add_reader(event, take)
        try:
            data = b""
            while b"[DONE]" not in data:
                data = await arrivals.get()
                yield data
        finally:
            loop.remove_reader(event)
            self._library.raw_end()
