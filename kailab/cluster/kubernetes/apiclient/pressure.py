"""How many requests may be under way at once: found out from how the server bears them, not set.

One more at a time while answers come as fast as ever; a third fewer, at most once in a round trip, when the server says
that it has enough (429, 503, a time-out) or answers take several times longer than its best.
"""

from __future__ import annotations

import asyncio
from collections import deque

LEAST, NARROW, FIRST, MOST = 4.0, 8.0, 24.0, 96.0
_SLOW = 6.0  # times the best answer: more at once would only wait in the server instead of here


class Pressure:
    """A gate with a moving width. For one event loop."""

    def __init__(self) -> None:
        self.limit = FIRST
        self.under_way = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._best = 1.0
        self._shrunk_at = 0.0

    async def enter(self) -> None:
        """Wait for a place."""
        if self.under_way < int(self.limit) and not self._waiting:
            self.under_way += 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            # The place was given in the same moment: it goes to the next one who waits.
            if place.done() and not place.cancelled():
                self._leave()
            raise

    def answered(self, seconds: float, now: float) -> None:
        """A request was answered after so long. ``now``: a monotonic time."""
        # The best is forgotten slowly, or one lucky answer would hold the gate narrow for ever.
        self._best = min(seconds, self._best * 1.001)
        # What is urgent waits in the server behind all that is under way, so no more of it is than keeps the server at work. To
        # fewer than NARROW only refusals lead: slow answers may have other clients as their cause.
        if seconds > self._best * _SLOW and self.limit > NARROW:
            self._shrink(now, NARROW)
        # It grows only while it is used to the full; about one a round trip, as TCP avoids congestion.
        elif self.under_way >= int(self.limit):
            self.limit = min(MOST, self.limit + 1 / self.limit)
        self._leave()

    def overloaded(self, now: float) -> None:
        """The server had enough, or did not answer."""
        self._shrink(now, LEAST)
        self._leave()

    def withdrawn(self) -> None:
        """Nothing was sent after all."""
        self._leave()

    def _shrink(self, now: float, least: float) -> None:
        # All that were under way together fail together: that is one piece of news, not thirty.
        if now - self._shrunk_at > max(0.1, 2 * self._best):
            self._shrunk_at = now
            self.limit = max(least, self.limit * 2 / 3)

    def _leave(self) -> None:
        self.under_way -= 1
        while self._waiting and self.under_way < int(self.limit):
            place = self._waiting.popleft()
            if not place.done():
                self.under_way += 1
                place.set_result(None)
