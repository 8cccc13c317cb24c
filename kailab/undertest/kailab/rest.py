"""Whether kailab's scheduler, as a process beside a plane, is done with all that it was given; and where it answers."""

from __future__ import annotations

import re
from pathlib import Path

from kailab.undertest.contract import Plane
from kailab.undertest.programs import fetch

SCHEDULER = "kailab-scheduler"
"""What the process beside a plane is called."""

_IDLE_TURNS = 3  # one that was under way at the change, and two that saw all of it
_HEALTH = re.compile(r"health and metrics at (http://\S+)")


def health_url(log: Path) -> str | None:
    """What the scheduler that writes this log says; None: nothing yet."""
    told = _HEALTH.findall(log.read_text(errors="replace")) if log.exists() else None
    return told[-1] if told else None


class SchedulerRest:
    """It is at rest when it has looked at all there is since the last change, and had nothing to do, a few times. Waiting for so
    many seconds instead would be too short on a busy machine. ``plane``: where it runs."""

    def __init__(self, plane: Plane) -> None:
        from kailab.scheduler.service.metrics import IDLE_TURNS

        self._plane = plane
        self._shown = re.compile(rf"^{IDLE_TURNS}_total (\S+)$", re.MULTILINE)
        self._url: str | None = None
        self._since: float | None = None

    def changed(self) -> None:
        """Something has changed in the cluster."""
        self._since = None

    def at_rest(self) -> bool:
        """So is one that has ended."""
        turns = self._idle_turns()
        if turns is None:
            return not any(one.running for one in self._plane.processes() if one.name == SCHEDULER)
        # Fewer than before: the process was started anew, and counts from 0.
        if self._since is None or turns < self._since:
            self._since = turns
        return turns - self._since >= _IDLE_TURNS

    def _idle_turns(self) -> float | None:
        """None: it does not say."""
        self._url = self._url or health_url(self._plane.log(SCHEDULER))
        found = self._shown.search(fetch(f"{self._url}/metrics")[0]) if self._url is not None else None
        if found is None:
            self._url = None  # it may be another process by now
        return float(found[1]) if found else None
