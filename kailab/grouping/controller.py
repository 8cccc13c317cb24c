"""Keeps a cluster grouped: every pod of the scheduler gets its PodGroup, and the annotation that names it.

Soft state only. A step takes in what the watches delivered and then looks at the pods that are due: new ones, ones
whose labels or annotations changed before they were bound, ones whose PodGroup was deleted under them, and ones that
could not be grouped, once something changes that was read for them. PodGroups go with their owners; nothing is
deleted here.
"""

from __future__ import annotations

from typing import Any

from kailab.cluster.protocol import Cluster, Object, WatchEvent
from kailab.errors import AlreadyExists, ApiError, Conflict, NotFound
from kailab.grouping.clusterreader import ClusterReader, Read
from kailab.grouping.config import GroupingConfig
from kailab.grouping.fields import annotations_of, labels_of
from kailab.grouping.owners import asks_to_be_skipped, owners_of
from kailab.grouping.plans import Plans
from kailab.grouping.podgroup import podgroup_object, updated
from kailab.grouping.records import Grouping, GroupingError
from kailab.model.labels import POD_GROUP, SUBGROUP_NAME

COMPONENT = "pod-grouper"
WARNING = "PodGrouperWarning"

# (namespace, name)
_Key = tuple[str, str]


class PodGrouper:
    """The podgrouper as a controller over any cluster."""

    def __init__(self, cluster: Cluster, config: GroupingConfig | None = None) -> None:
        self._cluster = cluster
        self._config = config or GroupingConfig()
        self._watch = cluster.watch(("Pod", "PodGroup"))
        self._reads = ClusterReader(cluster)
        self._plans = Plans(self._reads, self._config)
        self._pods: dict[_Key, Object] = {}
        self._pod_groups: dict[_Key, Object] = {}
        self._members: dict[_Key, dict[_Key, None]] = {}
        self._due: dict[_Key, None] = {}
        self._waiting: dict[Read, dict[_Key, None]] = {}
        self._warned: dict[_Key, str] = {}

    def step(self) -> bool:
        """Group the pods that are due; says whether anything was written."""
        for event in self._watch.poll():
            if event.kind == "Pod":
                self._take_pod(event)
            else:
                self._take_pod_group(event)
        for read in self._reads.changes():
            self._due.update(self._waiting.pop(read, ()))
        due, self._due = self._due, {}
        wrote = False
        for key in due:
            pod = self._pods.get(key)
            if pod is not None and "deletionTimestamp" not in pod["metadata"]:
                wrote |= self._group(key, pod)
        return wrote

    def close(self) -> None:
        """End the watches."""
        self._watch.close()
        self._reads.close()

    # --- what the watches say -----------------------------------------------------------------------------------------

    def _take_pod(self, event: WatchEvent) -> None:
        pod = event.object
        if pod["spec"].get("schedulerName") not in self._config.scheduler_names:
            return
        metadata = pod["metadata"]
        key = (metadata["namespace"], metadata["name"])
        before = self._pods.get(key)
        if event.type == "DELETED" or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            if before is not None:
                self._forget(key, before)
            return
        self._pods[key] = pod
        if before is pod:
            return
        if before is not None and before["metadata"].get("uid") != metadata.get("uid"):
            self._forget(key, before)
            self._pods[key] = pod
            before = None
        if before is None:
            self._enrol(key, pod)
            if self._is_new(pod):
                self._due[key] = None
        elif _tags(before) != _tags(pod):
            self._withdraw(key, before)
            self._enrol(key, pod)
            if not pod["spec"].get("nodeName"):
                self._due[key] = None

    def _is_new(self, pod: Object) -> bool:
        """Whether a pod just met is to be grouped.

        One that has its annotation is past it if it is bound, and keeps a PodGroup of its user's if nobody owns it.
        """
        if POD_GROUP not in annotations_of(pod):
            return True
        return bool(pod["metadata"].get("ownerReferences")) and not pod["spec"].get("nodeName")

    def _take_pod_group(self, event: WatchEvent) -> None:
        metadata = event.object["metadata"]
        key = (metadata["namespace"], metadata["name"])
        if event.type != "DELETED":
            self._pod_groups[key] = event.object
            return
        self._pod_groups.pop(key, None)
        self._due.update(self._members.get(key, ()))

    def _enrol(self, key: _Key, pod: Object) -> None:
        name = annotations_of(pod).get(POD_GROUP)
        if name is not None:
            self._members.setdefault((key[0], name), {})[key] = None

    def _withdraw(self, key: _Key, pod: Object) -> None:
        group = (key[0], annotations_of(pod).get(POD_GROUP, ""))
        members = self._members.get(group)
        if members is not None:
            members.pop(key, None)
            if not members:
                del self._members[group]

    def _forget(self, key: _Key, pod: Object) -> None:
        self._withdraw(key, pod)
        self._pods.pop(key, None)
        self._warned.pop(key, None)

    # --- grouping a pod -----------------------------------------------------------------------------------------------

    def _group(self, key: _Key, pod: Object) -> bool:
        self._reads.reads.clear()
        try:
            return self._grouped(key, pod)
        except Conflict:
            self._due[key] = None  # somebody else wrote the PodGroup; its new state arrives by the watch
            return False
        except (GroupingError, ApiError) as problem:
            return self._warn(key, pod, str(problem))
        except (AttributeError, LookupError, TypeError, ValueError) as problem:
            return self._warn(key, pod, f"an owner of the pod is not formed as its kind is: {problem!r}")

    def _grouped(self, key: _Key, pod: Object) -> bool:
        if asks_to_be_skipped(pod):
            return False
        metadata = pod["metadata"]
        owned = metadata.get("ownerReferences")
        name = annotations_of(pod).get(POD_GROUP)
        if name is not None and not owned:
            return False  # a PodGroup of the user's choice, or grouped before
        if "kind" not in pod:
            pod = {"apiVersion": "v1", "kind": "Pod", **pod}
        owners = owners_of(pod, self._reads) if owned else []
        if any(map(asks_to_be_skipped, owners)):
            return False
        plan, again = self._plans.plan(pod, owners)
        sub_group = plan.sub_group_of(pod)
        grouping = plan.grouping
        existing = self._pod_groups.get((grouping.namespace, grouping.name))
        wrote = False
        if existing is None or not again:
            wrote = self._write_pod_group(grouping, existing)
        patch: dict[str, Any] = {}
        if name != grouping.name:
            patch["annotations"] = {POD_GROUP: grouping.name}
        if sub_group and labels_of(pod).get(SUBGROUP_NAME) != sub_group:
            patch["labels"] = {SUBGROUP_NAME: sub_group}
        if patch:
            try:
                tagged = self._cluster.patch("Pod", key[1], key[0], {"metadata": patch})
            except NotFound:
                return wrote  # the pod went in the meantime
            self._withdraw(key, pod)
            self._enrol(key, tagged)
            self._pods[key] = tagged
        self._warned.pop(key, None)
        return wrote or bool(patch)

    def _write_pod_group(self, grouping: Grouping, existing: Object | None) -> bool:
        key = (grouping.namespace, grouping.name)
        if existing is None:
            try:
                self._pod_groups[key] = self._cluster.create(podgroup_object(grouping))
            except AlreadyExists:
                existing = self._cluster.get("PodGroup", grouping.name, grouping.namespace)
            else:
                return True
        wanted = updated(existing, grouping, self._config)
        if wanted is None:
            self._pod_groups[key] = existing
            return False
        self._pod_groups[key] = self._cluster.update(wanted)
        return True

    def _warn(self, key: _Key, pod: Object, message: str) -> bool:
        """Tell on the pod why it can't be grouped, once for each reason, and wait for a change of what was read."""
        for read in self._reads.reads:
            self._waiting.setdefault(read, {})[key] = None
        if self._warned.get(key) == message:
            return False
        self._warned[key] = message
        self._cluster.event(pod, "Warning", WARNING, message, COMPONENT)
        return True


def _tags(pod: Object) -> tuple[Any, Any]:
    metadata = pod["metadata"]
    return metadata.get("labels"), metadata.get("annotations")
