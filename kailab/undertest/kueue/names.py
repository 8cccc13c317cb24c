"""Names that Kueue gives meaning to, and those that a translation into its words makes. Source: Kueue v0.19's API and constants."""

from __future__ import annotations

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
"""The Cohort above the queues at the top: what the nodes have and no queue owns."""
_PROTECTED = "-non-preemptible"


def queue_for(queue: str, preemptible: bool) -> str:
    """The ClusterQueue, and the LocalQueues to it, for that kind of work of a queue."""
    return queue if preemptible else f"{queue}{_PROTECTED}"
