"""Whether scheduler-plugins is done with all that it was given, by its metrics: no pod is to be tried now or soon, none is being
bound."""

from __future__ import annotations

import re

from kailab.cluster.controlplane.ports import LOOPBACK
from kailab.undertest.contract import Plane
from kailab.undertest.programs import check, fetch
from kailab.undertest.schedulerplugins.words import NAME

_LOOKS = 3  # one that was under way at the change, and two that saw all of it
# A pod that waits for the rest of its gang counts as one that is being bound.
_BUSY = re.compile(
    r'^scheduler_(?:pending_pods\{queue="(?:active|backoff)"\}|goroutines\{[^}]*"binding"[^}]*\}) (\S+)$', re.MULTILINE
)


class SchedulerPluginsRest:
    """``plane``: where it runs."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._idle = 0

    def changed(self) -> None:
        """Something has changed in the cluster."""
        self._idle = 0

    def at_rest(self) -> bool:
        """Raises SchedulerFailed, with its last words, if it has ended."""
        own = next((one for one in self._plane.processes() if one.name == NAME), None)
        if own is None or not own.running:
            check(self._plane, (NAME,))
            return True
        text, problem = fetch(f"https://{LOOPBACK}:{own.port}/metrics")
        busy = [float(count) for count in _BUSY.findall(text)]
        self._idle = self._idle + 1 if problem is None and busy and not any(busy) else 0
        return self._idle >= _LOOKS
