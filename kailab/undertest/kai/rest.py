"""Whether a real KAI is done with all that it was given: its scheduler has been through whole cycles since the last change, and
nothing that it decided is still being carried out.

Waiting for so many seconds instead would be too long on a quiet machine and too short on a busy one.
"""

from __future__ import annotations

import time

from kailab.cluster.protocol import Cluster
from kailab.model import labels
from kailab.undertest.contract import Plane
from kailab.undertest.programs import Heard, check

NAMES = (
    "kai-scheduler", "kai-podgrouper", "kai-binder", "kai-queuecontroller", "kai-podgroupcontroller", "kai-admission",
)  # fmt: skip
"""The processes, as the plane lists them."""

_MAY_BE_LEFT_OUT = NAMES[3:]  # by a release that has none, or where their ports are taken

CYCLE_ENDS = "End scheduling"
"""What the scheduler's log says after each cycle. Its metrics give the length of the last one in whole milliseconds, which may
be 0, or the same as before."""

CHECK_SECONDS = 1.0
_CYCLES = 3  # one that was under way at the change, and two that saw all of it


def needed(plane: Plane) -> list[str]:
    """Those of ``NAMES`` that are to run. One that was ended on purpose and not started again belonged to the release before."""
    left_out = {one.name for one in plane.processes() if one.name in _MAY_BE_LEFT_OUT and one.stopped}
    return [name for name in NAMES if name not in left_out]


class KaiRest:
    """``plane``: where KAI runs; ``cluster``: the same, as a client sees it."""

    def __init__(self, plane: Plane, cluster: Cluster) -> None:
        self._plane = plane
        self._cluster = cluster
        self._heard = Heard(plane.log(NAMES[0]), CYCLE_ENDS)
        self._since = 0
        self._checked = float("-inf")

    def changed(self) -> None:
        """Something has changed in the cluster."""
        self._since = self._heard.listen()

    def at_rest(self) -> bool:
        """Raises SchedulerFailed, with its last words, if a process of KAI has ended."""
        # Asked far more often than once a second, and a look at processes costs.
        if (now := time.monotonic()) - self._checked >= CHECK_SECONDS:
            check(self._plane, needed(self._plane))
            self._checked = now
        return self._heard.listen() - self._since >= _CYCLES and not self._under_way()

    def _under_way(self) -> bool:
        """Pods that have no PodGroup yet, and decisions that the binder has not carried out."""
        for pod in self._cluster.list("Pod"):
            metadata, spec = pod["metadata"], pod["spec"]
            if spec.get("schedulerName") != labels.SCHEDULER_NAME or spec.get("nodeName"):
                continue
            notes, own = metadata.get("annotations") or {}, metadata.get("labels") or {}
            named = labels.POD_GROUP in notes or labels.SKIP_PODGROUPER in {**notes, **own}
            if not named and "deletionTimestamp" not in metadata and not spec.get("schedulingGates"):
                return True
        ends = ("Succeeded", "Failed")
        return any((one.get("status") or {}).get("phase") not in ends for one in self._cluster.list("BindRequest"))
