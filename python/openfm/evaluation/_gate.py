"""How many requests may be under way, and when: the additive increase and multiplicative decrease
by which senders find what a receiver bears."""

from __future__ import annotations

import asyncio
import random
from collections import deque

__all__ = ["Gate"]

# Seconds without a Retry-After: the first wait, and the longest.
_FIRST_WAIT = 0.5
_LONGEST_WAIT = 60.0


class Gate:
    """Lets at most ``limit`` requests through at once, and none while a server asked for a pause.

    A refusal for load halves the limit, once for all requests that were under way then; each full
    round of answers raises it by one again. Belongs to one event loop.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.limit = float(most)
        self.active = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._paused_until = 0.0
        self._halved_at = -1.0
        self._refusals = 0
        self._timer: asyncio.TimerHandle | None = None
        self._good_at: float | None = None

    async def enter(self) -> float:
        """Waits for a place; returns the time of entry, which ``refused`` wants."""
        loop = asyncio.get_running_loop()
        if self._good_at is None:
            self._good_at = loop.time()
        if self._waiting or not self._is_open(loop):
            place: asyncio.Future[None] = loop.create_future()
            self._waiting.append(place)
            self._admit()
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    # It was let in and cancelled in the same moment.
                    self.leave()
                else:
                    self._waiting.remove(place)
                raise
        else:
            self.active += 1
        return loop.time()

    def leave(self) -> None:
        self.active -= 1
        self._admit()

    def succeeded(self) -> None:
        """An answer came."""
        self._good_at = asyncio.get_running_loop().time()
        self._refusals = 0
        self.limit = min(self._most, self.limit + 1 / self.limit)

    def refused(self, entered_at: float, retry_after: float | None) -> None:
        """The server said that it has too much to do."""
        now = asyncio.get_running_loop().time()
        if entered_at > self._halved_at:
            self._halved_at = now
            self._refusals += 1
            self.limit = max(1.0, min(self.limit, self.active or 1) / 2)
        wait = retry_after
        if wait is None:
            longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(self._refusals - 1, 10))
            wait = random.uniform(longest / 2, longest)
        self._paused_until = max(self._paused_until, now + wait)

    @property
    def places(self) -> int:
        """How many may be under way now."""
        return int(self.limit)

    @property
    def seconds_without_answer(self) -> float:
        """Since the last answer to anybody, or since the first request."""
        return asyncio.get_running_loop().time() - (self._good_at or 0.0)

    def _is_open(self, loop: asyncio.AbstractEventLoop) -> bool:
        return self.active < self.places and loop.time() >= self._paused_until

    def _admit(self) -> None:
        if not self._waiting:
            return
        loop = asyncio.get_running_loop()
        left = self._paused_until - loop.time()
        if left > 0:
            if self._timer is None or self._timer.when() < self._paused_until:
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = loop.call_at(self._paused_until, self._resume)
            return
        while self._waiting and self.active < self.places:
            place = self._waiting.popleft()
            if not place.done():
                self.active += 1
                place.set_result(None)

    def _resume(self) -> None:
        self._timer = None
        self._admit()
