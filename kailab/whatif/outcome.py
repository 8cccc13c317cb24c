"""The outcome of a lab: the state of its workloads and queues at one moment, by which two labs are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from kailab.cluster.protocol import Object
from kailab.errors import NotFound
from kailab.evidence.entries import MOVING, PodEvicted, PodRow
from kailab.evidence.shares import QueueAmounts
from kailab.evidence.wording import count
from kailab.lab.lab import Lab
from kailab.lab.owners import refused_pods, top_of
from kailab.lab.picture import group_of
from kailab.lab.subjects import SYSTEM_NAMESPACES
from kailab.model import markup
from kailab.model.kinds import kind_key
from kailab.model.multimap import multimap
from kailab.model.objects import ENDED_PHASES, name_of, namespace_of
from kailab.model.times import format_time


class Workload(NamedTuple):
    """The top owner of pods, or a pod without owner."""

    namespace: str
    kind: str
    name: str

    @classmethod
    def of(cls, obj: Object) -> Workload:
        return cls(namespace_of(obj), kind_key(obj), name_of(obj))

    def __str__(self) -> str:
        bare = f"{self.kind.partition('.')[0]}/{self.name}"
        return bare if self.namespace in ("", "default") else f"{bare} -n {self.namespace}"

    def data(self) -> dict[str, str]:
        return {"kind": self.kind, "namespace": self.namespace, "name": self.name}


@dataclass(frozen=True)
class WorkloadState:
    """Pods of a workload. ``nodes``: node -> how many run there; ``waiting``: without a node; ``done``: ended.
    ``refused``: not there, because the API server refuses them."""

    queue: str
    running: int = 0
    waiting: int = 0
    done: int = 0
    nodes: Mapping[str, int] = field(default_factory=dict)
    refused: int = 0

    def data(self) -> dict[str, Any]:
        return {
            "running": self.running,
            "waiting": self.waiting,
            "done": self.done,
            "nodes": dict(sorted(self.nodes.items())),
            "refused": self.refused,
        }


@dataclass(frozen=True)
class Eviction:
    """An evicted pod. ``beneficiary``: the workload that it was evicted for, if any. ``gpus``: milli-GPU that it held."""

    pod: str
    workload: Workload
    queue: str
    node: str
    action: str
    beneficiary: Workload | None
    gpus: int = 0

    def data(self) -> dict[str, Any]:
        return {
            "pod": self.pod,
            "node": self.node,
            "gpus": self.gpus / 1000,
            "queue": self.queue,
            "action": self.action,
            "beneficiary": self.beneficiary.data() if self.beneficiary else None,
        }


@dataclass(frozen=True)
class Outcome:
    """``now``: seconds since the epoch. ``evictions``: in order, those after the first ``since`` of ``of``."""

    now: float
    workloads: Mapping[Workload, WorkloadState]
    queues: Mapping[str, QueueAmounts]
    evictions: tuple[Eviction, ...] = ()

    @classmethod
    def of(cls, lab: Lab, since: int = 0) -> Outcome:
        """The present outcome of a lab. ``since``: the number of evictions to skip, those before the change."""
        picture = lab.picture()
        owners = WorkloadOwners(lab)
        counts: dict[Workload, _PodCounts] = {}
        groups: dict[str, Workload] = {}
        for row in picture.rows:
            # System pods are left out: a new node may add some.
            if row.name.partition("/")[0] in SYSTEM_NAMESPACES:
                continue
            workload = owners.of(row.name, row.owner)
            counts.setdefault(workload, _PodCounts()).add(row)
            if row.podgroup:
                groups[group_of(row)] = workload
        for top, pods in refused_pods(lab.cluster):
            counts.setdefault(Workload.of(top), _PodCounts()).refused += pods
        evictions = tuple(_eviction(entry, owners, groups) for entry in lab.log.evictions[since:])
        return cls(
            now=lab.now,
            workloads={workload: counts[workload].state() for workload in sorted(counts)},
            queues=dict(sorted(picture.shares.queues.items())),
            evictions=evictions,
        )

    def data(self) -> dict[str, Any]:
        return {
            "time": format_time(self.now),
            "workloads": [
                {**workload.data(), "queue": state.queue, **state.data()} for workload, state in self.workloads.items()
            ],
            "queues": {name: queue_data(queue) for name, queue in self.queues.items()},
            "evictions": [{**eviction.workload.data(), **eviction.data()} for eviction in self.evictions],
        }


def queue_data(queue: QueueAmounts) -> dict[str, Any]:
    """Amounts in GPUs; ``quota`` and ``limit`` -1: unlimited; ``fairShare`` null if the scheduler computes none."""
    return {
        "parent": queue.parent,
        "quota": _gpus(queue.quota),
        "limit": _gpus(queue.limit),
        "fairShare": None if queue.fair_share is None else _gpus(queue.fair_share),
        "allocated": _gpus(queue.allocated),
        "requested": _gpus(queue.requested),
    }


class _PodCounts:
    """Counts the pods of one workload."""

    def __init__(self) -> None:
        self._queue = ""
        self._waiting = self._done = 0
        self.refused = 0
        self._nodes: dict[str, int] = {}

    def add(self, row: PodRow) -> None:
        # The pod that submits a RayJob has no queue; its cluster's pods do.
        self._queue = self._queue or row.queue
        if row.phase in ENDED_PHASES:
            self._done += 1
        # A pod that is being deleted does not count; its replacement does.
        elif row.phase == "Terminating":
            return
        elif row.node:
            self._nodes[row.node] = self._nodes.get(row.node, 0) + 1
        else:
            self._waiting += 1

    def state(self) -> WorkloadState:
        running = sum(self._nodes.values())
        nodes = dict(sorted(self._nodes.items()))
        return WorkloadState(self._queue, running, self._waiting, self._done, nodes, self.refused)


class WorkloadOwners:
    """The workloads of pods; each owner is looked up once. A deleted owner counts as the workload."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._known: dict[tuple[str, str], Workload] = {}

    def of(self, pod: str, owner: str) -> Workload:
        """``pod``: ``namespace/name``; ``owner``: its controller as ``Kind/name``."""
        namespace, _, name = pod.partition("/")
        if not owner:
            return Workload(namespace, "Pod", name)
        known = self._known.get((namespace, owner))
        if known is None:
            known = self._known[namespace, owner] = self._top(namespace, owner)
        return known

    def _top(self, namespace: str, owner: str) -> Workload:
        kind, _, name = owner.partition("/")
        try:
            top = top_of(self._lab.cluster, self._lab.cluster.get(kind, name, namespace))
        except NotFound:
            return Workload(namespace, kind, name)
        return Workload.of(top)


def _eviction(entry: PodEvicted, owners: WorkloadOwners, groups: Mapping[str, Workload]) -> Eviction:
    beneficiary = None
    if entry.beneficiary:
        namespace, _, name = entry.beneficiary.partition("/")
        beneficiary = groups.get(entry.beneficiary) or Workload(namespace, "PodGroup", name)
    workload = owners.of(entry.pod, entry.owner)
    held = entry.amounts.gpu if entry.amounts is not None else 0
    return Eviction(entry.pod, workload, entry.queue, entry.node, entry.action, beneficiary, held)


def _gpus(milli: float) -> float | int:
    if milli < 0:
        return -1
    return int(milli) // 1000 if milli % 1000 == 0 else round(milli / 1000, 3)


# --- comparison -------------------------------------------------------------------------------------------------------


_NONE = WorkloadState("")


@dataclass(frozen=True)
class WorkloadChange:
    """One workload in both outcomes; None if it does not exist there. ``evicted``: its pods that are evicted only with the change."""

    workload: Workload
    before: WorkloadState | None
    after: WorkloadState | None
    evicted: tuple[Eviction, ...] = ()

    @property
    def queue(self) -> str:
        return (self.after or _NONE).queue or (self.before or _NONE).queue

    @property
    def gained(self) -> int:
        """How many more pods run; negative: fewer."""
        return (self.after or _NONE).running - (self.before or _NONE).running

    @property
    def moved(self) -> int:
        """Pods that run in both outcomes, on other nodes."""
        if self.before is None or self.after is None:
            return 0
        # Compare numbers by node, because replaced pods have other names.
        stay = (Counter(self.before.nodes) & Counter(self.after.nodes)).total()
        return min(self.before.running, self.after.running) - stay

    @property
    def what(self) -> tuple[str, ...]:
        """``new``, ``gone``, ``runs`` (more pods than before), ``waits`` (more are pending), ``done`` (more have ended), ``moved``,
        ``refused`` (more are not made), ``evicted``; nothing if the outcomes are equal."""
        before, after = self.before or _NONE, self.after or _NONE
        found = {
            "new": self.before is None,
            "gone": self.after is None,
            "runs": after.running > before.running,
            "waits": after.waiting > before.waiting,
            "done": after.done > before.done,
            "moved": self.moved > 0,
            "refused": after.refused > before.refused,
            "evicted": bool(self.evicted),
        }
        return tuple(name for name, holds in found.items() if holds)

    @property
    def same(self) -> bool:
        return self.before == self.after and not self.evicted

    def data(self) -> dict[str, Any]:
        return {
            **self.workload.data(),
            "queue": self.queue,
            "what": list(self.what),
            "before": self.before.data() if self.before else None,
            "after": self.after.data() if self.after else None,
            "moved": self.moved,
            "evicted": [eviction.data() for eviction in self.evicted],
        }


@dataclass(frozen=True)
class QueueChange:
    """One queue in both outcomes; None if it does not exist there."""

    name: str
    before: QueueAmounts | None
    after: QueueAmounts | None

    @property
    def same(self) -> bool:
        return self.before == self.after

    def data(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "before": queue_data(self.before) if self.before else None,
            "after": queue_data(self.after) if self.after else None,
        }


@dataclass(frozen=True)
class Comparison:
    """``before``: the lab left alone; ``after``: with the change; both at the same time."""

    before: Outcome
    after: Outcome

    @cached_property
    def all_workloads(self) -> tuple[WorkloadChange, ...]:
        """By queue, then by name."""
        without_change = set(self.before.evictions)
        evicted = multimap((each.workload, each) for each in self.after.evictions if each not in without_change)
        there = {**self.before.workloads, **self.after.workloads} | dict.fromkeys(evicted)
        changes = (
            WorkloadChange(
                workload,
                self.before.workloads.get(workload),
                self.after.workloads.get(workload),
                tuple(evicted.get(workload, ())),
            )
            for workload in there
        )
        return tuple(sorted(changes, key=lambda change: (change.queue, change.workload)))

    @cached_property
    def workloads(self) -> tuple[WorkloadChange, ...]:
        """Workloads that end differently."""
        return tuple(change for change in self.all_workloads if not change.same)

    @cached_property
    def all_queues(self) -> tuple[QueueChange, ...]:
        names = sorted({*self.before.queues, *self.after.queues})
        return tuple(QueueChange(name, self.before.queues.get(name), self.after.queues.get(name)) for name in names)

    @cached_property
    def queues(self) -> tuple[QueueChange, ...]:
        """Queues that end differently."""
        return tuple(change for change in self.all_queues if not change.same)

    @property
    def evicted(self) -> tuple[Eviction, ...]:
        return tuple(eviction for change in self.all_workloads for eviction in change.evicted)

    def summary(self) -> str:
        """One line."""
        more = sum(max(0, change.gained) for change in self.workloads)
        fewer = sum(max(0, -change.gained) for change in self.workloads)
        moved = sum(change.moved for change in self.workloads)
        parts = [
            f"{more} more run" if more else "",
            f"{fewer} fewer run" if fewer else "",
            f"{moved} elsewhere" if moved else "",
            f"{evicted} evicted" if (evicted := sum(eviction.action != MOVING for eviction in self.evicted)) else "",
        ]
        pods = ", ".join(part for part in parts if part)
        alike = len(self.all_workloads) - len(self.workloads)
        if not self.workloads and not self.queues:
            return "no workload and no queue changes"
        return f"pods: {pods or 'as before'}; {count(len(self.workloads), 'workload')} changed, {alike} as before"

    def _repr_html_(self) -> str:
        return self.html_table("What changes")

    def html_table(self, caption: str) -> str:
        """The workloads that end differently, as a table for notebooks."""
        rows = (
            (
                str(change.workload), change.queue, ", ".join(change.what),
                change.before.running if change.before else "", change.after.running if change.after else "",
                len(change.evicted),
            )
            for change in self.workloads
        )  # fmt: skip
        columns = ("workload", "queue", "what", "ran", "runs", "evicted")
        return markup.html_table(f"{caption}: {self.summary()}", columns, rows)

    def data(self) -> dict[str, Any]:
        """The differences, for programs."""
        return {
            "summary": self.summary(),
            "workloads": [change.data() for change in self.workloads],
            "queues": [change.data() for change in self.queues],
        }


def changed_workloads(comparisons: Sequence[Comparison]) -> list[Workload]:
    """Workloads that end differently in some comparison, by queue, then by name."""
    found = {change.workload: change.queue for comparison in comparisons for change in comparison.workloads}
    return sorted(found, key=lambda workload: (found[workload], workload))
