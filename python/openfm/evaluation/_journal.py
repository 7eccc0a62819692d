"""The file of a run: every row as it arrives, one JSON object a line.

The first line describes the run (``"type": "run"``), each other one a row (``"type": "row"``). A
row that was tried again has more lines, and the last one counts; when a run comes to its end, the
file is put in order: one line a row, in the order of the cases. What a crash left is a file that is
whole up to some line: half a line is cut off, lines that a power cut damaged are dropped, and the
rows in them are asked again. So the file can be read with ``jq`` at any time.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from ._errors import EvaluationError, UnwritableError
from ._files import is_replaceable, writing
from ._row import Row
from ._values import dumps

__all__ = ["Journal", "read_journal"]

_FORMAT: Final = 1
# What a power cut may take away, in seconds of work.
_SYNC_INTERVAL: Final = 2.0


class Journal:
    """An open file of a run. Only one process may have it."""

    def __init__(self, path: Path, run: Mapping[str, Any]) -> None:
        """Opens the file, or makes it; reads the rows it has.

        Raises EvaluationError where it belongs to another run, is no such file, or is in use.
        """
        self.path = path
        #: The newest row for each (key, repeat) that the file had.
        self.rows: dict[tuple[str, int], Row] = {}
        self._superseded = False
        self._synced_at = time.monotonic()
        self._run = {"type": "run", "format": _FORMAT, **run}
        try:
            if not path.is_dir() and not is_replaceable(path):
                raise EvaluationError(
                    f"cannot write the results to {path}: it is no regular file, and a run goes on "
                    "from what is in its file; name another one"
                )
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
        except OSError as error:
            raise UnwritableError(f"cannot write the results to {path}: {error.strerror}") from None
        try:
            self._lock()
            self._load()
        except BaseException:
            os.close(self._descriptor)
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EvaluationError(
                f"another evaluation is writing to {self.path}; wait for it, or give another out="
            ) from None
        except OSError:
            # A file system without locks: the run is worth more than this protection.
            pass

    def _load(self) -> None:
        # Its own end only: what is read is what will be there.
        with open(self.path, "rb") as file:
            data = file.read()
        if not data:
            self._append(self._run)
            self._sync()
            return
        run, rows, damaged = _parse(self.path, data)
        if run is None:
            # Nothing was answered before the crash: not even the first line is whole.
            self._replace([])
            return
        _check_same(self.path, run, self._run)
        for row in rows:
            place = (row.key, row.repeat)
            self._superseded |= place in self.rows
            self.rows[place] = row
        if damaged:
            self._replace(list(self.rows.values()))

    # -- Writing

    def add(self, row: Row) -> None:
        """Appends a row. It is in the file when this returns, and on the disk soon after."""
        place = (row.key, row.repeat)
        self._superseded |= place in self.rows
        self.rows[place] = row
        self._append({"type": "row", **row.to_dict()})
        if time.monotonic() - self._synced_at > _SYNC_INTERVAL:
            self._sync()

    def finish(self, rows: Iterable[Row]) -> None:
        """Puts the file in order where rows were tried again: one line a row. Rows of cases that
        this run did not have come last."""
        if self._superseded:
            ordered = {(row.key, row.repeat): row for row in rows}
            self._replace(list({**ordered, **self.rows}.values()))
            self._superseded = False

    def close(self) -> None:
        if self._descriptor >= 0:
            self._sync()
            os.close(self._descriptor)
            self._descriptor = -1

    def _append(self, members: Mapping[str, Any]) -> None:
        data = _line(members)
        try:
            # One call, so that no other line can come between its parts.
            written = os.write(self._descriptor, data)
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
        except OSError as error:
            raise UnwritableError(
                f"cannot write the results to {self.path}: {error.strerror}; what was written is "
                "kept, and the same call goes on from there"
            ) from None

    def _sync(self) -> None:
        self._synced_at = time.monotonic()
        try:
            os.fdatasync(self._descriptor)
        except OSError:
            # A pipe or a file system that cannot; the lines themselves are written.
            pass

    def _replace(self, rows: list[Row]) -> None:
        """Writes the file anew, whole or not at all."""
        descriptor = -1
        try:
            with writing(self.path) as file:
                file.write(_line(self._run))
                for row in rows:
                    file.write(_line({"type": "row", **row.to_dict()}))
                descriptor = os.dup(file.fileno())
        except BaseException as error:
            if descriptor >= 0:
                os.close(descriptor)
            if isinstance(error, OSError):
                raise EvaluationError(
                    f"cannot put the results of {self.path} in order: {error.strerror}"
                ) from None
            raise
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._lock()


def read_journal(path: Path) -> tuple[Mapping[str, Any], list[Row]]:
    """The run and the newest line of each row, in the cases' order. Raises EvaluationError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise EvaluationError(f"cannot read the results of {path}: {error.strerror}") from None
    run, rows, _ = _parse(path, data)
    if run is None:
        raise EvaluationError(f"{path} holds no results")
    newest = {(row.key, row.repeat): row for row in rows}
    return run, sorted(newest.values(), key=lambda row: (row.index, row.repeat))


def _line(members: Mapping[str, Any]) -> bytes:
    # Not sorted: the members stay in the order that reads best.
    text = json.dumps(members, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"


def _parse(path: Path, data: bytes) -> tuple[Mapping[str, Any] | None, list[Row], bool]:
    """The run's line, the rows, and whether something was damaged."""
    run: Mapping[str, Any] | None = None
    rows: list[Row] = []
    damaged = not data.endswith(b"\n")
    # What follows the last line's end can be a whole line too.
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        try:
            value = json.loads(line)
            kind = value["type"]
        except (ValueError, KeyError, TypeError, RecursionError):
            beginning = b'{"type":"run"'
            if (
                number == 1
                and line.strip(b"\0")
                and not (len(lines) == 1 and line[: len(beginning)] == beginning[: len(line)])
            ):
                raise EvaluationError(f"{path} is no file of results; give another out=") from None
            damaged = True
            continue
        if number == 1 and kind != "run":
            raise EvaluationError(f"{path} is no file of results; give another out=")
        if kind == "run":
            run = run or value
        elif kind == "row":
            try:
                rows.append(Row.from_dict(value))
            except (KeyError, TypeError, ValueError, AttributeError):
                damaged = True
    if run is None and rows:
        raise EvaluationError(f"{path} is no file of results; give another out=")
    if run is not None and run.get("format") != _FORMAT:
        raise EvaluationError(
            f"{path} was written by another version of openfm (format {run.get('format')}); give "
            "another out="
        )
    return run, rows, damaged


# What makes a run another one, and how to say it.
_IDENTITY: Final = {
    "prompt": "another prompt",
    "model": "another model",
    "instructions": "other instructions",
    "options": "other options",
    "schema": "another schema",
    "tools": "other tools",
    "session": "sessions made otherwise",
}


def _check_same(path: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    changed = [
        words
        for name, words in _IDENTITY.items()
        if dumps(old.get(name)) != dumps(json.loads(dumps(new.get(name))))
    ]
    if changed:
        raise EvaluationError(
            f"{path} holds a run with {' and '.join(changed)}, and rows of two runs must not be "
            "mixed; give another out=, or remove the file"
        )
