"""Pods that came with their node, and whose owner or PodGroup is not there: what a file of a running cluster leaves behind.

A cluster's garbage collector deletes such pods. A lab keeps them, as whoever brings the file means them to be there, so each gets a
PodGroup: the one that it names, or one of its own. Without it the pod would hold its node and count in no queue.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kailab.cluster.protocol import Cluster, Object, WatchEvent
from kailab.errors import AlreadyExists, ApiError, NotFound
from kailab.grouping.cluster_reader import ClusterReader
from kailab.grouping.family import GroupingConfig
from kailab.grouping.pod_grouping import group_pod, is_skipped, owners_of
from kailab.grouping.podgroup import podgroup_object
from kailab.grouping.records import GroupingError
from kailab.model.labels import POD_GROUP
from kailab.model.objects import annotations_of

Key = tuple[str, str]
"""Namespace and name."""


def is_bound_from_start(pod: Object) -> bool:
    """Whether a pod was on a node from the first: no binding has told that it was scheduled."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return bool(pod["spec"].get("nodeName")) and all(entry.get("type") != "PodScheduled" for entry in conditions)


def has_lost_owner(pod: Object, reads: ClusterReader) -> bool:
    """Whether one of the owners above a pod is not there."""
    try:
        owners_of(pod, reads)
    except (GroupingError, LookupError, TypeError):
        return True
    return False


class StrayPods:
    """Gives them their PodGroups. Soft state only."""

    def __init__(self, cluster: Cluster, config: GroupingConfig) -> None:
        self._cluster = cluster
        self._config = config
        self._watch = cluster.watch(("Pod", "PodGroup"))
        self._reads = ClusterReader(cluster)
        self._members: dict[Key, dict[Key, None]] = {}  # PodGroup -> pods that came bound and name it
        self._due: dict[Key, None] = {}

    def step(self) -> bool:
        """Look at pods that are new, or whose PodGroup is gone; says whether anything was written."""
        for event in self._watch.poll():
            self._due.update(dict.fromkeys(self._concerned(event)))
        if not self._due:
            return False
        for _ in self._reads.changes():
            pass  # owners are looked up as they are now
        self._reads.reads.clear()
        due, self._due = self._due, {}
        wrote = False
        for key in due:
            wrote = self._place(key) or wrote
        return wrote

    def close(self) -> None:
        self._watch.close()
        self._reads.close()

    def _concerned(self, event: WatchEvent) -> Iterator[Key]:
        obj, meta = event.object, event.object["metadata"]
        key = (meta["namespace"], meta["name"])
        if event.kind == "PodGroup":
            if event.type == "DELETED":
                yield from self._members.pop(key, ())
            return
        ours = obj["spec"].get("schedulerName") in self._config.scheduler_names
        if event.type == "ADDED" and ours and is_bound_from_start(obj):
            yield key

    def _place(self, key: Key) -> bool:
        pod = self._find("Pod", key)
        if pod is None or "deletionTimestamp" in pod["metadata"] or is_skipped(pod):
            return False
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return False
        name = annotations_of(pod).get(POD_GROUP)
        if name is not None:
            self._members.setdefault((key[0], name), {})[key] = None
            if self._find("PodGroup", (key[0], name)) is not None:
                return False
        # Whoever has owners is grouped by them, and whoever has none and names no PodGroup by itself.
        lost = bool(pod["metadata"].get("ownerReferences")) and has_lost_owner(pod, self._reads)
        if not lost and (name is None or pod["metadata"].get("ownerReferences")):
            return False
        return self._grouped(key, pod, name)

    def _grouped(self, key: Key, pod: Object, name: str | None) -> bool:
        try:
            alone = group_pod({"apiVersion": "v1", "kind": "Pod", **pod}, (), self._reads, self._config)
            grouping = alone if name is None else replace(alone, name=name)
            self._cluster.create(podgroup_object(grouping))
        except AlreadyExists:
            return False
        except (GroupingError, ApiError):
            return False  # the grouping tells it on the pod
        if name is None:
            self._cluster.patch("Pod", key[1], key[0], {"metadata": {"annotations": {POD_GROUP: grouping.name}}})
            self._members.setdefault((key[0], grouping.name), {})[key] = None
        return True

    def _find(self, kind: str, key: Key) -> Object | None:
        try:
            return self._cluster.get(kind, key[1], key[0])
        except NotFound:
            return None
