"""Whether Kueue is done with all that it was given: all work has its Workload, each has been decided on, and what was decided has been
carried out.

Its metrics would tell how many Workloads it has yet to look at, but are only for who has a token of the cluster; the objects
themselves tell as much.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from kailab.cluster.protocol import Cluster, Object
from kailab.undertest.contract import Plane
from kailab.undertest.kueue import words
from kailab.undertest.kueue.names import MANAGED, QUEUE_NAME, WORKLOAD
from kailab.undertest.programs import check

CHECK_SECONDS = 1.0
SETTLED_SECONDS = 2.5  # it gathers changes for a second before it looks at them
NOT_READY_SECONDS = 20.0
"""So long a ClusterQueue may be missing or inactive before its work counts as refused: Kueue reads queues behind one another."""
_GATE = "kueue.x-k8s.io/admission"
_ENDS = ("Succeeded", "Failed")


class KueueRest:
    """``plane``: where it runs; ``cluster``: the same, as a client sees it. ``names``: of its processes."""

    def __init__(self, plane: Plane, cluster: Cluster, names: Sequence[str]) -> None:
        self._plane = plane
        self._cluster = cluster
        self._names = names
        self._since = time.monotonic()
        self._checked = float("-inf")
        self._done = False
        self._not_ready = False

    def changed(self) -> None:
        """Something has changed in the cluster."""
        self._since = time.monotonic()

    def at_rest(self) -> bool:
        """Raises SchedulerFailed, with its last words, if a process has ended."""
        # Asked far more often than once a second, and a look costs.
        if (now := time.monotonic()) - self._checked >= CHECK_SECONDS:
            check(self._plane, self._names)
            self._checked = now
            self._not_ready = False
            self._done = not self._under_way()
        return self._done and now - self._since >= (NOT_READY_SECONDS if self._not_ready else SETTLED_SECONDS)

    def _under_way(self) -> bool:
        submitted = {obj["metadata"]["uid"]: obj for obj in self._submitted()}
        decided: set[str] = set()
        for workload in self._cluster.list(WORKLOAD):
            owners = {one["uid"] for one in workload["metadata"].get("ownerReferences") or ()}
            decided |= owners
            if _condition(workload, "Finished"):
                continue
            self._not_ready |= words.code(_quota(workload)) == words.MISCONFIGURED
            admitted = _condition(workload, "Admitted")
            # Admitted work that is held yet, and work that is not any more and goes on.
            mine = [submitted[uid] for uid in owners if uid in submitted]
            if _is_undecided(workload) or any(admitted == _is_held(obj) for obj in mine):
                return True
        return not decided >= submitted.keys()

    def _submitted(self) -> Iterator[Object]:
        """Work that is to have a Workload, and has not ended."""
        for kind in ("Job", "Pod"):
            for obj in self._cluster.list(kind, labels=QUEUE_NAME):
                ended = (obj.get("status") or {}).get("phase") in _ENDS or _condition(obj, "Complete", "Failed")
                # Pods of a Job have its label, and are admitted with it.
                held = kind == "Pod" and MANAGED not in obj["metadata"].get("labels", {})
                if not ended and not held and "deletionTimestamp" not in obj["metadata"]:
                    yield obj


def _is_undecided(workload: Object) -> bool:
    """It has not been looked at, or waits until those that were evicted for it are gone."""
    if workload.get("spec", {}).get("active") is False:
        return False
    told = _conditions(workload, "QuotaReserved")
    return not told or words.PENDING_PREEMPTION in _quota(workload)


def _quota(workload: Object) -> str:
    """What is said of its quota; empty where it has it, or nothing is said."""
    return "".join(one.get("message", "") for one in _conditions(workload, "QuotaReserved") if one["status"] != "True")


def _is_held(obj: Object) -> bool:
    spec = obj["spec"]
    # A pod has no word of its own for it.
    return bool(spec.get("suspend")) or any(gate["name"] == _GATE for gate in spec.get("schedulingGates") or ())


def _condition(obj: Object, *types: str) -> bool:
    """Whether one of these holds."""
    return any(one["status"] == "True" for one in _conditions(obj, *types))


def _conditions(obj: Object, *types: str) -> list[Object]:
    return [one for one in (obj.get("status") or {}).get("conditions") or () if one["type"] in types]
