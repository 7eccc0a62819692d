"""How far a run is: a bar by tqdm where that is installed, else lines of text."""

from __future__ import annotations

import importlib
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TextIO

__all__ = ["Progress", "Reporter", "reporter_for"]


@dataclass
class Progress:
    """The state of a run, as a progress function gets it."""

    total: int
    done: int = 0
    failed: int = 0
    #: Rows that wait to be asked again.
    retrying: int = 0
    #: Rows that came from the cache, or from an earlier, interrupted run.
    cached: int = 0
    resumed: int = 0
    output_tokens: int = 0
    #: Requests that may be under way at once, as the server bears them.
    limit: int = 0
    started_at: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started_at

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens of answers; None before the first count."""
        return self.output_tokens / self.seconds if self.output_tokens and self.seconds else None

    @property
    def eta(self) -> float | None:
        """Seconds that are left at this pace; None before the first row."""
        asked = self.done - self.resumed - self.cached
        if self.done >= self.total:
            return 0.0
        return (self.total - self.done) * self.seconds / asked if asked > 0 else None

    def __str__(self) -> str:
        parts = [f"{self.done}/{self.total}"]
        for name in ("failed", "retrying", "cached", "resumed"):
            count = getattr(self, name)
            if count:
                parts.append(f"{count} {name}")
        if self.tokens_per_second is not None:
            parts.append(f"{self.tokens_per_second:.0f} tokens/s")
        if self.done < self.total:
            parts.append("ETA unknown" if self.eta is None else f"ETA {_duration(self.eta)}")
        else:
            parts.append(f"in {_duration(self.seconds)}")
        return ", ".join(parts)


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


class Reporter:
    """Shows a Progress. ``update`` is called several times a second; shows nothing itself."""

    def update(self, progress: Progress) -> None:
        """Shows the state, if it is time to."""

    def close(self, progress: Progress) -> None:
        """Shows the last state."""


class _Lines(Reporter):
    """On a terminal one line that changes; else a new line now and then."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = bool(getattr(stream, "isatty", lambda: False)())
        self._interval = 0.2 if self._is_terminal else 10.0
        self._next = time.monotonic() + self._interval
        self._width = 0

    def update(self, progress: Progress) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + self._interval
            self._show(progress, "" if self._is_terminal else "\n")

    def close(self, progress: Progress) -> None:
        self._show(progress, "\n")

    def _show(self, progress: Progress, end: str) -> None:
        text = f"evaluate: {progress}"
        start = "\r" if self._is_terminal else ""
        try:
            self._stream.write(f"{start}{text:{self._width}}{end}")
            self._stream.flush()
        except (OSError, ValueError):
            # Nobody reads any more; the run is worth more than its progress.
            return
        self._width = len(text) if self._is_terminal else 0


class _Bar(Reporter):
    def __init__(self, tqdm: Any, total: int) -> None:
        self._bar = tqdm(total=total, desc="evaluate", unit="row", dynamic_ncols=True)

    def update(self, progress: Progress) -> None:
        self._bar.update(progress.done - self._bar.n)
        facts: dict[str, object] = {"failed": progress.failed, "retrying": progress.retrying}
        if progress.tokens_per_second is not None:
            facts["tokens/s"] = f"{progress.tokens_per_second:.0f}"
        self._bar.set_postfix(facts, refresh=False)

    def close(self, progress: Progress) -> None:
        self.update(progress)
        self._bar.refresh()
        self._bar.close()


class _Function(Reporter):
    def __init__(self, function: Callable[[Progress], object]) -> None:
        self._function = function

    def update(self, progress: Progress) -> None:
        self._function(progress)

    close = update


def reporter_for(progress: Any, total: int) -> Reporter:
    """What ``evaluate(progress=...)`` asks for: a bool, or a function of a Progress."""
    if not progress:
        return Reporter()
    if callable(progress):
        return _Function(progress)
    with warnings.catch_warnings():
        # In a notebook without its widgets tqdm warns, and shows text.
        warnings.simplefilter("ignore")
        try:
            tqdm = importlib.import_module("tqdm.auto").tqdm
        except ImportError:
            return _Lines(sys.stderr)
        return _Bar(tqdm, total)
