"""An event loop of the package's own, on a thread of its own, for those who have none or whose own
is running: a notebook cell, a plain script, a function called by either."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from ._native import process_generation

__all__ = ["run"]

_Result = TypeVar("_Result")


class _LoopThread:
    def __init__(self) -> None:
        self.generation = process_generation()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._main, name="openfm-sync", daemon=True)
        self.thread.start()
        # Before the library is shut down, whose own handler was registered earlier.
        atexit.register(self.stop)

    def _main(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
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
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join(timeout=2)


_lock = threading.Lock()
_current: _LoopThread | None = None


def _loop() -> asyncio.AbstractEventLoop:
    global _current
    with _lock:
        # In a forked child the parent's thread does not exist.
        if _current is None or _current.generation != process_generation():
            _current = _LoopThread()
        return _current.loop


def run(coroutine: Coroutine[Any, Any, _Result]) -> _Result:
    """Runs the coroutine on the package's loop and waits for it.

    May be called where a loop is running, which then stands still meanwhile. An interrupt of the
    waiting thread cancels the coroutine.
    """
    loop = _loop()
    if threading.current_thread() is (_current.thread if _current is not None else None):
        coroutine.close()
        raise RuntimeError("await the asynchronous method here; this is the event loop it runs on")
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    try:
        return future.result()
    except concurrent.futures.CancelledError:
        raise asyncio.CancelledError from None
    except BaseException:
        if not future.done():
            future.cancel()
        raise
