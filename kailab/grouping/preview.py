"""What grouping makes of a pod as things stand now: asked for an answer, nothing is written."""

from __future__ import annotations

from kailab.cluster.protocol import Cluster, Object
from kailab.errors import ApiError
from kailab.grouping.clusterreader import ClusterReader
from kailab.grouping.config import GroupingConfig
from kailab.grouping.group import group
from kailab.grouping.owners import asks_to_be_skipped, owners_of
from kailab.grouping.records import Grouping, GroupingError

MALFORMED = (AttributeError, LookupError, TypeError, ValueError)
"""What reading an owner raises that is not formed as its kind is: owners may be of any kind, so nobody checks their fields before."""


def malformed(problem: Exception) -> str:
    """What is told of such an owner."""
    return f"an owner of the pod is not formed as its kind is: {problem!r}"


def preview(cluster: Cluster, pod: Object, config: GroupingConfig | None = None) -> Grouping | None:
    """The grouping that the pod would get; None where it, or an owner of it, asks to be left alone.

    Raises GroupingError where it can't be grouped.
    """
    if asks_to_be_skipped(pod):
        return None
    # Items of a list have no kind, but a pod may become the owner of its PodGroup.
    pod = pod if "kind" in pod else {"apiVersion": "v1", "kind": "Pod", **pod}
    reads = ClusterReader(cluster)
    try:
        owners = owners_of(pod, reads)
        return None if any(map(asks_to_be_skipped, owners)) else group(pod, owners, reads, config)
    except ApiError as problem:
        raise GroupingError(str(problem)) from problem
    except MALFORMED as problem:
        raise GroupingError(malformed(problem)) from problem
    finally:
        reads.close()
