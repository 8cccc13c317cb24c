"""Whether scheduler-plugins is done with all that it was given, by its metrics: no pod is to be tried now or soon, none is being
bound. A gang that it has put aside is tried again."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from kailab.cluster.controlplane.ports import LOOPBACK
from kailab.cluster.protocol import Cluster, Object
from kailab.undertest.contract import Plane
from kailab.undertest.next_try import NextTry
from kailab.undertest.programs import check, fetch
from kailab.undertest.schedulerplugins.words import GANG, NAME

LOOK_AGAIN_SECONDS = 45.0
"""What Coscheduling has refused waits for another pod, or for the time after which kube-scheduler tries any pod anew: here every 30 s
(see ``process``), and up to 10 s of back-off."""

_LOOKS = 3  # one that was under way at the change, and two that saw all of it
# A pod that waits for the rest of its gang counts as one that is being bound.
_BUSY = re.compile(
    r'^scheduler_(?:pending_pods\{queue="(?:active|backoff)"\}|goroutines\{[^}]*"binding"[^}]*\}) (\S+)$', re.MULTILINE
)


class SchedulerPluginsRest:
    """``plane``: where it runs; ``cluster``: the same, as a client sees it. ``monotonic``: the clock of waiting."""

    def __init__(self, plane: Plane, cluster: Cluster, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._plane = plane
        self._next_try = NextTry(cluster, LOOK_AGAIN_SECONDS, _is_of_a_gang, monotonic)
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
        # Both are asked each time: what moves is to be seen when it does.
        owed = self._next_try.owed()
        return self._idle >= _LOOKS and not owed


def _is_of_a_gang(pod: Object) -> bool:
    return GANG in (pod["metadata"].get("labels") or {})
