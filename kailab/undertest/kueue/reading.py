"""Whether Kueue has read the queues that it was given.

It reads Cohorts, ClusterQueues and Workloads each by itself, and admits by what it has read so far. On a busy machine a Workload may so be
admitted by a ClusterQueue whose Cohort, or whose neighbours, are not known yet.
"""

from __future__ import annotations

import time

from kailab.cluster.protocol import Cluster, Object
from kailab.undertest.kueue.names import CLUSTER_QUEUE, COHORT

PATIENCE_SECONDS = 20.0
LOOK_SECONDS = 0.1


def await_queues(there: Cluster) -> None:
    """Return when each Cohort and each ClusterQueue has been read, or after ``PATIENCE_SECONDS``."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not _all_read(there) and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)


def _all_read(there: Cluster) -> bool:
    return all(map(_cohort_read, there.list(COHORT))) and all(map(_queue_read, there.list(CLUSTER_QUEUE)))


def _cohort_read(cohort: Object) -> bool:
    """Its status has no conditions; under Fair Sharing it has its share, once it was reckoned with (``updateCohortStatusIfChanged``,
    pkg/controller/core/cohort_controller.go)."""
    return "fairSharing" in (cohort.get("status") or {})


def _queue_read(queue: Object) -> bool:
    """It is said of this generation whether it is active (``updateCqStatusIfChanged``, pkg/controller/core/clusterqueue_controller.go)."""
    wanted = queue["metadata"].get("generation", 0)
    told = (queue.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Active" and one.get("observedGeneration", 0) >= wanted for one in told)
