"""Runs the tools that the model calls during one request, on the request's event loop."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import json
import signal
import threading
from collections.abc import Mapping
from typing import Any

from ._ctypes_bindings import lib
from ._native import Handle
from ._threads import in_thread
from .errors import told
from .generable import GeneratedContent
from .prompt import Attachment, check_prompt, compose
from .tool import Tool

__all__ = ["ToolCalls", "turns_of_this_tool"]

# The turns that wait for the tool which this code is a part of: asking their sessions would never
# end.
turns_of_this_tool: contextvars.ContextVar[tuple[object, ...]] = contextvars.ContextVar(
    "openfm_turns_of_this_tool", default=()
)


class ToolCalls:
    """The calls of one request."""

    __slots__ = ("_context", "_errors", "_tasks", "_tools")

    def __init__(self, tools: Mapping[str, Tool], turn: object) -> None:
        self._tools = tools
        self._errors: dict[tuple[str, int], BaseException] = {}
        self._tasks: dict[tuple[str, int], asyncio.Task[None]] = {}
        # That of the task that asks: tools see its context variables.
        self._context = contextvars.copy_context()
        self._context.run(turns_of_this_tool.set, (*turns_of_this_tool.get(), turn))

    def start(self, payload: str) -> None:
        """Starts what an event asks for."""
        call = json.loads(payload)
        key = (call["tool"], call["call_id"])
        tool = self._tools[call["tool"]]
        content = GeneratedContent.from_json(json.dumps(call["arguments"]))
        loop = asyncio.get_running_loop()
        # A task takes a copy of the context it is made in; a keyword for that came with 3.11.
        task = self._context.run(loop.create_task, self._run(tool, key, content))
        self._tasks[key] = task
        task.add_done_callback(lambda task: self._ended(key, task))

    def cancel(self, payload: str) -> None:
        """Ends a call that nobody waits for any more."""
        call = json.loads(payload)
        task = self._tasks.get((call["tool"], call["call_id"]))
        if task is not None:
            task.cancel()

    def _ended(self, key: tuple[str, int], task: asyncio.Task[None]) -> None:
        self._tasks.pop(key, None)
        # An interrupt, which the loop itself has raised on: looked at, so that asyncio does not
        # print it once more as one that nobody took.
        if not task.cancelled():
            task.exception()

    def end(self) -> None:
        """The request is over."""
        for task in list(self._tasks.values()):
            task.cancel()

    def error_of(self, name: str, call_id: int) -> BaseException | None:
        """What a call raised; with it goes the traceback, which is given out once."""
        return self._errors.pop((name, call_id), None)

    async def _run(self, tool: Tool, key: tuple[str, int], content: GeneratedContent) -> None:
        handle = tool._handle()
        call_id = key[1]
        try:
            await _finish(handle, call_id, await _call(tool, content))
        except asyncio.CancelledError as error:
            # Cancelled by us, or raised by the tool: either way nobody may wait for it for ever.
            self._fail(handle, key, error, "the call was cancelled")
            raise
        except BaseException as error:
            # An exit too: a task that raises one takes its loop along, and with it every request.
            self._fail(handle, key, error, told(error))
            if isinstance(error, KeyboardInterrupt) and _is_of_the_user(error):
                raise

    def _fail(
        self, handle: Handle, key: tuple[str, int], error: BaseException, message: str
    ) -> None:
        self._errors[key] = error
        lib.FMBridgedToolFinishCallWithError(handle.address, key[1], _bytes(message))


async def _call(tool: Tool, content: GeneratedContent) -> Any:
    if inspect.iscoroutinefunction(tool.call):
        return await tool.call(content)
    result = await in_thread(_call_plain, tool, content)
    return await result if inspect.isawaitable(result) else result


def _is_of_the_user(error: KeyboardInterrupt) -> bool:
    """Whether it is an interrupt of the program, which came while the tool ran, and none that the
    tool raised itself. Python's own handler leaves no trace: there it is taken for the former."""
    if threading.current_thread() is not threading.main_thread():
        return False
    handler: Any = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        return True
    while isinstance(handler, functools.partial):
        handler = handler.func
    code = getattr(getattr(handler, "__func__", handler), "__code__", None)
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code is code:
            return True
        traceback = traceback.tb_next
    return False


def _call_plain(tool: Tool, content: GeneratedContent) -> Any:
    try:
        return tool.call(content)
    except StopIteration as error:
        # No future can carry it: who waits for the call would wait for ever.
        raise RuntimeError("the tool raised StopIteration") from error


async def _finish(handle: Handle, call_id: int, result: Any) -> None:
    holds_components = isinstance(result, list) and any(isinstance(c, Attachment) for c in result)
    if holds_components or isinstance(result, Attachment):
        with await compose(check_prompt(result)) as prompt:
            lib.FMBridgedToolFinishCallWithPrompt(handle.address, call_id, prompt.address)
    else:
        text = result if isinstance(result, str) else str(result)
        lib.FMBridgedToolFinishCall(handle.address, call_id, _bytes(text))


def _bytes(text: str) -> bytes:
    """UTF-8 that a C string can hold: a tool's output is data, and no reason to fail."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace")
