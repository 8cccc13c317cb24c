"""The input of a cycle while it is being changed: records, configuration, time. Nothing is copied but what changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import structs

from kailab.engine.config import ACTIONS, EngineConfig
from kailab.engine.decisions import Action
from kailab.engine.report.barriers import LIFECYCLE_TAINTS
from kailab.engine.snapshot.changes import Changes, RemovedRecords
from kailab.engine.snapshot.records import (
    GPU,
    ON_NODE,
    UNLIMITED,
    Node,
    PodGroup,
    Queue,
    Shape,
    Share,
    Status,
    SubGroup,
    Task,
    Toleration,
)
from kailab.engine.snapshot.snapshot import IDENTITY, Snapshot

Kinds = dict[str, dict[str, Any]]
"""Records by identity, by kind."""


def by_identity(snapshot: Snapshot) -> Kinds:
    """All records of a snapshot."""
    return {kind: {identity(one): one for one in getattr(snapshot, kind)} for kind, identity in IDENTITY.items()}


class Draft:
    """``subject``: UIDs of the PodGroups that the question is about, ``members`` of their tasks. ``config`` and ``now`` may be set to
    others."""

    def __init__(
        self, before: Kinds, config: EngineConfig, now: float, subject: tuple[str, ...], members: Collection[str]
    ) -> None:
        self._before = before
        self._members = members
        self._changed: Kinds = {kind: {} for kind in IDENTITY}  # None: removed
        self.config = config
        self.now = now
        self.subject = subject

    def records(self, kind: str) -> Iterator[Any]:
        """All records of a kind, as they are with the changes."""
        changed = self._changed[kind]
        # Copied first, because relaxations change records while they go through them.
        for identity, record in list(self._before[kind].items()):
            record = changed.get(identity, record)
            if record is not None:
                yield record
        for identity, record in list(changed.items()):
            if record is not None and identity not in self._before[kind]:
                yield record

    def record(self, kind: str, identity: str) -> Any:
        """None where there is none, or none any more."""
        # A removed record is there as None, which get returns as it is.
        return self._changed[kind].get(identity, self._before[kind].get(identity))

    def set(self, kind: str, record: Any) -> None:
        """Add a record, or replace the one of the same identity."""
        self._changed[kind][IDENTITY[kind](record)] = record

    def remove(self, kind: str, identity: str) -> None:
        """Take a record out."""
        self._changed[kind][identity] = None

    def podgroups(self) -> list[PodGroup]:
        """Of the subject, as far as they are there."""
        found = (self.record("podgroups", uid) for uid in self.subject)
        return [podgroup for podgroup in found if podgroup is not None]

    def tasks(self) -> list[Task]:
        """Of the subject."""
        changed = self._changed["tasks"]
        # All records are not gone through: there may be very many, and few of the subject.
        found = (changed.get(uid, self._before["tasks"][uid]) for uid in self._members)
        added = (task for uid, task in changed.items() if uid not in self._before["tasks"])
        return [task for task in (*found, *added) if task is not None and task.podgroup in self.subject]

    def way(self, name: str) -> list[Queue]:
        """A queue and its ancestors, up to the root, as far as they are there."""
        found: dict[str, Queue] = {}
        while name and name not in found and (queue := self.record("queues", name)) is not None:
            found[name] = queue
            name = queue.parent
        return list(found.values())

    @property
    def size(self) -> int:
        """How many records change."""
        return sum(map(len, self._changed.values()))

    def changes(self) -> Changes:
        """What was changed, to be applied to where it was begun from."""
        kept = {kind: tuple(one for one in found.values() if one is not None) for kind, found in self._changed.items()}
        gone = {
            kind: tuple(sorted(identity for identity, one in found.items() if one is None))
            for kind, found in self._changed.items()
        }
        return Changes(set=Snapshot(**kept), removed=RemovedRecords(**gone))

    def undoing(self) -> Changes:
        """What takes ``changes`` back."""
        kept: dict[str, tuple[Any, ...]] = {}
        gone: dict[str, tuple[str, ...]] = {}
        for kind, found in self._changed.items():
            before = self._before[kind]
            # What was replaced or removed comes back as it was; what was new has to go.
            kept[kind] = tuple(before[identity] for identity in found if identity in before)
            gone[kind] = tuple(sorted(identity for identity in found if identity not in before))
        return Changes(set=Snapshot(**kept), removed=RemovedRecords(**gone))

    def whole(self) -> Snapshot:
        """All records, with the changes."""
        return Snapshot(**{kind: tuple(self.records(kind)) for kind in IDENTITY})


# One thing taken away from the input of a cycle.


@dataclass(frozen=True)
class Relaxation:
    """A value: equal ones change the same. Those of queue rules are in ``queue_rules``, those of other work in ``others``."""

    def change(self, draft: Draft) -> None:
        """Make the change in the draft."""
        raise NotImplementedError


# What keeps work off nodes, taken away one by one: of the nodes, or of what the subject's pods ask of them.

Resource = Literal["cpu", "memory", "pods", "gpu", "extended"]
RESOURCES: tuple[Resource, ...] = ("cpu", "memory", "pods", "gpu", "extended")
"""Amounts that nodes have; MIG instances are extended ones."""

EVERYTHING = Toleration(operator="Exists")


@dataclass(frozen=True)
class NodesOpened(Relaxation):
    """No node is cordoned, and all are ready."""

    def change(self, draft: Draft) -> None:
        for node in draft.records("nodes"):
            # Kubernetes marks such nodes by a taint as well: with the taint left, opening them would change nothing.
            taints = tuple(taint for taint in node.taints if taint.key not in LIFECYCLE_TAINTS)
            if node.unavailable or taints != node.taints:
                draft.set("nodes", structs.replace(node, unavailable="", taints=taints))


@dataclass(frozen=True)
class NodesAdded(Relaxation):
    """These nodes are served too."""

    nodes: tuple[Node, ...]

    def change(self, draft: Draft) -> None:
        for node in self.nodes:
            draft.set("nodes", node)


@dataclass(frozen=True)
class RoomGiven(Relaxation):
    """Nodes that have any of these resources have room for all of the subject beside what they hold."""

    resources: tuple[Resource, ...] = RESOURCES

    def change(self, draft: Draft) -> None:
        shapes = [task.shape for task in draft.tasks()]
        cpu = sum(shape.cpu for shape in shapes)
        memory = sum(shape.memory for shape in shapes)
        # Generous: a share gets a whole device of its own.
        gpus = sum((shape.gpu.devices + sum(count for _, count in shape.gpu.dra)) * GPU for shape in shapes)
        more: dict[str, int] = {}
        for shape in shapes:
            for name, count in (*shape.extended, *shape.gpu.mig):
                more[name] = more.get(name, 0) + count
        given = set(self.resources)
        for node in draft.records("nodes"):
            extended = node.extended
            if "extended" in given and more:
                # Only more of what a node has already, here as with GPUs below: its kind stays.
                extended = tuple((name, count + more.get(name, 0)) for name, count in extended)
            changed = structs.replace(
                node,
                cpu=node.cpu + cpu if "cpu" in given else node.cpu,
                memory=node.memory + memory if "memory" in given else node.memory,
                # Two slots each: a share may need a second one, for the pod that reserves the device.
                pods=node.pods + 2 * len(shapes) if "pods" in given else node.pods,
                gpus=node.gpus + gpus if "gpu" in given and node.gpus else node.gpus,
                extended=extended,
            )
            if changed != node:
                draft.set("nodes", changed)


@dataclass(frozen=True)
class ZonesIgnored(Relaxation):
    """No kubelet aligns anything to NUMA zones."""

    def change(self, draft: Draft) -> None:
        for node in draft.records("nodes"):
            if node.numa is not None:
                draft.set("nodes", structs.replace(node, numa=None))


@dataclass(frozen=True)
class Unplaced(Relaxation):
    """Those of the subject's pods that have a place wait again, as if nothing of it ran yet."""

    def change(self, draft: Draft) -> None:
        for task in draft.tasks():
            if ON_NODE[task.status]:
                draft.set(
                    "tasks",
                    # What it was given belongs to the place that it loses.
                    structs.replace(task, status=Status.PENDING, node="", gpu_groups=(), accepted=None, numa_zones=()),
                )


@dataclass(frozen=True)
class _OfShapes(Relaxation):
    """What the subject's pods ask of nodes."""

    def change(self, draft: Draft) -> None:
        # Only the subject's own pods, whoever else has an equal shape.
        _reshape(draft, draft.tasks(), self.shaped)

    def shaped(self, shape: Shape) -> Shape:
        raise NotImplementedError


class NothingMissing(_OfShapes):
    """All that the pods name is there, and no binding of them was refused."""

    def shaped(self, shape: Shape) -> Shape:
        return structs.replace(shape, blocked=())


class AllTolerated(_OfShapes):
    """The pods tolerate every taint."""

    def shaped(self, shape: Shape) -> Shape:
        return structs.replace(shape, tolerations=(EVERYTHING,))


class SelectorGone(_OfShapes):
    """The pods have neither a node selector nor a required node affinity."""

    def shaped(self, shape: Shape) -> Shape:
        return structs.replace(shape, selector=(), terms=())


class CompanyNotNeeded(_OfShapes):
    """The pods need no other pods beside them."""

    def shaped(self, shape: Shape) -> Shape:
        return structs.replace(shape, affinity=tuple(term for term in shape.affinity if term.weight))


class PortsGone(_OfShapes):
    """The pods want no ports of their nodes."""

    def shaped(self, shape: Shape) -> Shape:
        return structs.replace(shape, ports=())


class ClaimsGone(_OfShapes):
    """The pods have no resource claims."""

    def shaped(self, shape: Shape) -> Shape:
        if not shape.claims:
            return shape
        return structs.replace(shape, claims=(), gpu=structs.replace(shape.gpu, dra=()))


@dataclass(frozen=True)
class AntiAffinityGone(Relaxation):
    """No pod has to keep away from others: neither the subject's from theirs, nor theirs from the subject's."""

    def change(self, draft: Draft) -> None:
        _reshape(
            draft,
            # All tasks, because the terms of others keep the subject off as its own do.
            [task for task in draft.records("tasks") if task.shape.anti_affinity],
            lambda shape: structs.replace(
                shape, anti_affinity=tuple(term for term in shape.anti_affinity if term.weight)
            ),
        )


@dataclass(frozen=True)
class TopologyGone(Relaxation):
    """The subject may be anywhere in its topologies."""

    def change(self, draft: Draft) -> None:
        for podgroup in draft.podgroups():
            draft.set("podgroups", structs.replace(podgroup, root=_unconstrained(podgroup.root)))


def _unconstrained(group: SubGroup) -> SubGroup:
    return structs.replace(
        group,
        constraint=None,
        groups=tuple(_unconstrained(one) for one in group.groups),
        podsets=tuple(structs.replace(podset, constraint=None) for podset in group.podsets),
    )


def _reshape(draft: Draft, tasks: list[Task], shaped: Callable[[Shape], Shape]) -> None:
    made: dict[int, Shape] = {}  # equal tasks go on sharing one shape
    for task in tasks:
        shape = made.get(id(task.shape))
        if shape is None:
            shape = made[id(task.shape)] = shaped(task.shape)
        if shape != task.shape:
            draft.set("tasks", structs.replace(task, shape=shape))


# Other work taken away, or what keeps it where it is.


@dataclass(frozen=True)
class OthersGone(Relaxation):
    """All pods that are not the subject's have gone, those of other schedulers too, and with them the claims that only they name.
    ``placed``: those that have a place; ``waiting``: the others."""

    placed: bool = True
    waiting: bool = True

    def change(self, draft: Draft) -> None:
        subject = set(draft.subject)
        claimed: set[str] = set()
        for task in draft.records("tasks"):
            goes = self.placed if ON_NODE[task.status] else self.waiting
            if goes and task.podgroup not in subject:
                draft.remove("tasks", task.uid)
            else:
                claimed.update(task.shape.claims)
        for claim in draft.records("claims"):
            # With the pods that had a place gone, nobody holds these: their devices are free again.
            if self.placed and claim.name not in claimed:
                draft.remove("claims", claim.name)


@dataclass(frozen=True)
class WaitingWithdrawn(Relaxation):
    """These PodGroups (UIDs) wait no more: their pods that have no place are gone, those that have one stay."""

    podgroups: tuple[str, ...]

    def change(self, draft: Draft) -> None:
        withdrawn = set(self.podgroups)
        for task in draft.records("tasks"):
            if task.podgroup in withdrawn and not ON_NODE[task.status]:
                draft.remove("tasks", task.uid)


@dataclass(frozen=True)
class OthersPreemptible(Relaxation):
    """Every other PodGroup is preemptible."""

    def change(self, draft: Draft) -> None:
        for podgroup in draft.records("podgroups"):
            if not podgroup.preemptible and podgroup.uid not in draft.subject:
                draft.set("podgroups", structs.replace(podgroup, preemptible=True))


# Rules of queues and of the subject's own PodGroups, taken away one by one.

QueueField = Literal["gpu", "cpu", "memory"]
FIELDS: tuple[QueueField, ...] = ("gpu", "cpu", "memory")
"""The resources of a queue, as its record calls them."""


@dataclass(frozen=True)
class _OfQueues(Relaxation):
    """``queues``: by name; those that there are not are passed over."""

    queues: tuple[str, ...]
    resources: tuple[QueueField, ...] = FIELDS

    def change(self, draft: Draft) -> None:
        for name in self.queues:
            queue = draft.record("queues", name)
            if queue is not None:
                shares = {field: self._share(getattr(queue, field)) for field in self.resources}
                draft.set("queues", structs.replace(queue, **shares))

    def _share(self, share: Share) -> Share:
        raise NotImplementedError


class LimitsLifted(_OfQueues):
    """These queues have no limit."""

    def _share(self, share: Share) -> Share:
        return structs.replace(share, limit=UNLIMITED)


class QuotasRaised(_OfQueues):
    """These queues have all they want as quota. Their limits stay."""

    def _share(self, share: Share) -> Share:
        return structs.replace(share, quota=UNLIMITED)


class QuotasTaken(_OfQueues):
    """These queues have no quota."""

    def _share(self, share: Share) -> Share:
        return structs.replace(share, quota=0)


class WeightsGiven(_OfQueues):
    """These queues have an over-quota weight of at least 1."""

    def _share(self, share: Share) -> Share:
        return structs.replace(share, weight=max(1.0, share.weight))


@dataclass(frozen=True)
class QueuesUnprotected(Relaxation):
    """No minimum runtime protects anybody."""

    def change(self, draft: Draft) -> None:
        for queue in draft.records("queues"):
            if queue.reclaim_min_runtime or queue.preempt_min_runtime:
                draft.set("queues", structs.replace(queue, reclaim_min_runtime=0.0, preempt_min_runtime=0.0))
        # Queues without a value of their own inherit the configured one.
        draft.config = structs.replace(draft.config, reclaim_min_runtime=0.0, preempt_min_runtime=0.0)


@dataclass(frozen=True)
class MadePreemptible(Relaxation):
    """The subject is preemptible."""

    def change(self, draft: Draft) -> None:
        _each(draft, lambda podgroup: structs.replace(podgroup, preemptible=True))


@dataclass(frozen=True)
class PriorityGiven(Relaxation):
    """The subject has this priority."""

    priority: int

    def change(self, draft: Draft) -> None:
        _each(draft, lambda podgroup: structs.replace(podgroup, priority=self.priority))


@dataclass(frozen=True)
class DelayGone(Relaxation):
    """The subject has no preemption delay."""

    def change(self, draft: Draft) -> None:
        _each(draft, lambda podgroup: structs.replace(podgroup, preemption_delay=0.0))


@dataclass(frozen=True)
class RefusalsForgotten(Relaxation):
    """No binding was refused yet."""

    def change(self, draft: Draft) -> None:
        draft.config = structs.replace(draft.config, refused=frozenset())


@dataclass(frozen=True)
class PromisesForgotten(Relaxation):
    """The cycle before made room for nobody: all have their ordinary turn."""

    def change(self, draft: Draft) -> None:
        draft.config = structs.replace(draft.config, promised=())


@dataclass(frozen=True)
class Actions(Relaxation):
    """The scheduler has these actions."""

    actions: tuple[Action, ...] = ACTIONS

    def change(self, draft: Draft) -> None:
        draft.config = structs.replace(draft.config, actions=self.actions)


def _each(draft: Draft, changed: Callable[[PodGroup], PodGroup]) -> None:
    for podgroup in draft.podgroups():
        draft.set("podgroups", changed(podgroup))
