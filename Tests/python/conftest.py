"""The scripted server, pictures, and what the library still holds, for all tests of the package."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from PIL import Image, ImageDraw

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "Tests/server"), str(ROOT / "python")]
# Where the tests run in the background, interrupts are ignored, and so they would be in the
# programs that the tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
# The machine's own settings must not decide what a test talks to; those of the tests stay.
_KEPT = ("OPENFM_LIBRARY", "OPENFM_BUILD_DIR", "OPENFM_SEED", "OPENFM_SOAK", "OPENFM_TEST_")
for _name in [name for name in os.environ if name.startswith("OPENFM_")]:
    if not _name.startswith(_KEPT):
        del os.environ[_name]

import openfm as fm  # noqa: E402
from scripted_server import ScriptedServer  # noqa: E402

Models = Callable[..., fm.ChatCompletionsLanguageModel]


@pytest.fixture(scope="session")
def running_server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server


@pytest.fixture
def server(running_server: ScriptedServer) -> ScriptedServer:
    """The server, with an empty log."""
    running_server.clear()
    return running_server


@pytest.fixture
def model(server: ScriptedServer) -> Models:
    """``model("slow-stream", chunks=3)``: a model that the server plays that scenario for."""

    def make(scenario: str = "echo", **options: object) -> fm.ChatCompletionsLanguageModel:
        query = f"?{urlencode(options)}" if options else ""
        return fm.ChatCompletionsLanguageModel(
            server.base_url,
            f"scenario:{scenario}{query}",
            supports_images=True,
            context_size=4096,
            server="llama.cpp",
            max_retries=0,
        )

    return make


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """A small JPEG, wider than high, stored turned: orientation 6."""
    path = tmp_path / "arrow.jpg"
    image = Image.new("RGB", (64, 48), "white")
    ImageDraw.Draw(image).polygon([(4, 24), (32, 4), (32, 44)], fill="red")
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(path, quality=90, exif=exif)
    return path


@pytest.fixture
def records() -> Iterator[list[fm.RequestRecord]]:
    """What is told of the requests of the test."""
    seen: list[fm.RequestRecord] = []
    fm.set_request_log(seen.append)
    yield seen
    fm.set_request_log(None)


class Live:
    """Counts of the library's live objects, by kind of ``FMObjectKind``."""

    KINDS = (
        "any",
        "model",
        "session",
        "prompt",
        "task",
        "stream",
        "content",
        "queue",
        "image",
        "tool",
    )

    def now(self) -> dict[str, int]:
        return {name: fm.debug_live_objects(kind) for kind, name in enumerate(self.KINDS)}

    def settle(self, wanted: dict[str, int], timeout: float = 3.0) -> dict[str, int]:
        """The counts, once they are no more than wanted or the time is over."""
        deadline = time.monotonic() + timeout
        while True:
            gc.collect()
            counts = self.now()
            if all(counts[name] <= most for name, most in wanted.items()):
                return counts
            if time.monotonic() > deadline:
                return counts
            time.sleep(0.01)

    async def settled(self, *kinds: str, timeout: float = 3.0) -> None:
        """Inside a loop: waits until none of those kinds is left, and fails if some are."""
        deadline = time.monotonic() + timeout
        while any(self.now()[kind] for kind in kinds):
            gc.collect()
            assert time.monotonic() < deadline, self.now()
            await asyncio.sleep(0.01)


@pytest.fixture
def live() -> Live:
    gc.collect()
    return Live()


@pytest.fixture(autouse=True)
def nothing_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test gives back every prompt, task, stream and content it made."""
    kinds = {"prompt": 0, "task": 0, "stream": 0, "content": 0, "image": 0}
    yield
    left = Live().settle(kinds)
    assert {name: left[name] for name in kinds} == kinds
