"""A stopwatch that attributes time to phases."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Stopwatch:
    """Exactly one phase runs at any moment between ``start`` and ``stop``, so the phases add up to the total.

    ``seconds``: phase -> time, in the order of their first start. ``on_change``: called with each phase that starts. ``clock``: returns seconds; default:
    wall-clock time.
    """

    def __init__(
        self, on_change: Callable[[str], None] | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self.seconds: dict[str, float] = {}
        self.on_change = on_change
        self._clock = clock
        self._phase = ""
        self._since = 0.0

    def switch(self, phase: str) -> str:
        """End the current phase and begin another ("" for none). Returns the one that ended."""
        now = self._clock()
        before = self._phase
        if before:
            self.seconds[before] = self.seconds.get(before, 0.0) + now - self._since
        self._phase, self._since = phase, now
        if phase and phase != before and self.on_change is not None:
            self.on_change(phase)
        return before

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """Run one phase inside another, which continues afterwards."""
        before = self.switch(phase)
        try:
            yield
        finally:
            self.switch(before)

    @property
    def total(self) -> float:
        return sum(self.seconds.values())
