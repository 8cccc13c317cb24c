"""When to look at what holds from one moment to the next, so that it is seen as of every so many seconds."""

from __future__ import annotations

from math import ceil, isfinite


class Sampling:
    """Points of time ``interval`` seconds apart, from the first look on."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._next: float | None = None

    def points(self, now: float, until: float) -> int:
        """How many of them are in the time that begins ``now`` and goes to ``until``, infinite where nothing is to happen any more: there the next one alone counts.

        >>> sampling = Sampling(10)
        >>> sampling.points(0, 1), sampling.points(1, 9), sampling.points(9, 35), sampling.points(35, float("inf"))
        (1, 0, 3, 1)
        """
        if self._next is None:
            self._next = now
        if self._next >= until:
            return 0
        found = ceil((until - self._next) / self._interval) if isfinite(until) else 1
        self._next += found * self._interval
        return found
