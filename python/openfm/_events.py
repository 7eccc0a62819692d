"""The library's event queue as asyncio sees it.

Each running loop gets one queue, whose descriptor the loop watches. Requests are started "on" it,
and their events are moved over in batches, by the loop's own thread: the library never calls into
Python.

Who keeps whom: the loop keeps its queue, by the reader registered for the descriptor, and nothing
else does. When the loop is closed the queue goes, with every request that was still running; their
results are dropped.
"""

from __future__ import annotations

import asyncio
import ctypes
import functools
import itertools
import json
import struct
import threading
import time
import weakref
from array import array
from collections.abc import Callable
from typing import Any, Final

from ._ctypes_bindings import lib
from ._native import Handle, check_not_forked, is_exiting, process_generation
from ._tool_calls import ToolCalls
from .errors import FoundationModelsError, GenerationErrorCode, ToolCallError, error_for

__all__ = ["EventQueue", "Request"]

_DELTA: Final = 1
_REPLACE: Final = 2
_CONTENT: Final = 3
_METADATA: Final = 4
_END: Final = 5
_TOOL_CALL: Final = 6
_TOOL_CANCELLED: Final = 7

_HEADER: Final = struct.Struct("=IIQiI")
_HEADER_SIZE: Final = _HEADER.size
# Room for some hundred deltas. A larger single event gets a buffer of its own.
_CAPACITY: Final = 1 << 16

# A single event of up to so many bytes leaves its buffer for the next ones.
_LARGEST_KEPT: Final = 1 << 20
# Characters that may wait for a reader, beyond which its server has to wait too.
_HIGH_WATER: Final = 1 << 18

# Pieces that came together are made a snapshot each, for a reader who keeps up with them: as long
# as fewer than so many wait, which is when the library joins them,
_MOST_STEPS: Final = 64
# the first of them came at most so many seconds ago,
_LONGEST_WAIT: Final = 0.01
# and the snapshots of all of them hold no more characters than this: each is a copy of its own.
_MOST_COPIED: Final = 1 << 20

# How long a cancelled request may take to end before its session goes on without it, in seconds.
CANCEL_TIMEOUT: Final = 1.0

# Called by a loop when requests of it are over, before their results are delivered.
after_request: Callable[[], None] | None = None

_now = time.monotonic

# Never an id(): the address of a collected object is soon another's.
_tokens = itertools.count(1)


class Request:
    """One request under way: what has arrived of it, and a way to wait for more.

    Belongs to the loop it was started on. Only that loop's thread touches it;
    ``cancel`` may come from any.
    """

    __slots__ = (
        "__weakref__",
        "_arrival",
        "_backlog",
        "_is_paused",
        "_text",
        "_waiter",
        "_waiters",
        "content",
        "done",
        "error",
        "metadata",
        "pending",
        "task",
        "tool_calls",
    )

    def __init__(self, tool_calls: ToolCalls | None = None) -> None:
        self.task: Handle | None = None
        self.tool_calls = tool_calls
        self.done = False
        self.error: FoundationModelsError | None = None
        self.content: str | None = None
        self.metadata: str | None = None
        self._text = ""
        #: The text that came and was not taken yet, in pieces.
        self.pending: list[str] = []
        # When the first of them came, by the monotonic clock.
        self._arrival = 0.0
        # Characters in `pending`, but for the first piece.
        self._backlog = 0
        self._is_paused = False
        # Mostly one waits; the others are in the list.
        self._waiter: asyncio.Future[None] | None = None
        self._waiters: list[asyncio.Future[None]] = []

    def receive_delta(self, text: str) -> None:
        """Takes a piece of the answer's text. What is done here is done for every chunk."""
        pending = self.pending
        if pending:
            self._backlog += len(text)
            if self._backlog > _HIGH_WATER:
                self._set_paused(True)
        else:
            self._arrival = _now()
        pending.append(text)
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)
        if self._waiters:
            self._wake()

    def receive(self, kind: int, status: int, payload: str) -> None:
        """Takes any other event of the queue."""
        if kind == _REPLACE:
            self._text = ""
            self.pending = [payload]
            self._arrival = _now()
            self._backlog = 0
            self._set_paused(False)
        elif kind == _CONTENT:
            self.content = payload
        elif kind == _METADATA:
            self.metadata = payload
        elif kind == _TOOL_CALL and self.tool_calls is not None:
            self.tool_calls.start(payload)
            return
        elif kind == _TOOL_CANCELLED and self.tool_calls is not None:
            self.tool_calls.cancel(payload)
            return
        elif kind == _END:
            self.done = True
            tool_calls, self.tool_calls = self.tool_calls, None
            if status != 0:
                self.error = _error_of(status, payload, tool_calls)
            if tool_calls is not None:
                tool_calls.end()
            task, self.task = self.task, None
            if task is not None:
                task.release()
        else:
            return
        self._wake()

    def _wake(self) -> None:
        waiters, self._waiters = self._waiters, []
        if self._waiter is not None:
            waiters.append(self._waiter)
            self._waiter = None
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def take_delta(self) -> str:
        """The text that came since the last time. Costs what it holds, however long the answer."""
        pending = self.pending
        delta = pending[0] if len(pending) == 1 else "".join(pending)
        pending.clear()
        if self._backlog:
            self._backlog = 0
            self._set_paused(False)
        return delta

    def _set_paused(self, paused: bool) -> None:
        task = self.task
        if paused is not self._is_paused and task is not None:
            self._is_paused = paused
            lib.FMTaskSetPaused(task.address, paused)

    def take_snapshot(self) -> str:
        """The whole text so far."""
        self._text += self.take_delta()
        return self._text

    def take_step(self) -> str:
        """The text up to the next piece; or the whole of it, for a reader who is behind."""
        pending = self.pending
        count = len(pending)
        if count == 1 and not self._backlog:
            # As mostly: nothing is left to be kept.
            self._text += pending.pop()
            return self._text
        if (
            count == 1
            or count >= _MOST_STEPS
            or count * len(self._text) > _MOST_COPIED
            or _now() - self._arrival > _LONGEST_WAIT
        ):
            return self.take_snapshot()
        self._text += pending.pop(0)
        self._backlog -= len(pending[0])
        if self._is_paused and self._backlog <= _HIGH_WATER:
            self._set_paused(False)
        return self._text

    @property
    def text(self) -> str:
        """The text that ``take_snapshot`` gave last."""
        return self._text

    def next_event(self) -> asyncio.Future[None]:
        """Done when another event came."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._waiter is None or self._waiter.done():
            self._waiter = waiter
        else:
            self._waiters.append(waiter)
        return waiter

    async def wait(self) -> None:
        """Returns when another event came."""
        await self.next_event()

    def cancel(self) -> None:
        """Asks the library to stop. The end still comes, through the queue."""
        task = self.task
        if task is not None and not task.is_released:
            lib.FMTaskCancel(task.address)

    async def cancel_and_wait(self) -> None:
        """Stops the request and waits for its end, for at most CANCEL_TIMEOUT."""
        self.cancel()
        await self.wait_for_end(CANCEL_TIMEOUT)

    async def wait_for_end(self, timeout: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while not self.done and (left := deadline - loop.time()) > 0:
            waiter = self.next_event()
            # Not wait_for, which would cancel the future and so say nothing about the time.
            await asyncio.wait((waiter,), timeout=left)

    async def finish(self) -> str:
        """The whole answer, once it is there; stops the request when the caller is cancelled."""
        try:
            while not self.done:
                await self.wait()
        except asyncio.CancelledError:
            await self.cancel_and_wait()
            raise
        except BaseException:
            # GeneratorExit: the coroutine is thrown away, and may not wait any more.
            self.cancel()
            raise
        self.raise_error()
        return self.content or ""

    def raise_error(self) -> None:
        """Raises what the request failed with, if it did."""
        error, self.error = self.error, None
        if error is not None:
            try:
                raise error
            finally:
                # The error's traceback holds this frame: no circle, which only the collector opens.
                del error


def _error_of(status: int, payload: str, tool_calls: ToolCalls | None) -> FoundationModelsError:
    try:
        details = json.loads(payload)
    except ValueError:
        details = {"message": payload}
    if not isinstance(details, dict):
        details = {}
    message = details.pop("message", None) or f"the request failed with status {status}"
    if status == GenerationErrorCode.TOOL_CALL and tool_calls is not None:
        name = str(details.get("tool_name"))
        cause = tool_calls.error_of(name, details.get("call_id", 0))
        if cause is not None:
            error = ToolCallError(name, cause, code=status, details=details)
            error.__cause__ = cause
            return error
    return error_for(status, message, details)


class EventQueue:
    """The queue of one loop. Get it with ``EventQueue.of_running_loop()``."""

    __slots__ = (
        "__weakref__",
        "_buffer",
        "_descriptor",
        "_generation",
        "_handle",
        "_requests",
    )

    def __init__(self) -> None:
        self._requests: dict[int, Request] = {}
        self._generation = process_generation()
        self._handle = Handle(lib.FMEventQueueCreate())
        self._descriptor = lib.FMEventQueueGetFileDescriptor(self._handle.address)
        self._buffer = _Buffer(_CAPACITY, self._handle)

    @classmethod
    def of_running_loop(cls) -> EventQueue:
        """The queue of the loop that runs in this thread; made at first use."""
        loop = asyncio.get_running_loop()
        with _queues_lock:
            reference = _queues.get(loop)
            queue = reference() if reference is not None else None
            if queue is None:
                queue = cls()
                loop.add_reader(queue._descriptor, queue._drain)
                _queues[loop] = weakref.ref(queue)
        check_not_forked(queue._generation)
        return queue

    def start(
        self,
        session: Handle,
        prompt: Handle,
        *,
        schema: bytes | None,
        options: bytes | None,
        stream: bool,
        tool_calls: ToolCalls | None = None,
    ) -> Request:
        """Starts a request. The prompt is captured; the caller may release it afterwards."""
        function = (
            lib.FMLanguageModelSessionStreamOnQueue
            if stream
            else lib.FMLanguageModelSessionRespondOnQueue
        )
        request = Request(tool_calls)
        return self._start(request, function, session.address, prompt.address, schema, options)

    def ask(self, function: Any, *arguments: Any) -> Request:
        """Starts what is no request of a session: its content is what the function gives."""
        return self._start(Request(), function, *arguments)

    def _start(self, request: Request, function: Any, *arguments: Any) -> Request:
        token = next(_tokens)
        # Before the call: its events can be in the queue when it returns.
        self._requests[token] = request
        try:
            request.task = Handle(function(*arguments, self._handle.address, token, None, None))
        except BaseException:
            del self._requests[token]
            raise
        return request

    def _drain(self) -> None:
        """Moves what is in the queue, a buffer at a time; the loop calls again if more is left."""
        buffer = self._buffer
        count = buffer.fill()
        if count == 0:
            check_not_forked(self._generation)
            if needed := buffer.needed.value:
                # Larger than the buffer.
                buffer = _Buffer(needed, self._handle)
                if needed <= _LARGEST_KEPT:
                    self._buffer = buffer
                count = buffer.fill()
        # What is looked up for every chunk is looked up once a batch.
        view = buffer.view
        unpack = _HEADER.unpack_from
        requests = self._requests
        offset = 0
        while offset < count:
            size, kind, token, status, length = unpack(view, offset)
            start = offset + _HEADER_SIZE
            offset += size
            request = requests.get(token)
            if request is None:
                continue
            text = str(view[start : start + length], "utf-8", "replace")
            if kind == _DELTA:
                request.receive_delta(text)
                continue
            # Asked now, not before: the ends that the exit brings about come after it is told.
            if is_exiting():
                asyncio.get_running_loop().remove_reader(self._descriptor)
                return
            if kind == _END:
                del requests[token]
                if after_request is not None:
                    _call_after_request()
            request.receive(kind, status, text)

    def __del__(self) -> None:
        # The loop was closed. Nobody will read what still comes.
        for request in getattr(self, "_requests", {}).values():
            request.cancel()


def _call_after_request() -> None:
    try:
        if after_request is not None:
            after_request()
    except Exception as error:
        asyncio.get_running_loop().call_exception_handler(
            {"message": "the request log's handler raised", "exception": error}
        )


class _Buffer:
    """Memory for the events of a queue, aligned as their headers want it."""

    __slots__ = ("_memory", "fill", "needed", "view")

    def __init__(self, size: int, queue: Handle) -> None:
        self._memory = array("Q", bytes((size + 7) // 8 * 8))
        self.view = memoryview(self._memory).cast("B")
        #: Bytes of the first event, where it did not fit.
        self.needed = ctypes.c_size_t()
        #: Moves events here and returns their bytes. The queue must not have been released. Called
        #: for every chunk: so its arguments are made once.
        self.fill: Callable[[], int] = functools.partial(
            lib.FMEventQueueDrain,
            ctypes.c_void_p(queue.address),
            ctypes.c_void_p(self._memory.buffer_info()[0]),
            ctypes.c_size_t(self.view.nbytes),
            ctypes.byref(self.needed),
        )


# Weak on both sides: the loop's reader is what keeps a queue.
_queues: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[EventQueue]] = (
    weakref.WeakKeyDictionary()
)
_queues_lock = threading.Lock()
