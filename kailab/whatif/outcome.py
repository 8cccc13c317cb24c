"""The outcome of a lab: the state of its workloads and queues at one moment, by which two labs are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from kailab.errors import NotFound
from kailab.evidence.entries import PodEvicted, PodRow
from kailab.evidence.shares import QueueAmounts
from kailab.lab.owners import top_of
from kailab.lab.picture import group_of
from kailab.lab.subjects import SYSTEM_NAMESPACES
from kailab.model.kinds import kind_key
from kailab.model.objects import name_of
from kailab.model.times import format_time

if TYPE_CHECKING:
    from kailab.lab.lab import Lab

ENDED = ("Succeeded", "Failed")


class Workload(NamedTuple):
    """The top owner of pods, or a pod without owner."""

    namespace: str
    kind: str
    name: str

    def __str__(self) -> str:
        bare = f"{self.kind.partition('.')[0]}/{self.name}"
        return bare if self.namespace in ("", "default") else f"{bare} -n {self.namespace}"

    def data(self) -> dict[str, str]:
        return {"kind": self.kind, "namespace": self.namespace, "name": self.name}


@dataclass(frozen=True)
class WorkloadState:
    """Pods of a workload. ``nodes``: node -> how many run there; ``waiting``: without a node; ``done``: ended."""

    queue: str
    running: int = 0
    waiting: int = 0
    done: int = 0
    nodes: Mapping[str, int] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        return {
            "running": self.running,
            "waiting": self.waiting,
            "done": self.done,
            "nodes": dict(sorted(self.nodes.items())),
        }


@dataclass(frozen=True)
class Eviction:
    """An evicted pod. ``beneficiary``: the workload that it was evicted for, if any."""

    pod: str
    workload: Workload
    queue: str
    node: str
    action: str
    beneficiary: Workload | None

    def data(self) -> dict[str, Any]:
        return {
            "pod": self.pod,
            "node": self.node,
            "queue": self.queue,
            "action": self.action,
            "beneficiary": self.beneficiary.data() if self.beneficiary else None,
        }


@dataclass(frozen=True)
class Outcome:
    """``now``: seconds since the epoch. ``evictions``: in order, since some moment."""

    now: float
    workloads: Mapping[Workload, WorkloadState]
    queues: Mapping[str, QueueAmounts]
    evictions: tuple[Eviction, ...] = ()

    @classmethod
    def of(cls, lab: Lab, since: int = 0) -> Outcome:
        """The present outcome of a lab. ``since``: how many of its first evictions to leave out."""
        picture = lab.picture()
        owners = _Owners(lab)
        counts: dict[Workload, _PodCounts] = {}
        groups: dict[str, Workload] = {}
        for row in picture.rows:
            # System pods are of no interest, and a new node may add some.
            if row.name.partition("/")[0] in SYSTEM_NAMESPACES:
                continue
            workload = owners.of(row.name, row.owner)
            counts.setdefault(workload, _PodCounts(row.queue)).take(row)
            if row.podgroup:
                groups[group_of(row)] = workload
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

    def __init__(self, queue: str) -> None:
        self._queue = queue
        self._waiting = self._done = 0
        self._nodes: dict[str, int] = {}

    def take(self, row: PodRow) -> None:
        if row.phase in ENDED:
            self._done += 1
        # Its replacement counts.
        elif row.phase == "Terminating":
            return
        elif row.node:
            self._nodes[row.node] = self._nodes.get(row.node, 0) + 1
        else:
            self._waiting += 1

    def state(self) -> WorkloadState:
        running = sum(self._nodes.values())
        return WorkloadState(self._queue, running, self._waiting, self._done, dict(sorted(self._nodes.items())))


class _Owners:
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
        return Workload(namespace, kind_key(top), name_of(top))


def _eviction(entry: PodEvicted, owners: _Owners, groups: Mapping[str, Workload]) -> Eviction:
    beneficiary = None
    if entry.beneficiary:
        namespace, _, name = entry.beneficiary.partition("/")
        beneficiary = groups.get(entry.beneficiary) or Workload(namespace, "PodGroup", name)
    workload = owners.of(entry.pod, entry.owner)
    return Eviction(entry.pod, workload, entry.queue, entry.node, entry.action, beneficiary)


def _gpus(milli: float) -> float | int:
    if milli < 0:
        return -1
    return int(milli) // 1000 if milli % 1000 == 0 else round(milli / 1000, 3)
