"""The scheduler's picture of a cluster: an engine WorkingSet kept up to date from one watch.

A cycle then costs what changed, not what exists. All changes of one ``update`` are taken together: each object is
looked at once, in its latest state, and a record is handed to the working set only if it differs from the one there. So
the scheduler's own status writes do not look like news.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kailab.cluster.protocol import Cluster, Object, WatchEvent
from kailab.cluster.unreadable import Tell, UnreadableObjects
from kailab.engine.snapshot.records import PodGroup, Queue, Status, Task
from kailab.engine.working.workingset import WorkingSet
from kailab.model import labels as names
from kailab.scheduler.mirror.gpu_reservations import GpuReservations
from kailab.scheduler.mirror.kinds import CLAIM_KINDS, KINDS
from kailab.scheduler.mirror.news import same_but_status, state
from kailab.scheduler.mirror.node_records import NodeRecords
from kailab.scheduler.mirror.pod_shapes import PodShapes
from kailab.scheduler.reading import references
from kailab.scheduler.reading.claims import Claims
from kailab.scheduler.reading.podgroups import DEFAULT_NODE_POOL, Priorities, gave_up, node_pool, podgroup_record
from kailab.scheduler.reading.queues import queue_record
from kailab.scheduler.reading.tasks import gpu_groups, stuck_at, task_record

_NOTHING: Mapping[str, Any] = {}
_GONE = (Status.FAILED, Status.UNKNOWN)
_UNPLACED = (Status.PENDING, Status.GATED, Status.SUCCEEDED)
_TIMELESS = (Status.PENDING, Status.GATED, Status.BOUND, Status.RUNNING)  # that a pod has until it changes

GroupName = tuple[str, str]
"""Namespace and name of a PodGroup, as pods give it."""


class Mirror:
    """``scheduler_names``: whose pods are to be placed; pods of others only use up nodes. ``node_pool``: as KAI's
    shards, nodes, queues and PodGroups of other pools are left out. ``kinds``: what is looked at.
    ``tell``: who hears of objects that can't be read; by default they get an event."""

    def __init__(
        self,
        cluster: Cluster,
        scheduler_names: Iterable[str] = (names.SCHEDULER_NAME,),
        node_pool: str = DEFAULT_NODE_POOL,
        kinds: Iterable[str] = KINDS,
        tell: Tell | None = None,
    ) -> None:
        self.working = WorkingSet()
        self.pods: dict[str, Object] = {}
        self.tasks: dict[str, Task] = {}
        self.podgroups: dict[str, PodGroup] = {}
        self.podgroup_objects: dict[str, Object] = {}
        self.queues: dict[str, Queue] = {}
        self.priorities = Priorities()
        self.conditioned: dict[str, None] = {}  # PodGroups whose status carries a scheduling condition
        self.marked_stale: dict[str, None] = {}  # PodGroups whose annotations say since when they are stale
        self._scheduler_names = frozenset(scheduler_names)
        self.pool = node_pool
        self._claims = Claims(self.working)
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

    # --- what others ask ---------------------------------------------------------------------------------------------

    def members(self, podgroup: str) -> list[Task]:
        """Tasks of a PodGroup (by UID), in order of arrival."""
        record = self.podgroups.get(podgroup)
        uids = self._members.get((record.namespace, record.name), _NOTHING) if record else ()
        return [task for uid in uids if (task := self.tasks.get(uid)) is not None]

    def pod_name(self, uid: str) -> str:
        """``namespace/name``; empty if the pod is not known."""
        task = self.tasks.get(uid)
        return f"{task.namespace}/{task.name}" if task else ""

    def podgroup_name(self, uid: str) -> str:
        record = self.podgroups.get(uid)
        return f"{record.namespace}/{record.name}" if record else ""

    def capacity(self) -> dict[str, int]:
        """What the available nodes offer, in engine units."""
        return self._nodes.capacity()

    @property
    def stuck_at(self) -> float | None:
        """When the next pod being deleted will count as stuck, if it is still there."""
        return min(self._leaving.values()) if self._leaving else None

    def hold_back(self, uid: str, why: str | None) -> None:
        """Let a pod that waits count as blocked, ``why`` told; None: no longer."""
        self._shapes.hold_back(uid, why)
        if uid in self.pods:
            self._refresh(uid)

    def why_held_back(self, uid: str) -> str | None:
        return self._shapes.why_held_back(uid)

    def agrees(self, other: Mirror) -> bool:
        """Whether the records are the same."""
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

    # --- taking in changes -------------------------------------------------------------------------------------------

    def update(self) -> None:
        """Take in what the watch delivered since the last call."""
        now = self._now = self._cluster.now()
        events = self._watch.poll()
        if events:
            self._take(events)
        if self._leaving:
            for uid in [uid for uid, when in self._leaving.items() if now > when]:
                del self._leaving[uid]
                self._refresh(uid)

    def update_like(self, before: Mirror) -> None:
        """As ``update``, of a mirror that is new: what ``before`` has read of the same objects is not read again."""
        alike = (before.pool, before._scheduler_names) == (self.pool, self._scheduler_names)
        self._before = before if alike else None
        self.update()
        self._before = None

    def _take(self, events: Iterable[WatchEvent]) -> None:
        latest: dict[str, dict[str, WatchEvent]] = {kind: {} for kind in KINDS}
        for event in events:
            metadata = event.object["metadata"]
            # By UID: an object deleted and made anew under its name is two, and both events count.
            latest[event.kind][metadata.get("uid") or metadata["name"]] = event
        # Kinds in the order in which records need each other: a PodGroup needs priorities and the aliases of topologies,
        # a node its zones and devices, a pod its PodGroup and what its shape is made of.
        shapes_stale = pods_stale = groups_stale = False
        for event in latest["Namespace"].values():
            shapes_stale |= self._shapes.take_namespace(event)
        for event in latest["PriorityClass"].values():
            # Any class may be the default of PodGroups that name none: all are looked at again, which rarely happens.
            groups_stale = True
            self._take_one(self._priority_class, event)
        for event in latest["Topology"].values():
            groups_stale |= bool(self._take_one(self._nodes.take_topology, event))
        nodes: dict[str, None] = {}
        for kind in CLAIM_KINDS:
            for event in latest[kind].values():
                # Nodes are noted and refreshed once, after all slices and zones are known.
                nodes.update(dict.fromkeys(self._take_one(self._claim_object, event)))
                pods_stale = True
        for event in latest["NodeResourceTopology"].values():
            self._take_one(self._nodes.take_zones, event)
            nodes[event.object["metadata"]["name"]] = None
        for kind in references.KINDS:
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
                if not self._unreadable.spare(obj, self._refresh_podgroup, obj):
                    self._drop_podgroup(obj["metadata"]["uid"])
        # A PodGroup deleted and made anew under its name: the old one goes before the new one comes.
        for event in sorted(latest["PodGroup"].values(), key=lambda event: event.type != "DELETED"):
            self._take_one(self._podgroup, event)
        for uid, event in latest["Pod"].items():
            if self._before is not None and self._pod_as(self._before, uid, event.object):
                continue
            if event.type == "DELETED" or not self._unreadable.spare(event.object, self._pod, uid, event.object):
                self._forget_pod(uid)
        if shapes_stale:
            self._shapes.forget_all()
            self._refresh_all()
        # Otherwise these have been refreshed with the rest.
        elif pods_stale:
            for uid in self._shapes.naming_others():
                self._refresh(uid)

    def _take_one(self, take: Callable[[WatchEvent], Any], event: WatchEvent) -> Any:
        """Take in one object; one that can't be read is as good as gone."""
        try:
            return take(event)
        except Exception as error:
            self._unreadable.note(event.object, error)
            # A record of an earlier, readable state would be decided on as if it were the present one.
            return take(event._replace(type="DELETED"))

    def _priority_class(self, event: WatchEvent) -> None:
        if event.type == "DELETED":
            self.priorities.remove(event.object["metadata"]["name"])
        else:
            self.priorities.set(event.object)

    def _claim_object(self, event: WatchEvent) -> Iterable[str]:
        """A claim, a template, a class or a slice; the nodes that it concerns."""
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
        # With a schedulingBackoff a condition in the status says that KAI has given the group up.
        if before is None or not same_but_status(before, obj) or "schedulingBackoff" in (obj.get("spec") or _NOTHING):
            self._refresh_podgroup(obj)

    def _refresh_podgroup(self, obj: Object) -> None:
        metadata = obj["metadata"]
        uid = metadata["uid"]
        if node_pool(metadata) != self.pool or gave_up(obj):
            self._drop_podgroup(uid)
            return
        record = self._podgroup_as(uid, obj) or podgroup_record(obj, self.priorities, self._nodes.aliases)
        before = self.podgroups.get(uid)
        if before == record:
            return
        self.podgroups[uid] = record
        if record.stale_since is not None:
            self.marked_stale[uid] = None
        else:
            self.marked_stale.pop(uid, None)
        self.working.set_podgroup(record)
        # Pods may have come before their PodGroup.
        if before is None:
            self._uids[record.namespace, record.name] = uid
            for member in self._members.get((record.namespace, record.name), _NOTHING):
                self._refresh(member)

    def _podgroup_as(self, uid: str, obj: Object) -> PodGroup | None:
        """The record that another mirror has of it; None where it is to be read."""
        before = self._before
        if before is None or before.podgroup_objects.get(uid) is not obj:
            return None
        alike = self.priorities.said == before.priorities.said and self._nodes.aliases == before._nodes.aliases
        return before.podgroups.get(uid) if alike else None

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
        # Most news of pods is of their status alone, much of it written by ourselves: no record changes by it.
        if known is not None and same_but_status(known, pod) and state(known) == state(pod):
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

    def _pod_as(self, before: Mirror, uid: str, pod: Object) -> bool:
        """Take over the task that another mirror has of it. False where it is to be read: it is another object, or its task depends on
        more than itself and its PodGroup."""
        task, group = before.tasks.get(uid), before._group_of.get(uid)
        if task is None or group is None or before.pods.get(uid) is not pod or task.podgroup != self._uids.get(group):
            return False
        if task.status not in _TIMELESS or task.gpu_groups or not self._shapes.as_in(before._shapes, uid, task.shape):
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
        """Bring one pod's task in line with the pod."""
        pod = self.pods[uid]
        try:
            self._bring_in_line(uid, pod)
        except Exception as error:
            self._unreadable.note(pod, error)
            self._drop_task(uid)

    def _bring_in_line(self, uid: str, pod: Object) -> None:
        group = self._group_of.get(uid)
        podgroup = self._uids.get(group, "") if group is not None else ""
        spec = pod["spec"]
        node = spec.get("nodeName")
        # A pod of another scheduler, or of no PodGroup, matters only once it is on a node: there it uses up room.
        if not node and (not podgroup or spec.get("schedulerName") not in self._scheduler_names):
            self._drop_task(uid)
            return
        task = task_record(pod, podgroup, self._shapes.of(uid, pod), self._now)
        status = task.status
        if status in _GONE or (not node and status not in _UNPLACED) or (not podgroup and status is Status.SUCCEEDED):
            self._drop_task(uid)
            return
        if task.namespace == names.RESERVATION_NAMESPACE:
            task = self._reservations.reserves(task, gpu_groups(pod["metadata"].get("labels") or _NOTHING))
        else:
            self._reservations.shares(uid, node or "", task.gpu_groups if status is not Status.SUCCEEDED else ())
        # Nothing is told when it gets stuck: only time passes, so somebody has to look again.
        if status is Status.RELEASING and (pod.get("status") or _NOTHING).get("phase") == "Running":
            self._leaving[uid] = stuck_at(pod["metadata"]["deletionTimestamp"])
        if self.tasks.get(uid) != task:
            self.tasks[uid] = task
            self.working.set_task(task)
