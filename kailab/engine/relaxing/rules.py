"""Relaxations: changes of a cycle's input, one rule or one obstacle each.

The first group is about nodes and what the subject's pods ask of them, the second about other work, the third about
queues and the subject's PodGroups. Each modifies a ``CycleInputDraft``, which copies only the records that change.
"""

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
    LEAVING,
    NOT_READY,
    ON_NODE,
    UNLIMITED,
    Node,
    PodGroup,
    Queue,
    ResourceShare,
    Shape,
    Status,
    SubGroup,
    Task,
    Toleration,
)
from kailab.engine.snapshot.snapshot import IDENTITY, Snapshot

Kinds = dict[str, dict[str, Any]]
"""Kind -> identity -> record."""


def by_identity(snapshot: Snapshot) -> Kinds:
    """All records of a snapshot."""
    return {
        kind: {identity(record): record for record in getattr(snapshot, kind)} for kind, identity in IDENTITY.items()
    }


class CycleInputDraft:
    """The input of a cycle with changes: records, configuration, time. ``subject``: UIDs of the PodGroups in question;
    ``members``: UIDs of their tasks. ``config`` and ``now`` may be replaced.
    """

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
        """All records of a kind, with the changes made so far. Relaxations may change records during the iteration."""
        before, changed = self._before[kind], self._changed[kind]
        if not changed:
            return iter(tuple(before.values()))
        return iter([record for record in {**before, **changed}.values() if record is not None])

    def record(self, kind: str, identity: str) -> Any:
        """The record, or None if it does not exist or was removed."""
        # A removed record is stored as None, which get returns.
        return self._changed[kind].get(identity, self._before[kind].get(identity))

    def set(self, kind: str, record: Any) -> None:
        """Add a record, or replace the one of the same identity."""
        identity = IDENTITY[kind](record)
        if record == self._before[kind].get(identity):
            self._changed[kind].pop(identity, None)  # as it was
        else:
            self._changed[kind][identity] = record

    def remove(self, kind: str, identity: str) -> None:
        self._changed[kind][identity] = None

    def podgroups(self) -> list[PodGroup]:
        """The subject's PodGroups that exist."""
        records = (self.record("podgroups", uid) for uid in self.subject)
        return [podgroup for podgroup in records if podgroup is not None]

    def tasks(self) -> list[Task]:
        """The subject's tasks."""
        changed = self._changed["tasks"]
        # The subject has few tasks of perhaps very many, so the others are not visited.
        known = (changed.get(uid, self._before["tasks"][uid]) for uid in self._members)
        added = (task for uid, task in changed.items() if uid not in self._before["tasks"])
        return [task for task in (*known, *added) if task is not None and task.podgroup in self.subject]

    def way(self, name: str) -> list[Queue]:
        """A queue and its ancestors up to the root, as far as they exist."""
        path: dict[str, Queue] = {}
        while name and name not in path and (queue := self.record("queues", name)) is not None:
            path[name] = queue
            name = queue.parent
        return list(path.values())

    @property
    def size(self) -> int:
        """The number of changed records."""
        return sum(map(len, self._changed.values()))

    def is_same(self, other: CycleInputDraft) -> bool:
        """Whether both make the same changes of the same input."""
        return (self._changed, self.config, self.now) == (other._changed, other.config, other.now)

    def changes(self) -> Changes:
        """The changes, relative to the original records."""
        present = {
            kind: tuple(record for record in changed.values() if record is not None)
            for kind, changed in self._changed.items()
        }
        removed = {
            kind: tuple(sorted(identity for identity, record in changed.items() if record is None))
            for kind, changed in self._changed.items()
        }
        return Changes(set=Snapshot(**present), removed=RemovedRecords(**removed))

    def inverse(self) -> Changes:
        """The changes that revert ``changes``."""
        restored: dict[str, tuple[Any, ...]] = {}
        removed: dict[str, tuple[str, ...]] = {}
        for kind, changed in self._changed.items():
            before = self._before[kind]
            # Replaced and removed records return; new records are removed.
            restored[kind] = tuple(before[identity] for identity in changed if identity in before)
            removed[kind] = tuple(sorted(identity for identity in changed if identity not in before))
        return Changes(set=Snapshot(**restored), removed=RemovedRecords(**removed))

    def whole(self) -> Snapshot:
        """All records, with the changes."""
        return Snapshot(**{kind: tuple(self.records(kind)) for kind in IDENTITY})


@dataclass(frozen=True)
class Relaxation:
    """One change of a cycle's input. Equal values make the same change."""

    def change(self, draft: CycleInputDraft) -> None:
        raise NotImplementedError


Resource = Literal["cpu", "memory", "pods", "gpu", "extended"]
RESOURCES: tuple[Resource, ...] = ("cpu", "memory", "pods", "gpu", "extended")
"""Amounts of nodes; MIG instances are extended resources."""

EVERYTHING = Toleration(operator="Exists")


@dataclass(frozen=True)
class NodesOpened(Relaxation):
    """No node is cordoned, and all are ready, so that pods that could not terminate have gone."""

    def change(self, draft: CycleInputDraft) -> None:
        unready: set[str] = set()
        for node in draft.records("nodes"):
            # Kubernetes also taints such nodes, and the taint alone would keep the pods off.
            taints = tuple(taint for taint in node.taints if taint.key not in LIFECYCLE_TAINTS)
            if node.unavailable or taints != node.taints:
                draft.set("nodes", structs.replace(node, unavailable="", taints=taints))
            if NOT_READY in node.unavailable:
                unready.add(node.name)
        if unready:
            _remove(draft, lambda task: task.node in unready and LEAVING[task.status], claims=True)


@dataclass(frozen=True)
class NodesAdded(Relaxation):
    """The cluster has these nodes as well."""

    nodes: tuple[Node, ...]

    def change(self, draft: CycleInputDraft) -> None:
        for node in self.nodes:
            draft.set("nodes", node)


@dataclass(frozen=True)
class RoomGiven(Relaxation):
    """Nodes that have any of these resources have enough of them for the whole subject, beside what they hold."""

    resources: tuple[Resource, ...] = RESOURCES

    def change(self, draft: CycleInputDraft) -> None:
        shapes = [task.shape for task in draft.tasks()]
        cpu = sum(shape.cpu for shape in shapes)
        memory = sum(shape.memory for shape in shapes)
        # An upper bound: a share counts as a whole device.
        gpus = sum(shape.gpu.most_devices * GPU for shape in shapes)
        more: dict[str, int] = {}
        for shape in shapes:
            for name, count in (*shape.extended, *shape.gpu.profiles):
                more[name] = more.get(name, 0) + count
        given = set(self.resources)
        for node in draft.records("nodes"):
            extended = node.extended
            if "extended" in given and more:
                # As with GPUs below, only resources that the node has already, so its kind stays.
                extended = tuple((name, count + more.get(name, 0)) for name, count in extended)
            changed = structs.replace(
                node,
                cpu=node.cpu + cpu if "cpu" in given else node.cpu,
                memory=node.memory + memory if "memory" in given else node.memory,
                # Two slots each, because a share may need a slot for its reservation pod.
                pods=node.pods + 2 * len(shapes) if "pods" in given else node.pods,
                gpus=node.gpus + gpus if "gpu" in given and node.gpus else node.gpus,
                extended=extended,
            )
            if changed != node:
                draft.set("nodes", changed)


@dataclass(frozen=True)
class ZonesIgnored(Relaxation):
    """No kubelet aligns resources to NUMA zones."""

    def change(self, draft: CycleInputDraft) -> None:
        for node in draft.records("nodes"):
            if node.numa is not None:
                draft.set("nodes", structs.replace(node, numa=None))


@dataclass(frozen=True)
class Unplaced(Relaxation):
    """All pods of the subject wait, as if none of them ran."""

    def change(self, draft: CycleInputDraft) -> None:
        for task in draft.tasks():
            if ON_NODE[task.status]:
                draft.set(
                    "tasks",
                    # What it was given belongs to the lost place.
                    structs.replace(task, status=Status.PENDING, node="", gpu_groups=(), accepted=None, numa_zones=()),
                )


@dataclass(frozen=True)
class _OfShapes(Relaxation):
    """A change of what the subject's pods ask of nodes."""

    def change(self, draft: CycleInputDraft) -> None:
        # Only the subject's pods, although other pods may have equal shapes.
        _reshape(draft, draft.tasks(), self.shaped)

    def shaped(self, shape: Shape) -> Shape:
        raise NotImplementedError


class AllTolerated(_OfShapes):
    """The pods tolerate every taint."""

    def shaped(self, shape: Shape) -> Shape:
        return structs.replace(shape, tolerations=(EVERYTHING,))


class SelectorGone(_OfShapes):
    """The pods have no node selector and no required node affinity."""

    def shaped(self, shape: Shape) -> Shape:
        return structs.replace(shape, selector=(), terms=())


class PodAffinityGone(_OfShapes):
    """The pods have no required pod affinity."""

    def shaped(self, shape: Shape) -> Shape:
        return structs.replace(shape, affinity=tuple(term for term in shape.affinity if term.weight))


class PortsGone(_OfShapes):
    """The pods want no host ports."""

    def shaped(self, shape: Shape) -> Shape:
        return structs.replace(shape, ports=())


class ClaimsGone(_OfShapes):
    """The pods have no resource claims."""

    def shaped(self, shape: Shape) -> Shape:
        if not shape.claims:
            return shape
        return structs.replace(shape, claims=(), gpu=shape.gpu.with_claims(()))


@dataclass(frozen=True)
class AntiAffinityGone(Relaxation):
    """No required anti-affinity applies, neither of the subject's pods nor of others."""

    def change(self, draft: CycleInputDraft) -> None:
        _reshape(
            draft,
            # All tasks, because the terms of other pods keep the subject off too.
            [task for task in draft.records("tasks") if task.shape.anti_affinity],
            lambda shape: structs.replace(
                shape, anti_affinity=tuple(term for term in shape.anti_affinity if term.weight)
            ),
        )


@dataclass(frozen=True)
class TopologyGone(Relaxation):
    """The subject has no topology constraint."""

    def change(self, draft: CycleInputDraft) -> None:
        for podgroup in draft.podgroups():
            draft.set("podgroups", structs.replace(podgroup, root=_unconstrained(podgroup.root)))


def _unconstrained(group: SubGroup) -> SubGroup:
    return structs.replace(
        group,
        constraint=None,
        groups=tuple(_unconstrained(child) for child in group.groups),
        podsets=tuple(structs.replace(podset, constraint=None) for podset in group.podsets),
    )


def _reshape(draft: CycleInputDraft, tasks: list[Task], shaped: Callable[[Shape], Shape]) -> None:
    made: dict[int, Shape] = {}  # equal tasks continue to share one shape
    for task in tasks:
        shape = made.get(id(task.shape))
        if shape is None:
            shape = made[id(task.shape)] = shaped(task.shape)
        if shape != task.shape:
            draft.set("tasks", structs.replace(task, shape=shape))


@dataclass(frozen=True)
class OthersGone(Relaxation):
    """All pods of others are gone, those of other schedulers too, with the claims that only they name. ``placed``:
    those that have a place; ``waiting``: the others. If both are gone, so are their PodGroups.
    """

    placed: bool = True
    waiting: bool = True

    def change(self, draft: CycleInputDraft) -> None:
        subject = set(draft.subject)

        def is_gone(task: Task) -> bool:
            return task.podgroup not in subject and (self.placed if ON_NODE[task.status] else self.waiting)

        _remove(draft, is_gone, claims=self.placed)
        # An empty PodGroup changes nothing, but a large cluster has very many, and each costs as much as a pod.
        if self.placed and self.waiting:
            for podgroup in draft.records("podgroups"):
                if podgroup.uid not in subject:
                    draft.remove("podgroups", podgroup.uid)


@dataclass(frozen=True)
class HoldingsGone(Relaxation):
    """What these PodGroups (UIDs) hold is free: their pods with a place are gone, with the claims that only they name."""

    podgroups: tuple[str, ...]

    def change(self, draft: CycleInputDraft) -> None:
        holders = set(self.podgroups)
        _remove(draft, lambda task: task.podgroup in holders and ON_NODE[task.status], claims=True)


def _remove(draft: CycleInputDraft, is_gone: Callable[[Task], bool], claims: bool) -> None:
    """Remove tasks. ``claims``: also the claims that no remaining task names."""
    claimed: set[str] = set()
    for task in draft.records("tasks"):
        if is_gone(task):
            draft.remove("tasks", task.uid)
        else:
            claimed.update(task.shape.claims)
    for claim in draft.records("claims"):
        # No remaining pod holds these claims, so their devices are free.
        if claims and claim.name not in claimed:
            draft.remove("claims", claim.name)


@dataclass(frozen=True)
class WaitingWithdrawn(Relaxation):
    """The waiting pods of these PodGroups (UIDs) are gone; pods with a place stay."""

    podgroups: tuple[str, ...]

    def change(self, draft: CycleInputDraft) -> None:
        withdrawn = set(self.podgroups)
        for task in draft.records("tasks"):
            if task.podgroup in withdrawn and not ON_NODE[task.status]:
                draft.remove("tasks", task.uid)


@dataclass(frozen=True)
class OthersPreemptible(Relaxation):
    """All other PodGroups are preemptible."""

    def change(self, draft: CycleInputDraft) -> None:
        for podgroup in draft.records("podgroups"):
            if not podgroup.preemptible and podgroup.uid not in draft.subject:
                draft.set("podgroups", structs.replace(podgroup, preemptible=True))


QueueField = Literal["gpu", "cpu", "memory"]
FIELDS: tuple[QueueField, ...] = ("gpu", "cpu", "memory")
"""The resources of a queue, by the fields of its record."""


@dataclass(frozen=True)
class _OfQueues(Relaxation):
    """A change of ``queues`` (names). Names without a queue are ignored."""

    queues: tuple[str, ...]
    resources: tuple[QueueField, ...] = FIELDS

    def change(self, draft: CycleInputDraft) -> None:
        for name in self.queues:
            queue = draft.record("queues", name)
            if queue is not None:
                shares = {field: self._share(getattr(queue, field)) for field in self.resources}
                draft.set("queues", structs.replace(queue, **shares))

    def _share(self, share: ResourceShare) -> ResourceShare:
        raise NotImplementedError


class LimitsLifted(_OfQueues):
    """These queues have no limit."""

    def _share(self, share: ResourceShare) -> ResourceShare:
        return structs.replace(share, limit=UNLIMITED)


class QuotasRaised(_OfQueues):
    """These queues have an unlimited quota. Their limits stay."""

    def _share(self, share: ResourceShare) -> ResourceShare:
        return structs.replace(share, quota=UNLIMITED)


class QuotasTaken(_OfQueues):
    """These queues have no quota."""

    def _share(self, share: ResourceShare) -> ResourceShare:
        return structs.replace(share, quota=0)


class WeightsGiven(_OfQueues):
    """These queues have an over-quota weight of at least 1."""

    def _share(self, share: ResourceShare) -> ResourceShare:
        return structs.replace(share, weight=max(1.0, share.weight))


@dataclass(frozen=True)
class QueuesUnprotected(Relaxation):
    """No minimum runtime protects any job."""

    def change(self, draft: CycleInputDraft) -> None:
        for queue in draft.records("queues"):
            if queue.reclaim_min_runtime or queue.preempt_min_runtime:
                draft.set("queues", structs.replace(queue, reclaim_min_runtime=0.0, preempt_min_runtime=0.0))
        # Queues without a value of their own inherit the configured one.
        draft.config = structs.replace(draft.config, reclaim_min_runtime=0.0, preempt_min_runtime=0.0)


@dataclass(frozen=True)
class MadePreemptible(Relaxation):
    """The subject is preemptible."""

    def change(self, draft: CycleInputDraft) -> None:
        _each(draft, lambda podgroup: structs.replace(podgroup, preemptible=True))


@dataclass(frozen=True)
class PriorityGiven(Relaxation):
    """The subject has this priority. ``preemptible``: whether it is preemptible then; None: as before."""

    priority: int
    preemptible: bool | None = None

    def change(self, draft: CycleInputDraft) -> None:
        def give(podgroup: PodGroup) -> PodGroup:
            preemptible = podgroup.preemptible if self.preemptible is None else self.preemptible
            return structs.replace(podgroup, priority=self.priority, preemptible=preemptible)

        _each(draft, give)


@dataclass(frozen=True)
class GangLowered(Relaxation):
    """The largest pod set of each of the subject's PodGroups has at most this many pods, and needs no more to start."""

    pods: int

    def change(self, draft: CycleInputDraft) -> None:
        members: dict[tuple[str, str], list[str]] = {}
        for task in draft.tasks():
            members.setdefault((task.podgroup, task.subgroup), []).append(task.uid)
        for podgroup in draft.podgroups():
            sets = {name: uids for (uid, name), uids in members.items() if uid == podgroup.uid}
            if not sets:
                continue
            name = max(sets, key=lambda one: (len(sets[one]), one))
            for uid in sets[name][self.pods :]:
                draft.remove("tasks", uid)
            draft.set("podgroups", structs.replace(podgroup, root=_needing(podgroup.root, name, self.pods)))


def _needing(group: SubGroup, name: str, most: int) -> SubGroup:
    return structs.replace(
        group,
        groups=tuple(_needing(child, name, most) for child in group.groups),
        podsets=tuple(
            # Tasks without a subgroup belong to the only pod set.
            structs.replace(podset, min_available=min(podset.min_available, most))
            if not name or podset.name == name
            else podset
            for podset in group.podsets
        ),
    )


@dataclass(frozen=True)
class DelayGone(Relaxation):
    """The subject has no preemption delay."""

    def change(self, draft: CycleInputDraft) -> None:
        _each(draft, lambda podgroup: structs.replace(podgroup, preemption_delay=0.0))


@dataclass(frozen=True)
class RefusalsForgotten(Relaxation):
    """No bind has been refused."""

    def change(self, draft: CycleInputDraft) -> None:
        draft.config = structs.replace(draft.config, refused=frozenset())


@dataclass(frozen=True)
class PromisesForgotten(Relaxation):
    """The previous cycle made room for no job, so all have their ordinary turn."""

    def change(self, draft: CycleInputDraft) -> None:
        draft.config = structs.replace(draft.config, promised=())


@dataclass(frozen=True)
class Actions(Relaxation):
    """The scheduler has these actions."""

    actions: tuple[Action, ...] = ACTIONS

    def change(self, draft: CycleInputDraft) -> None:
        draft.config = structs.replace(draft.config, actions=self.actions)


@dataclass(frozen=True)
class Imitating(Relaxation):
    """The scheduler imitates the faults of KAI with these numbers, and no others."""

    faults: tuple[int, ...] = ()

    def change(self, draft: CycleInputDraft) -> None:
        draft.config = structs.replace(draft.config, imitate_faults=self.faults)


def _each(draft: CycleInputDraft, changed: Callable[[PodGroup], PodGroup]) -> None:
    for podgroup in draft.podgroups():
        draft.set("podgroups", changed(podgroup))
