"""The mirror: an engine ``WorkingSet`` that one watch keeps equal to the cluster.

A cycle then costs what changed since the last one. One ``update`` takes all changes together: it reads each object once, in its latest
state, and gives the working set only records that differ. So the scheduler's own status writes cause no new records.

The record of a node comes from three kinds of objects (Node, NodeResourceTopology, ResourceSlice), which arrive in any order. The mirror
therefore keeps the Node object and makes the record again when any of them changes.

``GpuReservations`` counts the reservation pods of shared GPUs (``kailab.scheduler.binding.reservation_pods``) on their nodes. The pods that
share a GPU account for it; the reservation pod accounts only for its pod slot and its other requests. Source: KAI
node_info.addTaskResources. If a GPU is shared without a reservation, as in an embedded lab, a *stand-in* task holds the pod slot. A *lone*
reservation is one whose GPU no pod shares. It will be deleted, but until then the API server counts its GPU on the node. So it counts as a
releasing pod with a whole GPU: other pods may wait for that GPU but can't take it. KAI never counts the GPU of a reservation.

``PodShapes`` makes the shape of each pod: the constraints and requests of its spec, with an overlay of what depends on other objects. The
overlay has namespace labels, resource claims, missing ConfigMaps and volume claims, and the pause after a failed binding. Few pods need
one, so the shape of the spec is made once and shared by many pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

import msgspec
from msgspec import structs

from kailab.cluster.protocol import Cluster, Object, WatchEvent
from kailab.cluster.selectors import from_label_selector, matches
from kailab.cluster.unreadable_objects import EventSink, UnreadableObjects
from kailab.engine.snapshot.gpu_requests import NO_GPU
from kailab.engine.snapshot.records import Node, Numa, PodGroup, PodTerm, Queue, Shape, Status, Task, Topology
from kailab.engine.snapshot.snapshot import Snapshot
from kailab.engine.working.workingset import WorkingSet
from kailab.model import labels as names
from kailab.model.multimap import SetIndex
from kailab.model.objects import Key, labels_of, metadata_of, name_of, namespace_of, node_of, spec_of, uid_of
from kailab.scheduler.reading import latest_events, references
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
from kailab.scheduler.reading.shapes import ShapeCache
from kailab.scheduler.reading.tasks import gpu_groups, stuck_at, task_record, with_status
from kailab.scheduler.reading.volumes import NO_LIMITS, VOLUME_KINDS, VolumeIndex, both_terms


class PodShapes:
    """Makes the pods' shapes. ``shapes_lack``: called when a pod's affinity selects labels that earlier shapes lack; must refresh all pods."""

    def __init__(self, claims: ClaimIndex, shapes_lack: Callable[[], None]) -> None:
        self._claims = claims
        self._shapes_lack = shapes_lack
        self._cache = ShapeCache(self._select_namespaces)
        self._overlays: dict[tuple[Any, ...], Shape] = {}
        self._claiming: dict[str, None] = {}  # pods with resource claims
        self._existing: set[references.ObjectReference] = set()
        self._volumes = VolumeIndex()
        self._referring: dict[str, tuple[references.ObjectReference, ...]] = {}
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self._namespace_selectors = False
        self._watched_labels: set[str] = set()
        self._pod_terms = False  # some pod has pod affinity: shapes then carry labels and namespace
        self.held_back: dict[str, str] = {}  # pending pod -> why it counts as blocked

    # --- overlays -----------------------------------------------------------------------------------------------------

    def process_namespace(self, event: WatchEvent) -> bool:
        """Returns whether earlier shapes may have become wrong."""
        name, labels = name_of(event.object), labels_of(event.object)
        before = self._namespaces.pop(name, None)
        if event.type != "DELETED":
            self._namespaces[name] = labels
        return self._namespace_selectors and before != self._namespaces.get(name)

    def process_reference(self, event: WatchEvent) -> bool:
        """Process an object that pods may reference, directly or by a claim. Returns whether shapes of pods may have changed."""
        limits_changed = self._volumes.process_object(event.kind, event.object, event.type == "DELETED")
        if event.kind not in references.REFERENCED_KINDS:
            return limits_changed
        reference = references.ObjectReference(event.kind, namespace_of(event.object), name_of(event.object))
        known = reference in self._existing
        if event.type == "DELETED":
            self._existing.discard(reference)
        else:
            self._existing.add(reference)
        return limits_changed or known != (reference in self._existing)

    def process_pod(self, uid: str, pod: Object) -> None:
        """Note whether the pod has claims or references."""
        if pod["spec"].get("resourceClaims"):
            self._claiming[uid] = None
        if wanted := references.referenced_objects(pod):
            self._referring[uid] = wanted

    def forget_pod(self, uid: str) -> None:
        self._claiming.pop(uid, None)
        self._referring.pop(uid, None)

    def dependent_pods(self) -> list[str]:
        """Pods whose shape depends on claims or on referenced objects."""
        return [*self._claiming, *self._referring]

    def forget_all(self) -> None:
        """Make all shapes again, after a change of namespaces."""
        self._cache.forget()

    def _select_namespaces(self, selector: Mapping[str, Any]) -> tuple[str, ...]:
        self._namespace_selectors = True
        terms = from_label_selector(selector) or ()
        return tuple(sorted(name for name, labels in self._namespaces.items() if matches(terms, labels)))

    def __getstate__(self) -> dict[str, Any]:
        """Without the overlays, whose keys are identities of objects."""
        return {**self.__dict__, "_overlays": {}}

    # --- the shape ---------------------------------------------------------------------------------------------------

    def of(self, uid: str, pod: Object) -> Shape:
        shape = self._cache.of(pod)
        # The first pod that selects a label: all shapes must carry it from now on.
        if (shape.affinity or shape.anti_affinity) and self._note_terms(shape.affinity + shape.anti_affinity):
            self._shapes_lack()
        # A pod on a node is not held back.
        held_back = self.held_back.get(uid) if self.held_back and not pod["spec"].get("nodeName") else None
        if not self._pod_terms and uid not in self._claiming and uid not in self._referring and held_back is None:
            return shape
        labels: tuple[tuple[str, str], ...] = ()
        namespace = ""
        metadata = metadata_of(pod)
        if self._pod_terms:
            namespace = metadata["namespace"]
            own = metadata.get("labels") or _NOTHING
            # Only labels that some term selects: with all labels nearly every pod would have a shape of its own.
            labels = tuple(sorted((key, own[key]) for key in own if key in self._watched_labels))
        dra, claims, blocked = self._claims.of_pod(pod) if uid in self._claiming else ((), (), ())
        missing = [ref for ref in self._referring.get(uid, ()) if ref not in self._existing]
        blocked += tuple(references.missing_message(ref) for ref in missing)
        mounted = [ref for ref in self._referring.get(uid, ()) if ref.kind == "PersistentVolumeClaim"]
        volumes = self._volumes.limits(mounted[0].namespace, [ref.name for ref in mounted]) if mounted else NO_LIMITS
        blocked += volumes.blocked
        if held_back is not None:
            blocked += (held_back,)
        key = (id(shape), labels, namespace, dra, claims, blocked, volumes.terms)  # shapes are interned and never freed
        overlaid = self._overlays.get(key)
        if overlaid is None:
            gpu = shape.gpu.with_claims(dra) if dra else shape.gpu
            terms = reduce(both_terms, volumes.terms, shape.terms)
            overlaid = self._overlays[key] = self._cache.intern(
                msgspec.structs.replace(
                    shape, gpu=gpu, labels=labels, namespace=namespace, claims=claims, blocked=blocked, terms=terms
                )
            )
        return overlaid

    def has_same_shape(self, other: PodShapes, uid: str, shape: Shape) -> bool:
        """True if the pod certainly has the same shape here as in ``other``, because it has no overlay and no pod affinity matters."""
        pod_terms = self._pod_terms or other._pod_terms or shape.affinity or shape.anti_affinity
        overlay = uid in other._claiming or uid in other._referring or uid in self.held_back
        return not (pod_terms or overlay or shape.blocked or shape.claims or shape.gpu.claimed)

    def _note_terms(self, terms: tuple[PodTerm, ...]) -> bool:
        """Note the labels that terms select. Returns whether earlier shapes lack some of them."""
        keys = {requirement.key for term in terms for requirement in term.requirements}
        lacking = not self._pod_terms or not keys <= self._watched_labels
        self._pod_terms = True
        self._watched_labels |= keys
        return lacking


_SLOT = Shape()  # no requests: only a pod slot


class GpuReservations:
    """The pods that share or reserve each GPU group, by UID. ``refresh`` reads a pod again."""

    def __init__(self, working: WorkingSet, refresh: Callable[[str], None]) -> None:
        self._working = working
        self._refresh = refresh
        self._shared: dict[str, tuple[str, ...]] = {}  # pod -> groups
        self._sharing: dict[str, dict[str, None]] = {}  # group -> pods
        self._reserved: dict[str, tuple[str, ...]] = {}  # reservation -> groups
        self._reserving: dict[str, dict[str, None]] = {}  # group -> reservations
        self._nodes: dict[str, str] = {}  # node of each sharing pod

    def set_sharing(self, pod: str, node: str, groups: tuple[str, ...]) -> None:
        """Set the GPU groups that a pod on ``node`` ("": not on a node) shares."""
        if not node:
            groups = ()
        before = self._shared.get(pod, ())
        if before == groups and (not groups or self._nodes[pod] == node):
            return
        _note(self._shared, self._sharing, pod, groups)
        if groups:
            self._nodes[pod] = node
        else:
            del self._nodes[pod]
        self._count((*before, *groups))

    def set_reservation(self, reservation: Task, groups: tuple[str, ...]) -> Task:
        """Set the GPU groups that a pod reserves. Returns the task that the engine counts for it."""
        before = self._reserved.get(reservation.uid, ())
        if before != groups:
            _note(self._reserved, self._reserving, reservation.uid, groups)
            self._count((*before, *groups), reservation.uid)
        if any(group in self._sharing for group in groups):
            return structs.replace(reservation, shape=structs.replace(reservation.shape, gpu=NO_GPU))
        return structs.replace(reservation, status=Status.RELEASING)

    def forget(self, pod: str) -> None:
        """Forget a pod that is gone."""
        self.set_sharing(pod, "", ())
        if groups := self._reserved.get(pod):
            _note(self._reserved, self._reserving, pod, ())
            self._count(groups)

    def _count(self, groups: Iterable[str], known: str = "") -> None:
        """Refresh the reservations and stand-ins of these groups, except the reservation ``known``, which is being read."""
        for group in dict.fromkeys(groups):
            for reservation in tuple(self._reserving.get(group, ())):
                if reservation != known:
                    self._refresh(reservation)
            # A pod's UID never has a colon.
            uid, pods = f"reservation:{group}", self._sharing.get(group)
            if not pods or group in self._reserving:
                self._working.remove_task(uid)
                continue
            stand_in = Task(
                uid=uid,
                name=f"reservation of {group}",
                namespace=names.RESERVATION_NAMESPACE,
                podgroup="",
                shape=_SLOT,
                status=Status.RUNNING,
                node=self._nodes[next(iter(pods))],
            )
            self._working.set_task(stand_in)


def _note(
    by_pod: dict[str, tuple[str, ...]], by_group: dict[str, dict[str, None]], pod: str, groups: Iterable[str]
) -> None:
    for group in by_pod.pop(pod, ()):
        del by_group[group][pod]
        if not by_group[group]:
            del by_group[group]
    if now := tuple(groups):
        by_pod[pod] = now
    for group in now:
        by_group.setdefault(group, {})[pod] = None


CLAIM_KINDS = ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")
KINDS = (
    "Namespace", "PriorityClass", "Topology", *CLAIM_KINDS, *references.REFERENCED_KINDS, *VOLUME_KINDS, "NodeResourceTopology", "Node", "Queue",
    "PodGroup", "Pod",
)  # fmt: skip
"""The watched kinds, in the order in which their events are processed."""

COUNTED_KINDS = ("PriorityClass", *CLAIM_KINDS, "Node", "Queue", "PodGroup", "Pod")
"""The kinds that suffice to count allocations and to compute the serving order, but not to place pods."""


_NOTHING: Mapping[str, Any] = {}


def only_status_differs(before: Object, after: Object) -> bool:
    """True if certainly only the status differs. A write shares the unchanged parts of an object, so identity is enough."""
    old, new = metadata_of(before), metadata_of(after)
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
        metadata_of(pod).get("deletionTimestamp"),
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

    def process_node(self, event: WatchEvent) -> None:
        name = name_of(event.object)
        if event.type == "DELETED" or node_pool(metadata_of(event.object)) != self._pool:
            self._objects.pop(name, None)
            if self.nodes.pop(name, None) is not None:
                self._working.remove_node(name)
            return
        self._objects[name] = event.object
        self.refresh(name)

    def process_zones(self, event: WatchEvent) -> None:
        """Process the NUMA zones of a node; the caller refreshes the node."""
        name = name_of(event.object)
        zones = numa_record(event.object) if event.type != "DELETED" else None
        if zones is None:
            self._numa.pop(name, None)
        else:
            self._numa[name] = zones

    def process_topology(self, event: WatchEvent) -> bool:
        """Returns whether aliases of levels have changed, which PodGroups may use."""
        name = name_of(event.object)
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


def _group_of(pod: Object) -> Key | None:
    """The PodGroup that a pod names."""
    metadata = metadata_of(pod)
    name = (metadata.get("annotations") or _NOTHING).get(names.POD_GROUP)
    return (metadata["namespace"], name) if name else None


class Mirror:
    """Keeps a WorkingSet equal to the cluster. ``scheduler_names``: the schedulers whose pods are placed; other pods only use capacity.
    ``node_pool``: as in KAI's shards, nodes, queues and PodGroups of other pools are left out. ``kinds``: the watched kinds. ``tell``
    reports objects that can't be read; by default as an event. ``order_preempts``: see ``podgroup_record``."""

    def __init__(
        self,
        cluster: Cluster,
        scheduler_names: Iterable[str] = (names.SCHEDULER_NAME,),
        node_pool: str = DEFAULT_NODE_POOL,
        kinds: Iterable[str] = KINDS,
        tell: EventSink | None = None,
        *,
        order_preempts: bool = False,
    ) -> None:
        self._order_preempts = order_preempts
        self._working = WorkingSet()
        self._only_records = True
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
        self._claims = ClaimIndex(self._working)
        self._shapes = PodShapes(self._claims, self._refresh_all)
        self._nodes = NodeRecords(self._working, self._claims, node_pool)
        self.nodes = self._nodes.nodes
        self._uids: dict[Key, str] = {}
        self._members: SetIndex[Key, str] = SetIndex()
        self._reservations = GpuReservations(self._working, self._refresh)
        self._leaving: dict[str, float] = {}
        self._now = 0.0
        self._before: Mirror | None = None
        self._cluster = cluster
        self._unreadable = UnreadableObjects(tell or cluster.event, "scheduler")
        self._watch = cluster.watch(kinds)

    # --- queries ------------------------------------------------------------------------------------------------------

    @property
    def working(self) -> WorkingSet:
        """The working set. Its first use gives it the PodGroups and tasks; a question that takes a snapshot does not need that."""
        if self._only_records:
            self._only_records = False
            for podgroup in self.podgroups.values():
                self._working.set_podgroup(podgroup)
            for task in self.tasks.values():
                self._working.set_task(task)
        return self._working

    def snapshot(self) -> Snapshot:
        """All records, for the engine."""
        records = self._working.value()
        if not self._only_records:
            return records
        # Until its first use the working set has no tasks but the stand-ins of reservations.
        return structs.replace(
            records, podgroups=tuple(self.podgroups.values()), tasks=(*self.tasks.values(), *records.tasks)
        )

    def members(self, podgroup: str) -> list[Task]:
        """The tasks of a PodGroup (by UID), in order of arrival."""
        record = self.podgroups.get(podgroup)
        uids = self._members.of((record.namespace, record.name)) if record else ()
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
        """Count a pending pod as blocked for ``reason``. With None, stop counting it as blocked."""
        if reason is None:
            self._shapes.held_back.pop(uid, None)
        else:
            self._shapes.held_back[uid] = reason
        if uid in self.pods:
            self._refresh(uid)

    def held_back_reason(self, uid: str) -> str | None:
        """Why a pod is held back; None if it is not."""
        return self._shapes.held_back.get(uid)

    def agrees(self, other: Mirror) -> bool:
        """Whether the records of both mirrors are equal."""
        mine, theirs = self._working, other._working
        return (
            self.tasks == other.tasks
            and self.podgroups == other.podgroups
            and mine.nodes == theirs.nodes
            and self.queues == other.queues
            and mine.topologies == theirs.topologies
            and mine.claims == theirs.claims
        )

    def close(self) -> None:
        self._watch.close()

    # --- watch events -------------------------------------------------------------------------------------------------

    def update(self) -> None:
        """Process the watch events since the last call."""
        now = self._now = self._cluster.now()
        events = self._watch.poll()
        if events:
            self._process_events(events)
        if self._leaving:
            for uid in [uid for uid, when in self._leaving.items() if now > when]:
                del self._leaving[uid]
                self._refresh(uid)

    def update_like(self, before: Mirror) -> None:
        """Do the first ``update`` of a new mirror, reusing the records that ``before`` has of the same objects."""
        same = (before.pool, before._scheduler_names) == (self.pool, self._scheduler_names)
        self._before = before if same else None
        self.update()
        self._before = None

    def _process_events(self, events: Iterable[WatchEvent]) -> None:
        latest = latest_events(events, KINDS)
        # In the order in which records need each other: a PodGroup needs priorities and the aliases of topologies, a node its zones and
        # devices, a pod its PodGroup and the parts of its shape.
        shapes_stale = pods_stale = groups_stale = False
        for event in latest["Namespace"].values():
            shapes_stale |= self._shapes.process_namespace(event)
        for event in latest["PriorityClass"].values():
            # Any class may be the default of PodGroups that name none, so all are refreshed. This is rare.
            groups_stale = True
            self._process_readable(self.priorities.process_event, event)
        for event in latest["Topology"].values():
            groups_stale |= bool(self._process_readable(self._nodes.process_topology, event))
        nodes: dict[str, None] = {}
        for kind in CLAIM_KINDS:
            for event in latest[kind].values():
                # Each node is refreshed once, after all slices and zones are known.
                nodes.update(dict.fromkeys(self._process_readable(self._claim_object, event)))
                pods_stale = True
        for event in latest["NodeResourceTopology"].values():
            self._process_readable(self._nodes.process_zones, event)
            nodes[name_of(event.object)] = None
        for kind in (*references.REFERENCED_KINDS, *VOLUME_KINDS):
            for event in latest[kind].values():
                pods_stale |= self._shapes.process_reference(event)
        for event in latest["Node"].values():
            self._process_readable(self._nodes.process_node, event)
        for name in sorted(nodes):
            self._nodes.refresh(name)
        for event in latest["Queue"].values():
            self._process_readable(self._queue, event)
        if groups_stale:
            for obj in list(self.podgroup_objects.values()):
                if not self._unreadable.try_handling(obj, self._refresh_podgroup, obj):
                    self._drop_podgroup(uid_of(obj))
        # For a PodGroup deleted and created again under its name, the old one goes first.
        for event in sorted(latest["PodGroup"].values(), key=lambda event: event.type != "DELETED"):
            self._process_readable(self._podgroup, event)
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

    def _process_readable(self, process: Callable[[WatchEvent], Any], event: WatchEvent) -> Any:
        """Process one object. An object that can't be read counts as deleted."""
        try:
            return process(event)
        except Exception as error:
            self._unreadable.note(event.object, error)
            # Otherwise cycles would decide on the record of its earlier state.
            return process(event._replace(type="DELETED"))

    def _claim_object(self, event: WatchEvent) -> Iterable[str]:
        """Process a claim, template, class or slice. Returns the nodes that it concerns."""
        return self._claims.process_object(event.kind, event.object, event.type == "DELETED")

    def _queue(self, event: WatchEvent) -> None:
        name = name_of(event.object)
        if event.type == "DELETED" or node_pool(metadata_of(event.object)) != self.pool:
            if self.queues.pop(name, None) is not None:
                self._working.remove_queue(name)
            return
        record = queue_record(event.object)
        if self.queues.get(name) != record:
            self.queues[name] = record
            self._working.set_queue(record)

    # --- PodGroups ---------------------------------------------------------------------------------------------------

    def _podgroup(self, event: WatchEvent) -> None:
        obj = event.object
        metadata = metadata_of(obj)
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
        metadata = metadata_of(obj)
        uid = metadata["uid"]
        if node_pool(metadata) != self.pool or has_given_up(obj):
            self._drop_podgroup(uid)
            return
        record = self._known_podgroup(uid, obj) or podgroup_record(
            obj, self.priorities, self._nodes.aliases, order_preempts=self._order_preempts
        )
        before = self.podgroups.get(uid)
        if before == record:
            return
        self.podgroups[uid] = record
        if record.stale_since is not None:
            self.marked_stale[uid] = None
        else:
            self.marked_stale.pop(uid, None)
        if not self._only_records:
            self._working.set_podgroup(record)
        # Pods may arrive before their PodGroup.
        if before is None:
            self._uids[record.namespace, record.name] = uid
            for member in self._members.of((record.namespace, record.name)):
                self._refresh(member)

    def _known_podgroup(self, uid: str, obj: Object) -> PodGroup | None:
        """The record that the mirror of ``update_like`` has of the PodGroup; None if it must be made."""
        before = self._before
        if before is None or before.podgroup_objects.get(uid) is not obj:
            return None
        same = (
            self._order_preempts == before._order_preempts
            and self.priorities == before.priorities
            and self._nodes.aliases == before._nodes.aliases
        )
        return before.podgroups.get(uid) if same else None

    def _drop_podgroup(self, uid: str) -> None:
        record = self.podgroups.pop(uid, None)
        if record is None:
            return
        self.marked_stale.pop(uid, None)
        if not self._only_records:
            self._working.remove_podgroup(uid)
        name = (record.namespace, record.name)
        if self._uids.get(name) == uid:
            del self._uids[name]
        for member in self._members.of(name):
            self._refresh(member)

    # --- pods --------------------------------------------------------------------------------------------------------

    def _pod(self, uid: str, pod: Object) -> None:
        known = self.pods.get(uid)
        if known is not None and only_status_differs(known, pod):
            self.pods[uid] = pod
            # Most events of pods change only their status, and no record.
            if pod_state(known) == pod_state(pod):
                return
            # The status does not change the shape of a pod on a node, unless it names its claims.
            if node_of(pod) and not pod["spec"].get("resourceClaims"):
                self._refresh(uid, self.tasks.get(uid))
                return
        group, before = _group_of(pod), None if known is None else _group_of(known)
        self.pods[uid] = pod
        if group != before:
            if before is not None:
                self._members.discard(before, uid)
            if group is not None:
                self._members.add(group, uid)
        self._shapes.process_pod(uid, pod)
        self._refresh(uid)

    def _copy_task(self, before: Mirror, uid: str, pod: Object) -> bool:
        """Take over the pod's task from another mirror. Returns False if the task must be made: the object differs, or the task depends on
        more than the pod and its PodGroup."""
        task = before.tasks.get(uid)
        if task is None or before.pods.get(uid) is not pod:
            return False
        group = _group_of(pod)
        if group is None or task.podgroup != self._uids.get(group):
            return False
        if (
            task.status not in _TIMELESS
            or task.gpu_groups
            or not self._shapes.has_same_shape(before._shapes, uid, task.shape)
        ):
            return False
        self.pods[uid] = pod
        self._members.add(group, uid)
        self._set_task(task)
        return True

    def _forget_pod(self, uid: str) -> None:
        pod = self.pods.pop(uid, None)
        self._shapes.forget_pod(uid)
        group = None if pod is None else _group_of(pod)
        if group is not None:
            self._members.discard(group, uid)
        self._drop_task(uid)

    def _set_task(self, task: Task) -> None:
        self.tasks[task.uid] = task
        if not self._only_records:
            self._working.set_task(task)

    def _drop_task(self, uid: str) -> None:
        self._leaving.pop(uid, None)
        if self.tasks.pop(uid, None) is not None:
            if not self._only_records:
                self._working.remove_task(uid)
            self._reservations.forget(uid)

    def _refresh_all(self) -> None:
        for uid in self.pods:
            self._refresh(uid)

    def _refresh(self, uid: str, known: Task | None = None) -> None:
        """Make the task of a pod again. A pod that can't be read has none. ``known``: its task, if only the status of the pod has changed
        since."""
        pod = self.pods[uid]
        try:
            self._update_task(uid, pod, known)
        except Exception as error:
            self._unreadable.note(pod, error)
            self._drop_task(uid)

    def _update_task(self, uid: str, pod: Object, known: Task | None = None) -> None:
        group = _group_of(pod)
        podgroup = self._uids.get(group, "") if group is not None else ""
        spec = pod["spec"]
        node = spec.get("nodeName")
        # A pod of another scheduler or without a PodGroup matters only on a node, where it uses capacity.
        if not node and (not podgroup or spec.get("schedulerName") not in self._scheduler_names):
            self._drop_task(uid)
            return
        if known is None or known.podgroup != podgroup or known.namespace == names.RESERVATION_NAMESPACE:
            task = task_record(pod, podgroup, self._shapes.of(uid, pod), self._now)
        else:
            task = with_status(known, pod, self._now)
        status = task.status
        if status in _GONE or (not node and status not in _UNPLACED) or (not podgroup and status is Status.SUCCEEDED):
            self._drop_task(uid)
            return
        if task.namespace == names.RESERVATION_NAMESPACE:
            task = self._reservations.set_reservation(task, gpu_groups(metadata_of(pod).get("labels") or _NOTHING))
        else:
            self._reservations.set_sharing(uid, node or "", task.gpu_groups if status is not Status.SUCCEEDED else ())
        # No event reports that a pod is stuck, so ``update`` refreshes it at that time.
        if status is Status.RELEASING and (pod.get("status") or _NOTHING).get("phase") == "Running":
            self._leaving[uid] = stuck_at(metadata_of(pod)["deletionTimestamp"])
        if self.tasks.get(uid) != task:
            self._set_task(task)
