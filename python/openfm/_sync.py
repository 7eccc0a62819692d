"""An event loop of the package's own, on a thread of its own, for those who have none or whose own
is running: a notebook cell, a plain script, a function called by either."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from ._native import process_generation

__all__ = ["run"]

_Result = TypeVar("_Result")

# Seconds that an interrupted call gives its coroutine to end in, which takes some thousandths.
_GRACE = 0.5


class _LoopThread:
    def __init__(self) -> None:
        self.generation = process_generation()
        self.loop = asyncio.new_event_loop()
        self._is_stopping = False
        self.thread = threading.Thread(target=self._main, name="openfm-sync", daemon=True)
        self.thread.start()
        # Before the library is shut down, whose own handler was registered earlier.
        atexit.register(self.stop)

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            while not (self._is_stopping or self.loop.is_closed()):
                # An exit that a task raises goes through the loop, which goes on where it was: who
                # waits for the task has it, and the others of this loop are not concerned.
                with contextlib.suppress(BaseException):
                    self.loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            if tasks:
                self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    def stop(self) -> None:
        if self.generation == process_generation() and not self.loop.is_closed():
            self._is_stopping = True
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join(timeout=2)


_lock = threading.Lock()
_current: _LoopThread | None = None


def _loop() -> asyncio.AbstractEventLoop:
    global _current
    with _lock:
        # In a forked child the parent's thread does not exist.
        if (
            _current is None
            or _current.generation != process_generation()
            or not _current.thread.is_alive()
        ):
            _current = _LoopThread()
        return _current.loop


def run(coroutine: Coroutine[Any, Any, _Result]) -> _Result:
    """Runs the coroutine on the package's loop and waits for it.

    May be called where a loop is running, which then stands still meanwhile. An interrupt of the
    waiting thread cancels the coroutine; what it held is free again when the interrupt is raised.
    """
    loop = _loop()
    if threading.current_thread() is (_current.thread if _current is not None else None):
        coroutine.close()
        raise RuntimeError("await the asynchronous method here; this is the event loop it runs on")
    future: concurrent.futures.Future[_Result] = concurrent.futures.Future()
    tasks: list[asyncio.Task[_Result]] = []

    def begin() -> None:
        task = loop.create_task(coroutine)
        tasks.append(task)
        task.add_done_callback(settle)

    def settle(task: asyncio.Task[_Result]) -> None:
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            future.set_result(task.result())
        else:
            future.set_exception(error)

    def cancel() -> None:
        tasks[0].cancel()

    # With the context variables of the caller.
    loop.call_soon_threadsafe(begin)
    try:
        return future.result()
    except BaseException:
        if not future.done():
            loop.call_soon_threadsafe(cancel)
            concurrent.futures.wait((future,), timeout=_GRACE)
        raise
