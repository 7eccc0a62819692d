"""A headless Chromium, driven over its debugging pipe with nothing but the standard library."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest


def chromium() -> str:
    """The browser's program. Without one the test fails, unless it was told to go without."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    if os.environ.get("OPENFM_TEST_BROWSER") == "none":
        pytest.skip("OPENFM_TEST_BROWSER=none: no browser here")
    raise AssertionError(
        "the reports are tested in a real browser; scripts/setup installs Debian's chromium "
        "(OPENFM_TEST_BROWSER=none goes without)"
    )


class Browser:
    """One page. Keeps every event, so that requests and exceptions can be counted afterwards."""

    def __enter__(self) -> Browser:
        program = chromium()
        self._profile = tempfile.mkdtemp(prefix="openfm-browser-")
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        # The browser reads descriptor 3 and writes descriptor 4.
        script = f'exec 3<&{to_browser} 4>&{from_browser}; exec "$@"'
        self._process = subprocess.Popen(
            [
                "bash", "-c", script, "bash", program, "--headless=new", "--no-sandbox",
                "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--mute-audio",
                "--disable-background-networking", "--disable-component-update",
                f"--user-data-dir={self._profile}", "--remote-debugging-pipe", "about:blank",
            ],
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._session = None
            self.call("Browser.close")
            self._process.wait(10)
        except Exception:
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self._profile, ignore_errors=True)

    def call(self, method: str, **parameters: Any) -> Any:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data) :]
        while True:
            answer = self._receive(60)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _receive(self, timeout: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0, deadline - time.monotonic()))
            assert ready, "the browser says nothing"
            data = os.read(self._read, 1 << 20)
            assert data, "the browser ended"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        value: dict[str, Any] = json.loads(message)
        return value

    def open(self, path: Path) -> None:
        """Loads a file and waits until all of it is there."""
        self.events.clear()
        loader = self.call("Page.navigate", url=path.resolve().as_uri())["loaderId"]

        def loaded() -> bool:
            return any(
                event["method"] == "Page.lifecycleEvent"
                and (event["params"]["name"], event["params"]["loaderId"]) == ("load", loader)
                for event in self.events
            )

        while not loaded():
            self.events.append(self._receive(60))

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited where it is a promise."""
        found = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def requests(self) -> list[str]:
        """What the page asked for, the page itself and what it carries within left out."""
        urls = [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
            and event["params"].get("type") != "Document"
        ]
        return [url for url in urls if not url.startswith("data:")]

    def complaints(self) -> list[str]:
        """Exceptions, and what the policy of the page forbade."""
        found = []
        for event in self.events:
            if event["method"] == "Runtime.exceptionThrown":
                found.append(event["params"]["exceptionDetails"]["text"])
            elif event["method"] == "Log.entryAdded":
                found.append(event["params"]["entry"]["text"])
        return found
