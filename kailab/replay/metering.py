"""What metrics tell of a replay over time, as they would of any lab."""

from __future__ import annotations

from kailab.evidence.metrics.series import Series
from kailab.evidence.metrics.text import MOST_SAMPLES
from kailab.lab import Lab
from kailab.lab.metered import look_at


class Meter:
    """Looks at a lab once in ``interval`` seconds of its time, at most."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self.series = Series()
        self._due = float("-inf")

    @property
    def every(self) -> float:
        """Seconds between two samples of what was seen: longer than the interval where these would be too many."""
        return max(self._interval, self.series.end / MOST_SAMPLES)

    def look(self, lab: Lab, *, last: bool = False) -> None:
        """Where it is time for it, or for the ``last`` time."""
        if last or lab.now >= self._due:
            self._due = lab.now + self._interval
            self.series.take(look_at(lab))
