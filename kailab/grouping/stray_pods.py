"""Stray pods: pods that are created with a node and whose owner or PodGroup does not exist, as in files of a running cluster.

A cluster's garbage collector deletes such pods. A lab keeps them and gives each a PodGroup: the one that it names, or one of its own.
Without it the pod would use its node but count in no queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kailab.cluster.protocol import Cluster, Object, WatchEvent, find_object, object_exists
from kailab.errors import AlreadyExists, ApiError
from kailab.grouping.cluster_reader import ClusterReader
from kailab.grouping.family import GroupingConfig
from kailab.grouping.pod_grouping import group_pod, is_skipped, owner_chain
from kailab.grouping.podgroup import podgroup_object
from kailab.grouping.records import GroupingError
from kailab.model.labels import POD_GROUP
from kailab.model.objects import Key, annotations_of, condition_of, is_active, is_owned, node_of, object_key


def is_bound_from_start(pod: Object) -> bool:
    """Whether a pod was created with its node: it has no PodScheduled condition from a binding."""
    return bool(node_of(pod)) and condition_of(pod, "PodScheduled") is None


def has_lost_owner(pod: Object, reads: ClusterReader) -> bool:
    """Whether one of the owners above a pod does not exist."""
    try:
        owner_chain(pod, reads)
    except (GroupingError, LookupError, TypeError):
        return True
    return False


class StrayPods:
    """The controller that gives stray pods their PodGroups. It keeps soft state only."""

    def __init__(self, cluster: Cluster, config: GroupingConfig) -> None:
        self._cluster = cluster
        self._config = config
        self._watch = cluster.watch(("Pod", "PodGroup"))
        self._reads = ClusterReader(cluster)
        self._members: dict[Key, dict[Key, None]] = {}  # PodGroup -> stray pods that name it
        self._due: dict[Key, None] = {}

    def step(self) -> bool:
        """Handle pods that are new or whose PodGroup is gone. Returns whether anything was written."""
        for event in self._watch.poll():
            self._due.update(dict.fromkeys(self._affected_pods(event)))
        if not self._due:
            return False
        for _ in self._reads.changes():
            pass  # only to bring the reader up to date
        self._reads.reads.clear()
        due, self._due = self._due, {}
        wrote = False
        for key in due:
            wrote |= self._adopt(key)
        return wrote

    def close(self) -> None:
        self._watch.close()
        self._reads.close()

    def _affected_pods(self, event: WatchEvent) -> Iterator[Key]:
        obj = event.object
        if event.kind == "PodGroup":
            if event.type == "DELETED":
                yield from self._members.pop(object_key(obj), ())
            return
        is_ours = obj["spec"].get("schedulerName") in self._config.scheduler_names
        if event.type == "ADDED" and is_ours and is_bound_from_start(obj):
            yield object_key(obj)

    def _adopt(self, key: Key) -> bool:
        """Give a pod its PodGroup if it is a stray one. Returns whether anything was written."""
        pod = find_object(self._cluster, "Pod", key[1], key[0])
        if pod is None or not is_active(pod) or is_skipped(pod):
            return False
        name = annotations_of(pod).get(POD_GROUP)
        if name is not None:
            self._members.setdefault((key[0], name), {})[key] = None
            if object_exists(self._cluster, "PodGroup", name, key[0]):
                return False
        # The pod grouper handles pods with all their owners, and bare pods that name no PodGroup.
        if not has_lost_owner(pod, self._reads) if is_owned(pod) else name is None:
            return False
        return self._create_podgroup(key, pod, name)

    def _create_podgroup(self, key: Key, pod: Object, name: str | None) -> bool:
        try:
            grouping = group_pod({"apiVersion": "v1", "kind": "Pod", **pod}, (), self._reads, self._config)
            grouping = grouping if name is None else replace(grouping, name=name)
            self._cluster.create(podgroup_object(grouping))
        except AlreadyExists:
            return False
        except (GroupingError, ApiError):
            return False  # the pod grouper reports it on the pod
        if name is None:
            self._cluster.patch("Pod", key[1], key[0], {"metadata": {"annotations": {POD_GROUP: grouping.name}}})
            self._members.setdefault((key[0], grouping.name), {})[key] = None
        return True
