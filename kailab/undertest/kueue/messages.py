"""Names of Kueue's API and of translated objects, and the reading of its conditions.

Sources: Kueue v0.19's API and constants, flavorassigner.go, preemption.go and workload_types.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from kailab.cluster.protocol import Cluster
from kailab.model.objects import Object, conditions_of, owner_uids
from kailab.undertest.contract import EvictionCondition, EvictionReason

API = "kueue.x-k8s.io/v1beta2"
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
PRIORITY_CLASS = "kueue.x-k8s.io/priority-class"
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
GROUP_NAME = "kueue.x-k8s.io/pod-group-name"
GROUP_TOTAL = "kueue.x-k8s.io/pod-group-total-count"
MANAGED = "kueue.x-k8s.io/managed"

WORKLOAD = "Workload.kueue.x-k8s.io"  # kind keys
CLUSTER_QUEUE = "ClusterQueue.kueue.x-k8s.io"
COHORT = "Cohort.kueue.x-k8s.io"

FLAVOR = "fleet"
"""The ResourceFlavor of all nodes."""
ROOT = "kailab-fleet"
"""The Cohort above the top queues, with the capacity of the nodes that no queue owns."""
_PROTECTED = "-non-preemptible"


def queue_for(queue: str, preemptible: bool) -> str:
    """The ClusterQueue, and its LocalQueues, for one kind of work (preemptible or not) of a queue."""
    return queue if preemptible else f"{queue}{_PROTECTED}"


# --- conditions -------------------------------------------------------------------------------------------------------

PENDING_PREEMPTION = "Pending the preemption of"
MISCONFIGURED = "Misconfigured"
"""The code of work whose ClusterQueue or LocalQueue is missing or inactive."""
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
    # First, because its text follows that of missing quota.
    (PENDING_PREEMPTION, "WaitingForPreemptedWorkloads"),
    ("insufficient quota", "ExceedsMaxQuota"),
    ("insufficient unused quota", "WaitingForQuota"),
    ("doesn't exist", MISCONFIGURED),
    ("is inactive", MISCONFIGURED),
)


def parse_eviction(message: str) -> EvictionCondition | None:
    """Parse the message of an eviction; None if it is not Kueue's."""
    found = _PREEMPTED.match(message)
    if found is None:
        return None
    # The path ends with the ClusterQueue; its Cohort, before it, has the queue's name.
    path = (found["path"] or "").strip("/").split("/")
    return EvictionCondition(_ACTIONS.get(found["why"], "preempt"), "", path[-2] if len(path) > 1 else "")


def find_evictions(pods: Sequence[Object], there: Cluster) -> dict[str, EvictionReason]:
    """See ``Stopped``."""
    messages = {pod["metadata"]["uid"]: _eviction_message(pod, there) for pod in pods}
    return {uid: EvictionReason(message) for uid, message in messages.items() if message is not None}


def _eviction_message(pod: Object, there: Cluster) -> str | None:
    """The message on a pod that Kueue manages itself, else on the Workload of its Job, whose pods go with it."""
    told = _true_condition(pod, TERMINATION)
    if told is not None:
        return str(told.get("message") or told.get("reason", ""))
    metadata = pod["metadata"]
    jobs = {one["uid"] for one in metadata.get("ownerReferences") or () if one["kind"] == "Job"}
    if "deletionTimestamp" not in metadata or not jobs:
        return None
    for workload in there.list(WORKLOAD, metadata.get("namespace")):
        if jobs & owner_uids(workload):
            told = _true_condition(workload, "Evicted")
            return None if told is None else str(told.get("message") or told.get("reason", ""))
    return None


def _true_condition(obj: Object, type: str) -> Mapping[str, Any] | None:
    """The condition of that type, if its status is ``True``."""
    return next((one for one in conditions_of(obj) if one["type"] == type and one["status"] == "True"), None)


def parse_code(message: str) -> str:
    """The code of Kueue's reason why a Workload waits, or ""."""
    return next((code for words, code in _CODES if words in message), "")
