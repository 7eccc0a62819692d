"""How many requests may be under way, and when: the additive increase and multiplicative decrease
by which senders find what a receiver bears."""

from __future__ import annotations

import asyncio
import random
from collections import deque

__all__ = ["Gate"]

# Seconds that a refusal pauses at least, whatever its Retry-After: the first time, doubled with
# each refusal in a row, and the longest. A server that says 0 and refuses again would else be asked
# as fast as it can refuse.
_FIRST_WAIT = 0.1
_LONGEST_WAIT = 60.0


class Gate:
    """Lets at most ``limit`` requests through at once, and none while a server asked for a pause.

    A refusal for load halves the limit, once for all requests that were under way then; each full
    round of answers raises it by one again. Where nothing but refusals came for as long as there is
    patience, whoever waits gets the refusal, and so does who comes before the pause is over.
    Belongs to one event loop.
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
        # Of the first refusal since the last answer.
        self._refused_since: float | None = None
        self._last_refusal: Exception | None = None

    async def enter(self) -> float:
        """Waits for a place; returns the time of entry, which ``refused`` wants. Raises the
        refusal that the gate gave up on."""
        loop = asyncio.get_running_loop()
        if self._last_refusal is not None:
            if loop.time() < self._paused_until:
                # Without the trace of those that got it before.
                raise self._last_refusal.with_traceback(None)
            self._last_refusal = None
        if self._waiting or not self._is_open(loop):
            place: asyncio.Future[None] = loop.create_future()
            self._waiting.append(place)
            self._admit()
            try:
                await place
            except asyncio.CancelledError:
                if not place.done() or place.cancelled():
                    self._waiting.remove(place)
                elif place.exception() is None:
                    # It was let in and cancelled in the same moment.
                    self.leave()
                raise
        else:
            self.active += 1
        return loop.time()

    def leave(self) -> None:
        self.active -= 1
        self._admit()

    def succeeded(self) -> None:
        """An answer came."""
        self._refused_since = None
        self._refusals = 0
        self.limit = min(self._most, self.limit + 1 / self.limit)

    def refused(
        self, refusal: Exception, entered_at: float, retry_after: float | None, patience: float
    ) -> bool:
        """The server said that it has too much to do. Returns whether to ask again: not where
        ``patience`` seconds have passed since the first of such refusals without an answer, or
        will have before the server wants to be asked."""
        now = asyncio.get_running_loop().time()
        if entered_at > self._halved_at:
            self._halved_at = now
            self._refusals += 1
            self.limit = max(1.0, min(self.limit, self.active or 1) / 2)
        longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(self._refusals - 1, 20))
        if self._refused_since is None:
            self._refused_since = now
        left = self._refused_since + patience - now
        asked_for = retry_after or 0.0
        wait = max(asked_for, random.uniform(longest / 2, longest))
        # Who is still under way may be what the server is busy with.
        is_over = asked_for > patience or (self.active <= 1 and left <= asked_for)
        if not is_over and left > 0:
            # The last time is at the end of the patience, not a long wait after it.
            wait = min(wait, max(left, asked_for))
        self._paused_until = max(self._paused_until, now + wait)
        if is_over:
            self._last_refusal = refusal
            while self._waiting:
                place = self._waiting.popleft()
                if not place.done():
                    place.set_exception(refusal)
        return not is_over

    @property
    def places(self) -> int:
        """How many may be under way now."""
        return int(self.limit)

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
