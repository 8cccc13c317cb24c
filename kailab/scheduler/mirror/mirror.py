"""The mirror: an engine ``WorkingSet`` that one watch keeps equal to the cluster.

A cycle then costs what changed since the last one. One ``update`` takes all changes together: it reads each object once, in its latest
state, and gives the working set only records that differ. So the scheduler's own status writes cause no new records.

The record of a node comes from three kinds of objects (Node, NodeResourceTopology, ResourceSlice), which arrive in any order. The mirror
therefore keeps the Node object and makes the record again when any of them changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kailab.cluster.protocol import Cluster, Object, WatchEvent
from kailab.cluster.unreadable_objects import EventSink, UnreadableObjects
from kailab.engine.snapshot.records import Node, Numa, PodGroup, Queue, Status, Task, Topology
from kailab.engine.working.workingset import WorkingSet
from kailab.model import labels as names
from kailab.model.objects import spec_of
from kailab.scheduler.mirror.gpu_reservations import GpuReservations
from kailab.scheduler.mirror.pod_shapes import PodShapes
from kailab.scheduler.reading import references
from kailab.scheduler.reading.claims import ClaimIndex
from kailab.scheduler.reading.nodes import node_record
from kailab.scheduler.reading.numa import numa_record
from kailab.scheduler.reading.podgroups import (
    DEFAULT_NODE_POOL,
    PriorityClasses,
    has_given_up,
    node_pool,
    podgroup_record,
)
from kailab.scheduler.reading.queues import queue_record
from kailab.scheduler.reading.tasks import gpu_groups, stuck_at, task_record

CLAIM_KINDS = ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")
KINDS = (
    "Namespace", "PriorityClass", "Topology", *CLAIM_KINDS, *references.REFERENCED_KINDS, "NodeResourceTopology", "Node", "Queue",
    "PodGroup", "Pod",
)  # fmt: skip
"""The watched kinds, in the order in which their events are taken in."""

COUNTED_KINDS = ("PriorityClass", *CLAIM_KINDS, "Node", "Queue", "PodGroup", "Pod")
"""The kinds that suffice to count allocations and to compute the serving order, but not to place pods."""


_NOTHING: Mapping[str, Any] = {}


def only_status_differs(before: Object, after: Object) -> bool:
    """True if certainly only the status differs. A write shares the unchanged parts of an object, so identity is enough."""
    old, new = before["metadata"], after["metadata"]
    return (
        before.get("spec") is after.get("spec")
        and old.get("labels") is new.get("labels")
        and old.get("annotations") is new.get("annotations")
    )


def pod_state(pod: Object) -> tuple[Any, ...]:
    """The fields of a pod's status and metadata that its task depends on, besides spec, labels and annotations."""
    status = pod.get("status") or _NOTHING
    return (
        status.get("phase"),
        status.get("nominatedNodeName"),
        pod["metadata"].get("deletionTimestamp"),
        status.get("resourceClaimStatuses"),
    )


class NodeRecords:
    """Passes changed nodes and topologies to the working set. ``pool``: nodes of other pools are left out."""

    def __init__(self, working: WorkingSet, claims: ClaimIndex, pool: str) -> None:
        self.nodes: dict[str, Node] = {}
        self.aliases: dict[str, dict[str, str]] = {}  # topology -> alias of a level -> its node label
        self._working = working
        self._claims = claims
        self._pool = pool
        self._objects: dict[str, Object] = {}
        self._numa: dict[str, Numa] = {}
        self._topologies: dict[str, Topology] = {}

    def capacity(self) -> dict[str, int]:
        """The capacity of the available nodes, in engine units."""
        nodes = [node for node in self.nodes.values() if not node.unavailable]
        return {
            "gpu": sum(node.gpus for node in nodes),
            "cpu": sum(node.cpu for node in nodes),
            "memory": sum(node.memory for node in nodes),
        }

    def take_node(self, event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        if event.type == "DELETED" or node_pool(event.object["metadata"]) != self._pool:
            self._objects.pop(name, None)
            if self.nodes.pop(name, None) is not None:
                self._working.remove_node(name)
            return
        self._objects[name] = event.object
        self.refresh(name)

    def take_zones(self, event: WatchEvent) -> None:
        """Take in the NUMA zones of a node; the caller refreshes the node."""
        name = event.object["metadata"]["name"]
        zones = numa_record(event.object) if event.type != "DELETED" else None
        if zones is None:
            self._numa.pop(name, None)
        else:
            self._numa[name] = zones

    def take_topology(self, event: WatchEvent) -> bool:
        """Returns whether aliases of levels have changed, which PodGroups may use."""
        name = event.object["metadata"]["name"]
        if event.type == "DELETED":
            self._topologies.pop(name, None)
            self._working.remove_topology(name)
            return self.aliases.pop(name, None) is not None
        levels = spec_of(event.object).get("levels") or ()
        record = Topology(name=name, levels=tuple(level["nodeLabel"] for level in levels))
        if self._topologies.get(name) != record:
            self._topologies[name] = record
            self._working.set_topology(record)
        aliases = {level["alias"]: level["nodeLabel"] for level in levels if level.get("alias")}
        changed = self.aliases.get(name, {}) != aliases
        self.aliases[name] = aliases
        return changed

    def refresh(self, name: str) -> None:
        """Make a node's record again."""
        # Zones and slices may exist before and after their node.
        obj = self._objects.get(name)
        if obj is None:
            return
        # Most events of nodes are heartbeats, which leave the record equal.
        record = node_record(obj, self._claims.gpus_on(name), self._claims.devices_on(name), self._numa.get(name))
        if self.nodes.get(name) != record:
            self.nodes[name] = record
            self._working.set_node(record)


_GONE = (Status.FAILED, Status.UNKNOWN)
_UNPLACED = (Status.PENDING, Status.GATED, Status.SUCCEEDED)
_TIMELESS = (Status.PENDING, Status.GATED, Status.BOUND, Status.RUNNING)  # statuses that do not depend on the time

GroupName = tuple[str, str]
"""Namespace and name of a PodGroup."""


class Mirror:
    """Keeps a WorkingSet equal to the cluster. ``scheduler_names``: the schedulers whose pods are placed; other pods only use capacity.
    ``node_pool``: as in KAI's shards, nodes, queues and PodGroups of other pools are left out. ``kinds``: the watched kinds. ``tell``
    reports objects that can't be read; by default as an event."""

    def __init__(
        self,
        cluster: Cluster,
        scheduler_names: Iterable[str] = (names.SCHEDULER_NAME,),
        node_pool: str = DEFAULT_NODE_POOL,
        kinds: Iterable[str] = KINDS,
        tell: EventSink | None = None,
    ) -> None:
        self.working = WorkingSet()
        self.pods: dict[str, Object] = {}
        self.tasks: dict[str, Task] = {}
        self.podgroups: dict[str, PodGroup] = {}
        self.podgroup_objects: dict[str, Object] = {}
        self.queues: dict[str, Queue] = {}
        self.priorities = PriorityClasses()
        self.conditioned: dict[str, None] = {}  # UIDs of PodGroups with a scheduling condition
        self.marked_stale: dict[str, None] = {}  # UIDs of PodGroups with a stale-since annotation
        self._scheduler_names = frozenset(scheduler_names)
        self.pool = node_pool
        self._claims = ClaimIndex(self.working)
        self._shapes = PodShapes(self._claims, self._refresh_all)
        self._nodes = NodeRecords(self.working, self._claims, node_pool)
        self.nodes = self._nodes.nodes
        self._uids: dict[GroupName, str] = {}
        self._members: dict[GroupName, dict[str, None]] = {}
        self._group_of: dict[str, GroupName] = {}
        self._reservations = GpuReservations(self.working, self._refresh)
        self._leaving: dict[str, float] = {}
        self._now = 0.0
        self._before: Mirror | None = None
        self._cluster = cluster
        self._unreadable = UnreadableObjects(tell or cluster.event, "scheduler")
        self._watch = cluster.watch(kinds)

    # --- queries ------------------------------------------------------------------------------------------------------

    def members(self, podgroup: str) -> list[Task]:
        """The tasks of a PodGroup (by UID), in order of arrival."""
        record = self.podgroups.get(podgroup)
        uids = self._members.get((record.namespace, record.name), _NOTHING) if record else ()
        return [task for uid in uids if (task := self.tasks.get(uid)) is not None]

    def pod_name(self, uid: str) -> str:
        """``namespace/name``, or "" for an unknown pod."""
        task = self.tasks.get(uid)
        return f"{task.namespace}/{task.name}" if task else ""

    def podgroup_name(self, uid: str) -> str:
        record = self.podgroups.get(uid)
        return f"{record.namespace}/{record.name}" if record else ""

    def capacity(self) -> dict[str, int]:
        """The capacity of the available nodes, in engine units."""
        return self._nodes.capacity()

    @property
    def stuck_at(self) -> float | None:
        """When the next terminating pod will count as stuck."""
        return min(self._leaving.values()) if self._leaving else None

    def hold_back(self, uid: str, reason: str | None) -> None:
        """Count a pending pod as blocked for ``reason``; None: no longer."""
        self._shapes.hold_back(uid, reason)
        if uid in self.pods:
            self._refresh(uid)

    def held_back_reason(self, uid: str) -> str | None:
        return self._shapes.held_back_reason(uid)

    def agrees(self, other: Mirror) -> bool:
        """Whether the records of both mirrors are equal."""
        mine, theirs = self.working, other.working
        return (
            self.tasks == other.tasks
            and self.podgroups == other.podgroups
            and mine.nodes == theirs.nodes
            and self.queues == other.queues
            and mine.topologies == theirs.topologies
            and mine.claims == theirs.claims
        )

    def is_held_back(self, uid: str) -> bool:
        return self._shapes.is_held_back(uid)

    def close(self) -> None:
        self._watch.close()

    # --- watch events -------------------------------------------------------------------------------------------------

    def update(self) -> None:
        """Take in the watch events since the last call."""
        now = self._now = self._cluster.now()
        events = self._watch.poll()
        if events:
            self._take(events)
        if self._leaving:
            for uid in [uid for uid, when in self._leaving.items() if now > when]:
                del self._leaving[uid]
                self._refresh(uid)

    def update_like(self, before: Mirror) -> None:
        """As ``update``, for a new mirror: takes over the records that ``before`` has of the same objects."""
        same = (before.pool, before._scheduler_names) == (self.pool, self._scheduler_names)
        self._before = before if same else None
        self.update()
        self._before = None

    def _take(self, events: Iterable[WatchEvent]) -> None:
        latest: dict[str, dict[str, WatchEvent]] = {kind: {} for kind in KINDS}
        for event in events:
            metadata = event.object["metadata"]
            # By UID: an object deleted and created again under its name is two objects, and both events count.
            latest[event.kind][metadata.get("uid") or metadata["name"]] = event
        # In the order in which records need each other: a PodGroup needs priorities and the aliases of topologies, a node its zones and
        # devices, a pod its PodGroup and the parts of its shape.
        shapes_stale = pods_stale = groups_stale = False
        for event in latest["Namespace"].values():
            shapes_stale |= self._shapes.take_namespace(event)
        for event in latest["PriorityClass"].values():
            # Any class may be the default of PodGroups that name none, so all are refreshed. This is rare.
            groups_stale = True
            self._take_one(self._priority_class, event)
        for event in latest["Topology"].values():
            groups_stale |= bool(self._take_one(self._nodes.take_topology, event))
        nodes: dict[str, None] = {}
        for kind in CLAIM_KINDS:
            for event in latest[kind].values():
                # Each node is refreshed once, after all slices and zones are known.
                nodes.update(dict.fromkeys(self._take_one(self._claim_object, event)))
                pods_stale = True
        for event in latest["NodeResourceTopology"].values():
            self._take_one(self._nodes.take_zones, event)
            nodes[event.object["metadata"]["name"]] = None
        for kind in references.REFERENCED_KINDS:
            for event in latest[kind].values():
                pods_stale |= self._shapes.take_reference(event)
        for event in latest["Node"].values():
            self._take_one(self._nodes.take_node, event)
        for name in sorted(nodes):
            self._nodes.refresh(name)
        for event in latest["Queue"].values():
            self._take_one(self._queue, event)
        if groups_stale:
            for obj in list(self.podgroup_objects.values()):
                if not self._unreadable.try_handling(obj, self._refresh_podgroup, obj):
                    self._drop_podgroup(obj["metadata"]["uid"])
        # For a PodGroup deleted and created again under its name, the old one goes first.
        for event in sorted(latest["PodGroup"].values(), key=lambda event: event.type != "DELETED"):
            self._take_one(self._podgroup, event)
        for uid, event in latest["Pod"].items():
            if self._before is not None and self._copy_task(self._before, uid, event.object):
                continue
            if event.type == "DELETED" or not self._unreadable.try_handling(event.object, self._pod, uid, event.object):
                self._forget_pod(uid)
        if shapes_stale:
            self._shapes.forget_all()
            self._refresh_all()
        elif pods_stale:
            for uid in self._shapes.dependent_pods():
                self._refresh(uid)

    def _take_one(self, take: Callable[[WatchEvent], Any], event: WatchEvent) -> Any:
        """Take in one object. An object that can't be read counts as deleted."""
        try:
            return take(event)
        except Exception as error:
            self._unreadable.note(event.object, error)
            # Otherwise cycles would decide on the record of its earlier state.
            return take(event._replace(type="DELETED"))

    def _priority_class(self, event: WatchEvent) -> None:
        if event.type == "DELETED":
            self.priorities.remove(event.object["metadata"]["name"])
        else:
            self.priorities.set(event.object)

    def _claim_object(self, event: WatchEvent) -> Iterable[str]:
        """Take in a claim, template, class or slice. Returns the nodes that it concerns."""
        return self._claims.take(event.kind, event.object, event.type == "DELETED")

    def _queue(self, event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        if event.type == "DELETED" or node_pool(event.object["metadata"]) != self.pool:
            if self.queues.pop(name, None) is not None:
                self.working.remove_queue(name)
            return
        record = queue_record(event.object)
        if self.queues.get(name) != record:
            self.queues[name] = record
            self.working.set_queue(record)

    # --- PodGroups ---------------------------------------------------------------------------------------------------

    def _podgroup(self, event: WatchEvent) -> None:
        obj = event.object
        metadata = obj["metadata"]
        uid = metadata["uid"]
        if event.type == "DELETED":
            self.podgroup_objects.pop(uid, None)
            self.conditioned.pop(uid, None)
            self._drop_podgroup(uid)
            return
        before = self.podgroup_objects.get(uid)
        self.podgroup_objects[uid] = obj
        if (obj.get("status") or _NOTHING).get("schedulingConditions"):
            self.conditioned[uid] = None
        else:
            self.conditioned.pop(uid, None)
        # With a schedulingBackoff the status decides whether KAI has given the group up.
        if (
            before is None
            or not only_status_differs(before, obj)
            or "schedulingBackoff" in (obj.get("spec") or _NOTHING)
        ):
            self._refresh_podgroup(obj)

    def _refresh_podgroup(self, obj: Object) -> None:
        metadata = obj["metadata"]
        uid = metadata["uid"]
        if node_pool(metadata) != self.pool or has_given_up(obj):
            self._drop_podgroup(uid)
            return
        record = self._known_podgroup(uid, obj) or podgroup_record(obj, self.priorities, self._nodes.aliases)
        before = self.podgroups.get(uid)
        if before == record:
            return
        self.podgroups[uid] = record
        if record.stale_since is not None:
            self.marked_stale[uid] = None
        else:
            self.marked_stale.pop(uid, None)
        self.working.set_podgroup(record)
        # Pods may arrive before their PodGroup.
        if before is None:
            self._uids[record.namespace, record.name] = uid
            for member in self._members.get((record.namespace, record.name), _NOTHING):
                self._refresh(member)

    def _known_podgroup(self, uid: str, obj: Object) -> PodGroup | None:
        """The record that the mirror of ``update_like`` has of the PodGroup; None if it must be made."""
        before = self._before
        if before is None or before.podgroup_objects.get(uid) is not obj:
            return None
        same = self.priorities == before.priorities and self._nodes.aliases == before._nodes.aliases
        return before.podgroups.get(uid) if same else None

    def _drop_podgroup(self, uid: str) -> None:
        record = self.podgroups.pop(uid, None)
        if record is None:
            return
        self.marked_stale.pop(uid, None)
        self.working.remove_podgroup(uid)
        name = (record.namespace, record.name)
        if self._uids.get(name) == uid:
            del self._uids[name]
        for member in self._members.get(name, _NOTHING):
            self._refresh(member)

    # --- pods --------------------------------------------------------------------------------------------------------

    def _pod(self, uid: str, pod: Object) -> None:
        known = self.pods.get(uid)
        self.pods[uid] = pod
        # Most events of pods change only their status, and no record.
        if known is not None and only_status_differs(known, pod) and pod_state(known) == pod_state(pod):
            return
        metadata = pod["metadata"]
        name = (metadata.get("annotations") or _NOTHING).get(names.POD_GROUP)
        group = (metadata["namespace"], name) if name else None
        before = self._group_of.get(uid)
        if group != before:
            if before is not None:
                self._leave_group(uid, before)
            if group is not None:
                self._group_of[uid] = group
                self._members.setdefault(group, {})[uid] = None
        self._shapes.take_pod(uid, pod)
        self._refresh(uid)

    def _copy_task(self, before: Mirror, uid: str, pod: Object) -> bool:
        """Take over the pod's task from another mirror. Returns False if the task must be made: the object differs, or the task depends on
        more than the pod and its PodGroup."""
        task, group = before.tasks.get(uid), before._group_of.get(uid)
        if task is None or group is None or before.pods.get(uid) is not pod or task.podgroup != self._uids.get(group):
            return False
        if task.status not in _TIMELESS or task.gpu_groups or not self._shapes.same_in(before._shapes, uid, task.shape):
            return False
        self.pods[uid] = pod
        self._group_of[uid] = group
        self._members.setdefault(group, {})[uid] = None
        self.tasks[uid] = task
        self.working.set_task(task)
        return True

    def _leave_group(self, uid: str, group: GroupName) -> None:
        del self._group_of[uid]
        members = self._members[group]
        del members[uid]
        if not members:
            del self._members[group]

    def _forget_pod(self, uid: str) -> None:
        self.pods.pop(uid, None)
        self._shapes.forget_pod(uid)
        group = self._group_of.get(uid)
        if group is not None:
            self._leave_group(uid, group)
        self._drop_task(uid)

    def _drop_task(self, uid: str) -> None:
        self._leaving.pop(uid, None)
        if self.tasks.pop(uid, None) is not None:
            self.working.remove_task(uid)
            self._reservations.forget(uid)

    def _refresh_all(self) -> None:
        for uid in self.pods:
            self._refresh(uid)

    def _refresh(self, uid: str) -> None:
        """Make the task of a pod again. A pod that can't be read has none."""
        pod = self.pods[uid]
        try:
            self._update_task(uid, pod)
        except Exception as error:
            self._unreadable.note(pod, error)
            self._drop_task(uid)

    def _update_task(self, uid: str, pod: Object) -> None:
        group = self._group_of.get(uid)
        podgroup = self._uids.get(group, "") if group is not None else ""
        spec = pod["spec"]
        node = spec.get("nodeName")
        # A pod of another scheduler or without a PodGroup matters only on a node, where it uses capacity.
        if not node and (not podgroup or spec.get("schedulerName") not in self._scheduler_names):
            self._drop_task(uid)
            return
        task = task_record(pod, podgroup, self._shapes.of(uid, pod), self._now)
        status = task.status
        if status in _GONE or (not node and status not in _UNPLACED) or (not podgroup and status is Status.SUCCEEDED):
            self._drop_task(uid)
            return
        if task.namespace == names.RESERVATION_NAMESPACE:
            task = self._reservations.set_reservation(task, gpu_groups(pod["metadata"].get("labels") or _NOTHING))
        else:
            self._reservations.set_sharing(uid, node or "", task.gpu_groups if status is not Status.SUCCEEDED else ())
        # No event reports that a pod is stuck, so ``update`` refreshes it at that time.
        if status is Status.RELEASING and (pod.get("status") or _NOTHING).get("phase") == "Running":
            self._leaving[uid] = stuck_at(pod["metadata"]["deletionTimestamp"])
        if self.tasks.get(uid) != task:
            self.tasks[uid] = task
            self.working.set_task(task)
