"""Whose turn it is: one session answers one request at a time.

Other tasks of the same loop queue, in order. Where waiting could never end, or could not be woken,
ConcurrentRequestsError comes at once: for the task that holds an open stream and asks for more, for
a tool of the running request, and for another loop or thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections import deque
from types import TracebackType
from typing import NoReturn

from ._tool_calls import turns_of_this_tool
from .errors import ConcurrentRequestsError

__all__ = ["Turn", "Turns"]


class Turn:
    """The right to use the session, until it is given back."""

    __slots__ = ("_loop", "task")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, task: weakref.ref[asyncio.Task[object]] | None
    ) -> None:
        # Weak: a session that is kept must not keep a loop that is closed.
        self._loop = weakref.ref(loop)
        self.task = task

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """Its loop; None once that is closed."""
        loop = self._loop()
        return None if loop is None or loop.is_closed() else loop

    def is_of_current_task(self) -> bool:
        return self.task is not None and self.task() is asyncio.current_task()

    def check_loop(self) -> None:
        """Raises ConcurrentRequestsError in another loop than its own, which nothing that comes of
        the request would ever wake; RuntimeError where its own is closed."""
        loop = self.loop
        if loop is None:
            raise RuntimeError(
                "the event loop that this stream was started on is closed, and its request with it"
            )
        if loop is not asyncio.get_running_loop():
            _refuse("this stream was started on another event loop; read and close it there")

    def move_to_current_task(self) -> None:
        """A stream may be handed to another task of its loop, which then holds it."""
        task = asyncio.current_task()
        if task is not None and self.task is not None and self.task() is task:
            return
        self.check_loop()
        self.task = None if task is None else weakref.ref(task)


class Turns:
    """The queue of one session."""

    def __init__(self) -> None:
        # Guards the three below between threads. Never taken by `abandon`, which the garbage
        # collector calls: it may run in the middle of any of this.
        self._mutex = threading.Lock()
        self._holder: Turn | None = None
        self._waiting: deque[tuple[Turn, asyncio.Future[None]]] = deque()
        self._abandoned: deque[Turn] = deque()

    @property
    def holder(self) -> Turn | None:
        """Who has the turn."""
        return self._holder

    def hold(self) -> Hold:
        """``async with turns.hold():`` has the turn for the length of the block."""
        return Hold(self)

    async def acquire(self) -> Turn:
        """Waits for the turn. ConcurrentRequestsError where the wait could not end well."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        turn = Turn(loop, None if task is None else weakref.ref(task))
        with self._mutex:
            self._sweep(loop)
            holder = self._holder
            if holder is None:
                self._holder = turn
                return turn
            if holder.loop is not loop:
                _refuse("another event loop or thread is using this session; give each its own")
            if holder in turns_of_this_tool.get():
                _refuse("it waits for this tool; ask a session of the tool's own")
            if holder.is_of_current_task():
                _refuse(
                    "this task holds an open stream of this session; read it to its end or await "
                    "its aclose() first"
                )
            granted: asyncio.Future[None] = loop.create_future()
            self._waiting.append((turn, granted))
        try:
            await self._wait(loop, granted)
        except GeneratorExit:
            self.abandon(turn)
            raise
        except BaseException:
            # It can have been granted in the same moment.
            self.release(turn)
            raise
        return turn

    def release(self, turn: Turn) -> None:
        """Passes the turn on, or gives up waiting for it. For the loop's own thread."""
        with self._mutex:
            self._remove(turn)

    def abandon(self, turn: Turn) -> None:
        """``release`` for a finaliser: from any thread, at any moment."""
        self._abandoned.append(turn)
        loop = turn.loop
        if loop is not None:
            # It may be closed in this very moment; then nobody of it waits.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._collect, loop)

    async def _wait(self, loop: asyncio.AbstractEventLoop, granted: asyncio.Future[None]) -> None:
        while True:
            self._collect(loop)
            if granted.done():
                return
            holder = self._holder
            task = holder.task() if holder is not None and holder.task is not None else None
            if task is None:
                await granted
            elif task.done():
                _refuse(
                    "a stream of it is still open, and the task that read the stream has ended; "
                    "await the stream's aclose() first"
                )
            else:
                await asyncio.wait((granted, task), return_when=asyncio.FIRST_COMPLETED)

    def _collect(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._mutex:
            self._sweep(loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Takes back what was abandoned, and what a closed loop held."""
        if self._holder is not None and self._holder.loop is None:
            self._holder = None
            self._waiting.clear()
        for _ in range(len(self._abandoned)):
            turn = self._abandoned.popleft()
            if self._waiting and turn.loop not in (loop, None):
                # Those who wait can be woken by their own loop only, which was asked to come here.
                self._abandoned.append(turn)
            else:
                self._remove(turn)

    def _remove(self, turn: Turn) -> None:
        if self._holder is not turn:
            self._waiting = deque(entry for entry in self._waiting if entry[0] is not turn)
            return
        self._holder = None
        while self._waiting:
            successor, granted = self._waiting.popleft()
            if not granted.done():
                self._holder = successor
                granted.set_result(None)
                return


class Hold:
    """The turn as an asynchronous context manager."""

    __slots__ = ("_turn", "_turns")

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._turn: Turn | None = None

    async def __aenter__(self) -> None:
        self._turn = await self._turns.acquire()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        turn, self._turn = self._turn, None
        if turn is None:
            return
        if kind is not None and issubclass(kind, GeneratorExit):
            self._turns.abandon(turn)
        else:
            self._turns.release(turn)


def _refuse(why: str) -> NoReturn:
    raise ConcurrentRequestsError(f"the session is busy: {why}")
