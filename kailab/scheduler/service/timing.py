"""How long the phases of a cycle take."""

from __future__ import annotations

from collections.abc import Callable

from kailab.scheduler.observers import Observer


class CycleTimer(Observer):
    """``clock``: seconds that never step. ``phases``: of the latest cycle, name -> seconds, in the order in which they began; the first,
    ``update``, is taking in what has changed."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.phases: dict[str, float] = {}
        self._clock = clock
        self._phase = ""
        self._since = 0.0

    def begin(self, now: float) -> None:
        self._phase, self._since, self.phases = "update", now, {}

    def on_phase(self, name: str) -> None:
        now = self._clock()
        # Added up: a cycle that is decided again has the same phases twice.
        self.phases[self._phase] = self.phases.get(self._phase, 0.0) + now - self._since
        self._phase, self._since = name, now

    def end(self) -> float:
        """When it was."""
        self.on_phase("")
        return self._since
