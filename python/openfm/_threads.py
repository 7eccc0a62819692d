"""Functions of the caller that block, kept off the event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["in_thread"]


async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Awaits a call in a thread of its own, which sees the context variables of this task.

    Nothing can stop the call, but nobody waits for it either when the task is cancelled, its loop
    is closed or the interpreter ends: the threads of ``asyncio.to_thread`` are waited for then, so
    that a program with a tool that blocks could not be interrupted. Costs the start of a thread.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def work() -> None:
        result, error = None, None
        try:
            result = context.run(function, *arguments)
        except BaseException as failure:
            error = failure
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            # The loop was closed meanwhile; nobody waits for it.
            return

    threading.Thread(target=work, name="openfm-tool", daemon=True).start()
    return await future
