"""Run all workload controllers: receive changes, queue the owners concerned in order of arrival, and sync each.

An owner is synced when it changed, when an object that it controls changed its phase, readiness or deletion, or when it asked for a timer.
A binding or an annotation of a pod causes no sync.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.protocol import Watch, WatchEvent
from kailab.cluster.unreadable_objects import UnreadableObjects
from kailab.model.kinds import KINDS, key_of, kinds_generation, part
from kailab.model.objects import (
    Object,
    controller_of,
    is_ready,
    is_terminating,
    metadata_of,
    namespace_of,
    object_key,
    uid_of,
)
from kailab.workloads.controller import Controller, Reference, Workbench

_Seen = tuple[str, bool, bool, int]

_ADDED_TO_SPECS = ("PriorityClass", "RuntimeClass", "LimitRange")
"""Kinds that admission reads to complete pods."""
_REFUSING = ("ResourceQuota",)
"""Further kinds by which admission refuses pods. After a change of such an object, refused creates are tried again."""


class WorkloadControllers:
    """Runs the controller of every kind that has one. It keeps soft state only, so it can be made over a resumed cluster."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._dirty: dict[Reference, None] = {}
        self._bench = Workbench(cluster, self._wake)
        self._unreadable = UnreadableObjects(cluster.event, "workload-controller")
        self._retries = False  # something is there or gone for which creates may have been refused
        self._made: dict[str, Controller] = {}
        self._seen: dict[str, _Seen] = {}
        self._synced_version: dict[str, int] = {}  # uid -> resource version of the owner after its last sync
        self._watched: set[str] = set()
        self._watches: list[Watch] = []
        self._watch_new_kinds()

    def _watch_new_kinds(self) -> None:
        """Watch kinds that were registered since the last call: some are registered with their first manifest."""
        self._generation = kinds_generation()
        self._controlled = {key: kind.watches for key, kind in KINDS.items() if kind.controller is not None}
        others = [kind for watched in self._controlled.values() for kind in watched]
        wanted = dict.fromkeys((*self._controlled, *others, *_ADDED_TO_SPECS, *_REFUSING, "Pod"))
        new = [kind for kind in wanted if kind not in self._watched]
        if new:
            self._watched.update(new)
            self._watches.append(self._cluster.watch(new))

    def _controller(self, kind: str) -> Controller:
        """The controller of a kind, made when it is first needed."""
        controller = self._made.get(kind)
        if controller is None:
            controller = self._made[kind] = part(kind, "controller")(self._bench, kind)
        return controller

    def step(self) -> bool:
        """Sync all queued owners. Returns True if anything was written."""
        if self._generation != kinds_generation():
            self._watch_new_kinds()
        for event in (event for watch in self._watches for event in watch.poll()):
            self._unreadable.try_handling(event.object, self._handle_event, event)
        if self._retries:
            self._dirty.update(dict.fromkeys(self._refused()))
            self._retries = False
        if not self._dirty:
            return False
        # Owners queued during this step are synced in the next one, because an owner may queue itself repeatedly.
        dirty, self._dirty = self._dirty, {}
        bench = self._bench
        bench.wrote = False
        for reference in dirty:
            owner = bench.find(*reference)
            # Removed before the sync, which adds it again if a create is refused again.
            bench.stuck.pop(reference, None)
            if owner is not None:
                self._unreadable.try_handling(owner, self._sync, reference, owner)
        return bench.wrote

    def _sync(self, reference: Reference, owner: Object) -> None:
        # No controller here handles this kind, so the owner of this object is synced.
        if reference[0] not in self._controlled:
            self._mark_controller(owner)
            return
        controller = self._controller(reference[0])
        controller.sync(owner)
        # The version after the sync, including the sync's own writes. Events up to this version bring nothing new.
        if controller.ignores_own_writes and (current := self._bench.find(*reference)) is not None:
            self._synced_version[uid_of(current)] = int(metadata_of(current)["resourceVersion"])

    def close(self) -> None:
        """Stop watching."""
        for watch in self._watches:
            watch.close()

    def _wake(self, reference: Reference) -> None:
        self._dirty[reference] = None

    def _handle_event(self, event: WatchEvent) -> None:
        obj = event.object
        if event.kind == "Pod":
            if self._counts(event):
                self._mark_controller(obj)
                if event.type == "DELETED":
                    self._mark_above(obj)
                    # The name of a deleted pod is free, so refused creates are retried.
                    self._retries = True
                self._mark_concerned(event)
            return
        if event.kind in self._controlled:
            meta = obj["metadata"]
            if event.type == "DELETED":
                self._synced_version.pop(meta["uid"], None)
            elif int(meta["resourceVersion"]) > self._synced_version.get(meta["uid"], 0):
                self._dirty[event.kind, object_key(obj)] = None
            self._mark_controller(obj)
        elif event.kind in _ADDED_TO_SPECS:
            self._bench.forget_specs()
            self._retries = True
        elif event.kind in _REFUSING:
            self._retries = True
        self._mark_concerned(event)

    def _mark_concerned(self, event: WatchEvent) -> None:
        for kind, controller in self._made.items():  # a controller that is not made yet has no owners
            if event.kind in self._controlled[kind]:
                self._dirty.update(dict.fromkeys(controller.concerned(event)))

    def _refused(self) -> list[Reference]:
        """The owners whose creates were refused, the oldest first. The order of the refusals would be another one on a fork of the lab, and
        who comes first may get what is free."""
        return sorted(self._bench.stuck, key=self._age)

    def _age(self, reference: Reference) -> tuple[str, Reference]:
        owner = self._bench.find(*reference)
        return "" if owner is None else metadata_of(owner)["creationTimestamp"], reference

    def _counts(self, event: WatchEvent) -> bool:
        """True if the change of a pod matters to its owner."""
        pod = event.object
        uid = uid_of(pod)
        if event.type == "DELETED":
            self._seen.pop(uid, None)
            return True
        status = pod.get("status") or {}
        # Restarts count towards a Job's back-off limit with restartPolicy OnFailure, and change no phase.
        statuses = status.get("containerStatuses")
        restarts = sum([c.get("restartCount", 0) for c in statuses]) if statuses else 0
        seen = (status.get("phase", ""), is_ready(pod), is_terminating(pod), restarts)
        before = self._seen.get(uid)
        if seen == before:
            return False
        self._seen[uid] = seen
        # The controller that created the pod knows that it exists. Its first event matters only if the pod has changed since.
        if before is None and uid in self._bench.made:
            self._bench.made.discard(uid)
            return seen[0] != "Pending" or seen[2]
        return True

    def _mark_controller(self, obj: Object) -> None:
        owner = controller_of(obj)
        if owner is None:
            return
        kind, key = _reference(obj, owner)
        current = self._bench.find(kind, key)
        # The owner has no controller: it is a pod that owns others (the leader of a worker set, the driver of executors), or a Revision
        # between a Service and its Deployment. So its own owner is synced.
        if kind not in self._controlled:
            if current is not None:
                self._mark_controller(current)
                if kind == "Pod":
                    self._mark_above(current)
            return
        # An object of the owner's name with another UID is another object.
        if current is not None and uid_of(current) == owner["uid"]:
            self._dirty[kind, key] = None
        else:
            self._controller(kind).orphaned(obj)

    def _mark_above(self, obj: Object) -> None:
        """Queue the owner of the owner: some wait until the last pod of a child is deleted."""
        owner = controller_of(obj)
        if owner is not None:
            above = self._bench.find(*_reference(obj, owner))
            if above is not None and uid_of(above) == owner["uid"]:
                self._mark_controller(above)


def _reference(obj: Object, owner: Mapping[str, Any]) -> Reference:
    """The kind and key of an object's owner. ``owner``: its reference."""
    return key_of(owner.get("apiVersion", ""), owner.get("kind", "")), (namespace_of(obj), owner["name"])
