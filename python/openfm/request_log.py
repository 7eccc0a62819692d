"""What goes over the wire: a record of each request, and a file of requests and answers.

Neither holds keys, and pictures only by their sizes and hashes. The environment does the same
without a call: ``OPENFM_LOG=debug`` prints a line a request on standard error,
``OPENFM_RECORD=PATH`` records.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _events
from ._ctypes_bindings import lib
from ._native import last_error, take_json

__all__ = ["RequestRecord", "record_requests", "set_request_log", "take_request_log"]


@dataclass(frozen=True)
class RequestRecord:
    """One request that is over. None = unknown, or it did not come to that.

    ``images`` are the pictures sent, as (width, height, bytes). ``failure`` says why there is no
    answer. ``str()`` gives all of it as one line.
    """

    method: str
    url: str
    model: str | None
    status: int | None
    request_bytes: int
    response_bytes: int
    images: tuple[tuple[int, int, int], ...]
    seconds_to_head: float | None
    seconds_to_first_token: float | None
    seconds_to_end: float
    retries: int
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None
    finish_reason: str | None
    failure: str | None
    line: str

    def __str__(self) -> str:
        return self.line


def set_request_log(handler: Callable[[RequestRecord], object] | None) -> None:
    """Has ``handler`` called with a record when a request is over; None ends it.

    It is called by the event loop that the request runs on, before its result is delivered. What it
    raises goes to the loop's exception handler.
    """
    if handler is None:
        _events.after_request = None
        lib.FMRequestLogKeep(False)
        return

    def deliver() -> None:
        for record in take_request_log():
            handler(record)

    lib.FMRequestLogKeep(True)
    _events.after_request = deliver


def take_request_log() -> list[RequestRecord]:
    """The records that no handler got yet, oldest first, at most 1,000; for use while a handler is
    set and no loop runs."""
    return [_record(members) for members in take_json(lib.FMRequestLogTakeJSON()) or []]


def record_requests(path: str | os.PathLike[str] | None) -> None:
    """Appends every request and its answer to a file, a JSON object a line; None ends it.

    The members are ``time``, ``record``, ``request`` and ``response``. Raises InvalidArgumentError
    when the file cannot be opened.
    """
    name = None if path is None else os.fsencode(path)
    if not lib.FMRequestLogRecord(name, None, None):
        raise last_error()


def _record(members: dict[str, Any]) -> RequestRecord:
    tokens = members["tokens"]
    return RequestRecord(
        method=members["method"],
        url=members["url"],
        model=members["model"],
        status=members["status"],
        request_bytes=members["request_bytes"],
        response_bytes=members["response_bytes"],
        images=tuple((i["width"], i["height"], i["byte_count"]) for i in members["images"]),
        seconds_to_head=members["seconds_to_head"],
        seconds_to_first_token=members["seconds_to_first_token"],
        seconds_to_end=members["seconds_to_end"],
        retries=members["retries"],
        prompt_tokens=tokens["prompt"],
        completion_tokens=tokens["completion"],
        cached_tokens=tokens["cached"],
        reasoning_tokens=tokens["reasoning"],
        finish_reason=members["finish_reason"],
        failure=members["failure"],
        line=members["line"],
    )
