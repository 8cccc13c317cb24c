"""The server's time, from the dates of its answers: a step of this machine's clock does not move it."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime

_SKEW_SECONDS = 2.0


class ServerClock:
    """Time of this machine until a date that is off by more than two seconds is seen. Not for two threads that ``look``."""

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()
        self._looked_at = 0.0

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.monotonic() + self._offset

    def look(self, date: str | None) -> None:
        """Take in an answer's Date header."""
        moment = time.monotonic()
        # Dates have whole seconds: looking more often would tell nothing.
        if date is None or moment - self._looked_at < 1.0:
            return
        self._looked_at = moment
        try:
            told = parsedate_to_datetime(date).timestamp() + 0.5  # it is cut to whole seconds
        except (TypeError, ValueError):
            return
        if abs(told - self.now()) > _SKEW_SECONDS:
            self._offset = told - moment
