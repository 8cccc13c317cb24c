"""Kueue's words, read: why a Workload waits, and what the eviction of one was for.

Source: Kueue's flavorassigner.go, preemption.go and workload_types.go.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kailab.cluster.protocol import Cluster, Object
from kailab.undertest.contract import Stop, Told
from kailab.undertest.kueue.names import WORKLOAD

PENDING_PREEMPTION = "Pending the preemption of"
MISCONFIGURED = "Misconfigured"
"""The code of work whose ClusterQueue or LocalQueue is not there, or not in order."""
TERMINATION = "TerminationTarget"
"""The condition of a pod that Kueue stops, with its reason."""

_PREEMPTED = re.compile(
    r"^Preempted to accommodate a workload .* due to (?P<why>.+?)(?:; preemptor path: (?P<path>\S+); preemptee path: \S+)?$"
)
_ACTIONS = {
    "prioritization in the ClusterQueue": "preempt",
    "reclamation within the cohort": "reclaim",
    "Fair Sharing within the cohort": "reclaim",
    "reclamation within the cohort while borrowing": "reclaim",
}
_CODES = (
    # First: it comes behind what is missing.
    (PENDING_PREEMPTION, "WaitingForPreemptedWorkloads"),
    ("insufficient quota", "ExceedsMaxQuota"),
    ("insufficient unused quota", "WaitingForQuota"),
    ("doesn't exist", MISCONFIGURED),
    ("is inactive", MISCONFIGURED),
)


def eviction(message: str) -> Told | None:
    """What a message says; None if it is not Kueue's."""
    found = _PREEMPTED.match(message)
    if found is None:
        return None
    # The path ends with the ClusterQueue, above which the Cohort stands that has the queue's name.
    path = (found["path"] or "").strip("/").split("/")
    return Told(_ACTIONS.get(found["why"], "preempt"), "", path[-2] if len(path) > 1 else "")


def stopped(pods: Sequence[Object], there: Cluster) -> dict[str, Stop]:
    """See ``Stopped``."""
    told = {pod["metadata"]["uid"]: _stopped(pod, there) for pod in pods}
    return {uid: Stop(message) for uid, message in told.items() if message is not None}


def _stopped(pod: Object, there: Cluster) -> str | None:
    """It says so of a pod that it manages by itself, else of the Workload of its Job, whose pods go with it."""
    told = _condition(pod, TERMINATION)
    if told is not None:
        return str(told.get("message") or told.get("reason", ""))
    metadata = pod["metadata"]
    jobs = {one["uid"] for one in metadata.get("ownerReferences") or () if one["kind"] == "Job"}
    if "deletionTimestamp" not in metadata or not jobs:
        return None
    for workload in there.list(WORKLOAD, metadata.get("namespace")):
        if jobs & {one["uid"] for one in workload["metadata"].get("ownerReferences") or ()}:
            told = _condition(workload, "Evicted")
            return None if told is None else str(told.get("message") or told.get("reason", ""))
    return None


def _condition(obj: Object, type: str) -> Object | None:
    """That holds."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == type and one["status"] == "True"), None)


def code(message: str) -> str:
    """Kueue's reason for which a Workload waits; empty for none."""
    return next((code for words, code in _CODES if words in message), "")
