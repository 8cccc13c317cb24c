"""Whether Volcano is done with all that it was given: its scheduler has been through whole cycles since the last change."""

from __future__ import annotations

import re

from kailab.cluster.controlplane.ports import LOOPBACK
from kailab.undertest.contract import Plane
from kailab.undertest.programs import check, fetch

NAMES = ("volcano-scheduler", "volcano-controllers")
"""The processes, as the plane lists them."""

CYCLES = "volcano_e2e_scheduling_latency_milliseconds_count"
_COUNT = re.compile(rf"^{CYCLES} (\S+)", re.MULTILINE)
# One that was under way at the change, and two that saw all of it; twice, as a cycle puts work into its queue, and the next one
# places it.
_CYCLES = 5


class VolcanoRest:
    """``plane``: where it runs."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._since: float | None = None

    def changed(self) -> None:
        """Something has changed in the cluster."""
        self._since = None

    def at_rest(self) -> bool:
        """Raises SchedulerFailed, with its last words, if a process of it has ended."""
        own = next((one for one in self._plane.processes() if one.name == NAMES[0]), None)
        if own is None or not own.running:
            check(self._plane, NAMES)
            return True
        found = _COUNT.search(fetch(f"http://{LOOPBACK}:{own.port}/metrics")[0])
        if found is None:
            return False
        cycles = float(found[1])
        if self._since is None or cycles < self._since:
            self._since = cycles
        return cycles - self._since >= _CYCLES
