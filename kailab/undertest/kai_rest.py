"""Whether a real KAI is done with all that it was given: its scheduler has been through whole cycles since the last change, and
nothing that it decided is still being carried out.

Waiting for so many seconds instead would be too long on a quiet machine and too short on a busy one.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

from kailab.cluster.controlplane.ports import LOOPBACK
from kailab.cluster.protocol import Cluster
from kailab.model import labels
from kailab.undertest.kai import check_kai
from kailab.undertest.programs import fetch

if TYPE_CHECKING:
    from kailab.cluster.controlplane import ControlPlane

CHECK_SECONDS = 1.0
# One that may be a later sight of the last, one that was under way at the change, and two that saw all of it.
_SIGHTS = 4
_LAST_CYCLE = re.compile(r"^kai_e2e_scheduling_latency_milliseconds (\S+)$", re.MULTILINE)


class KaiRest:
    """``plane``: where KAI runs; ``cluster``: the same, as a client sees it."""

    def __init__(self, plane: ControlPlane, cluster: Cluster) -> None:
        self._plane = plane
        self._cluster = cluster
        port = next(process.port for process in plane.processes() if process.name == "kai-scheduler")
        self._metrics = f"http://{LOOPBACK}:{port}/metrics"
        self._last = ""
        self._sights = 0
        self._checked = float("-inf")

    def changed(self) -> None:
        """Something has changed in the cluster."""
        self._sights = 0

    def at_rest(self) -> bool:
        """Ask as often as a cycle may take. Raises SchedulerFailed, with its last words, if a process of KAI has ended."""
        if (now := time.monotonic()) - self._checked >= CHECK_SECONDS:
            check_kai(self._plane)
            self._checked = now
        text, _ = fetch(self._metrics)
        # How long the last cycle took, to the fraction of a microsecond: another number is another cycle.
        found = _LAST_CYCLE.search(text)
        if found and (found[1] != self._last or not self._sights):
            self._last = found[1]
            self._sights += 1
        return self._sights >= _SIGHTS and not self._under_way()

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
