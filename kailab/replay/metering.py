"""What metrics tell of a replay over time, as they would of any lab."""

from __future__ import annotations

from kailab.evidence.metrics.families import SeriesCollector
from kailab.evidence.metrics.openmetrics import MOST_SAMPLES
from kailab.lab import Lab
from kailab.lab.metered import look_at
from kailab.replay.sampling import Sampling


class Meter:
    """Looks at a lab so often that what it tells holds every ``interval`` seconds of its time."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self.series = SeriesCollector()
        self._sampling = Sampling(interval)

    @property
    def every(self) -> float:
        """Seconds between two samples of what was seen: longer than the interval where these would be too many."""
        return max(self._interval, self.series.end / MOST_SAMPLES)

    def look(self, lab: Lab, until: float) -> None:
        """Where it is time for it before ``until``, when something may be otherwise."""
        if self._sampling.points(lab.now, until):
            self.take(lab)

    def take(self, lab: Lab) -> None:
        """Look in any case."""
        self.series.take(look_at(lab))
