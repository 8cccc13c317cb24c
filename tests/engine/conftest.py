"""A small vocabulary for engine tests: a world of nodes, queues and jobs, and what a cycle decides about it.

    world.node("node-1", gpus=8)
    world.queue("team", quota=8)
    world.job("train", tasks=2, gpus=4)
    assert world.decide().bound == {"train-0": "node-1", "train-1": "node-1"}

GPUs are whole devices here, ages and delays seconds; a job's tasks are ``<job>-<number>``.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.decisions import Decisions, Evict, Pending
from kailab.engine.snapshot.devices import any_devices
from kailab.engine.snapshot.gpu_requests import NO_GPU, GpuFraction, GpuRequest, WholeGpus
from kailab.engine.snapshot.records import (
    GPU,
    Constraint,
    Node,
    PodGroup,
    PodSet,
    Queue,
    ResourceClaim,
    ResourceShare,
    Shape,
    Status,
    SubGroup,
    Task,
    Topology,
)
from kailab.engine.working.workingset import WorkingSet
from kailab.model.device_selectors import Device

NOW = 1_000_000.0
FREE = ResourceShare(quota=-1, limit=-1, weight=1.0)


class CycleResult:
    """What one cycle decided, by names."""

    def __init__(self, decisions: Decisions) -> None:
        self.decisions = decisions

    @property
    def bound(self) -> dict[str, str]:
        return {bind.task: bind.node for bind in self.decisions.binds}

    @property
    def evicted(self) -> set[str]:
        return {evict.task for evict in self.decisions.evictions}

    @property
    def promised(self) -> dict[str, str]:
        return {pipeline.task: pipeline.node for pipeline in self.decisions.pipelines if not pipeline.moved}

    @property
    def moved(self) -> dict[str, str]:
        return {pipeline.task: pipeline.node for pipeline in self.decisions.pipelines if pipeline.moved}

    @property
    def lost(self) -> set[str]:
        """Evicted without a new place."""
        return self.evicted - set(self.moved)

    @property
    def nothing(self) -> bool:
        return not (self.decisions.binds or self.decisions.evictions or self.decisions.pipelines)

    def pending(self, job: str) -> Pending:
        return next(pending for pending in self.decisions.pending if pending.podgroup == job)

    def eviction(self, task: str) -> Evict:
        return next(evict for evict in self.decisions.evictions if evict.task == task)

    def groups(self, task: str) -> tuple[str, ...]:
        """GPU groups that a task was bound to."""
        return next(bind.gpu_groups for bind in self.decisions.binds if bind.task == task)


class World:
    """Records to make snapshots of; every call adds one. Queues and jobs are older the earlier they are added."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self._jobs = 0
        self._queues = 0

    def node(self, name: str, gpus: float = 8, labels: Mapping[str, str] | None = None, **fields: Any) -> None:
        """``devices``: so many for claims, or these."""
        defaults: dict[str, Any] = {"cpu": 1_000_000, "memory": 10**13, "gpu_memory_mib": 80_000}
        if isinstance(count := fields.get("devices"), int):
            fields["devices"] = tuple(Device("example.com", name, f"device-{number}") for number in range(count))
        self.records.append(
            Node(name=name, gpus=round(gpus * GPU), labels=tuple(sorted((labels or {}).items())), **(defaults | fields))
        )

    def queue(
        self, name: str, quota: float = 0, limit: float = -1, weight: float = 1.0, parent: str = "", **fields: Any
    ) -> None:
        self._queues += 1
        gpu = ResourceShare(quota=_milli(quota), limit=_milli(limit), weight=weight)
        defaults: dict[str, Any] = {"cpu": FREE, "memory": FREE, "created": float(self._queues), "uid": name}
        self.records.append(Queue(name=name, parent=parent, gpu=gpu, **(defaults | fields)))

    def lending(self, gpus: float, quota: float = 1, **borrower: Any) -> None:
        """A node ``n``, the queue ``lender`` with this quota, and the queue ``borrower``, which has none unless it is given."""
        self.queue("lender", quota=quota)
        self.queue("borrower", **borrower)
        self.node("n", gpus=gpus)

    def topology(self, name: str, *levels: str) -> None:
        self.records.append(Topology(name=name, levels=levels))

    def claim(self, name: str, devices: int = 1, **fields: Any) -> None:
        """``devices``: so many, whichever they are; or ``requests``."""
        self.records.append(ResourceClaim(name=f"default/{name}", **{"requests": any_devices(devices), **fields}))

    def job(
        self,
        name: str,
        queue: str = "team",
        tasks: int = 1,
        gpus: float = 1,
        gang: int = 1,
        on: str | Sequence[str] = (),
        priority: int = 50,
        preemptible: bool | None = None,
        root: SubGroup | None = None,
        members: Mapping[str, int] | None = None,
        constraint: Constraint | None = None,
        shape: Mapping[str, Any] | None = None,
        task: Mapping[str, Any] | None = None,
        groups: Sequence[tuple[str, ...]] = (),
        labels: Sequence[int] = (),
        gated: int = 0,
        status: Status = Status.RUNNING,
        **fields: Any,
    ) -> None:
        """``on``: the nodes of the tasks that run (a name: all of them there); the others wait. ``gang``: how many must
        start together. ``members``: subgroup -> tasks in it. ``labels``: task priorities of the first tasks.
        ``gated``: how many of the last tasks have scheduling gates. ``shape``, ``task``, ``fields``: more of those
        records."""
        self._jobs += 1
        places = [on] * tasks if isinstance(on, str) and on else list(on)
        plain = SubGroup(podsets=(PodSet(name="default", min_available=gang, constraint=constraint),))
        group = PodGroup(
            uid=name,
            name=name,
            namespace="default",
            queue=queue,
            priority=priority,
            preemptible=priority < 100 if preemptible is None else preemptible,
            root=root or plain,
            **({"created": float(self._jobs), "last_start": NOW - 3600 if places else None} | fields),
        )
        self.records.append(group)
        subgroups = [subgroup for subgroup, count in (members or {}).items() for _ in range(count)]
        count = len(subgroups) or tasks
        for number in range(count):
            placed = number < len(places)
            waiting = Status.GATED if number >= count - gated else Status.PENDING
            self.records.append(
                Task(
                    uid=f"{name}-{number}",
                    name=f"{name}-{number}",
                    namespace="default",
                    podgroup=name,
                    shape=Shape(**({"cpu": 100, "memory": 10**6, "gpu": _gpu(gpus)} | dict(shape or {}))),
                    status=status if placed else waiting,
                    node=places[number] if placed else "",
                    subgroup=subgroups[number] if subgroups else "",
                    priority=labels[number] if number < len(labels) else None,
                    **(
                        {"created": float(self._jobs), "gpu_groups": groups[number] if number < len(groups) else ()}
                        | dict(task or {})
                    ),
                )
            )

    def jobs(self, count: int, name: str, **fields: Any) -> None:
        """Jobs ``<name>0``, ``<name>1`` ... that are alike."""
        for number in range(count):
            self.job(f"{name}{number}", **fields)

    def working(self, records: Iterable[Any] | None = None) -> WorkingSet:
        working = WorkingSet()
        for record in self.records if records is None else records:
            _SETTERS[type(record)](working, record)
        return working

    def shuffled(self, seed: int) -> list[Any]:
        records = list(self.records)
        random.Random(seed).shuffle(records)
        return records

    def decide(self, **config: Any) -> CycleResult:
        """One cycle, with KAI's defaults but for what is given."""
        return CycleResult(run_cycle(self.working(), EngineConfig(**config), NOW))


_SETTERS = {
    Node: WorkingSet.set_node,
    Queue: WorkingSet.set_queue,
    Topology: WorkingSet.set_topology,
    ResourceClaim: WorkingSet.set_claim,
    PodGroup: WorkingSet.set_podgroup,
    Task: WorkingSet.set_task,
}


def _milli(gpus: float) -> int:
    return -1 if gpus < 0 else round(gpus * GPU)


def _gpu(gpus: float) -> GpuRequest:
    if gpus == 0:
        return NO_GPU
    return GpuFraction(devices=1, portion=round(gpus * GPU)) if gpus < 1 else WholeGpus(devices=round(gpus))


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def team(world: World) -> World:
    """A world with one queue that owns whatever there is."""
    world.queue("team", quota=-1)
    return world


@pytest.fixture
def state():
    """Everything of a working set's nodes that a cycle changes, as plain values."""

    def read(working: WorkingSet) -> dict[str, Any]:
        table = working.table
        zones = {i: [dict(zone) for zone in zones.available] for i, zones in table.numa.zones.items()}
        return {
            "idle": np.asarray(table.idle).tolist(),
            "releasing": np.asarray(table.releasing).tolist(),
            "tasks": [sorted(tasks) for tasks in table.tasks],
            "sharing": {
                i: {
                    name: (group.allocated, group.promised, group.leaving_memory)
                    for name, group in shared.groups.items()
                }
                for i, shared in table.shared.items()
                if shared.groups
            },
            "zones": zones,
            "devices": table.claims.taken,
            "status": {uid: (task.status, task.node, task.groups, task.zones) for uid, task in working.tasks.items()},
        }

    return read
