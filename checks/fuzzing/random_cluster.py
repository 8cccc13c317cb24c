"""Random small clusters, made from a stream of choices.

All randomness goes through one ``Pick``, so the same builder serves a seeded generator and a property-testing library
that shrinks its findings. Every cluster can be written as a case file (``case_writing``). Running pods are placed only
where they fit; rare features are drawn rarely, so that most clusters mix a few of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from checks.case_input import NOW, CaseInput
from checks.fuzzing.free_capacity import FreeCapacity
from checks.simulated_cluster import accepted_share
from kailab.engine.config import EngineConfig
from kailab.engine.snapshot.gpu_requests import NO_GPU, GpuFraction, GpuMemory, MigInstances, WholeGpus
from kailab.engine.snapshot.records import (
    GPU,
    Constraint,
    Node,
    NodeTerm,
    PodGroup,
    PodSet,
    PodTerm,
    Queue,
    Requirement,
    ResourceShare,
    Shape,
    Status,
    SubGroup,
    Task,
    Topology,
)
from kailab.model import labels

Pick = Callable[[Sequence[Any]], Any]
"""Chooses one of several options."""

NODE_NAME = "kai.scheduler/type"
MIG_ENABLED = "node-role.kubernetes.io/mig-enabled"
LEVELS = ("zone", "rack", labels.HOSTNAME)
TOPOLOGY = Topology(name="floor", levels=LEVELS)
SMALL_MIG, LARGE_MIG = labels.MIG_PREFIX + "1g.5gb", labels.MIG_PREFIX + "3g.20gb"
MIG_OF_A_NODE = ((SMALL_MIG, 4), (LARGE_MIG, 2))
FREE = ResourceShare(quota=-1, limit=-1, weight=1.0)
CORE = 1_000


def seeded(seed: int) -> CaseInput:
    """The cluster of a seed."""
    source = random.Random(seed)
    return random_case_input(lambda options: options[source.randrange(len(options))])


def random_case_input(pick: Pick) -> CaseInput:
    """A cluster of 1-4 nodes, a queue tree of 1-3 levels, and 1-7 workloads of 1-5 pods, some of them running."""
    spread_memory = pick((False, False, False, True))
    nodes = [_node(pick, index, spread_memory) for index in range(pick((1, 2, 3, 4)))]
    queues = _queues(pick)
    leaves = [queue for queue in queues if not any(other.parent == queue.name for other in queues)]
    room = FreeCapacity(nodes)
    podgroups: list[PodGroup] = []
    tasks: list[Task] = []
    for index in range(pick((1, 2, 3, 4, 5, 6, 7))):
        group, members = _workload(pick, f"w{index}", pick(leaves), room, index)
        podgroups.append(group)
        tasks += members
    return CaseInput(
        nodes=tuple(nodes),
        queues=tuple(queues),
        podgroups=tuple(podgroups),
        tasks=tuple(tasks),
        topologies=(TOPOLOGY,),
        config=EngineConfig(
            gpu_placement=pick(("binpack", "spread")),
            use_signatures=pick((True, False)),
            max_consolidation_victims=pick((16, -1)),
        ),
    )


def _node(pick: Pick, index: int, spread_memory: bool) -> Node:
    name = f"n{index}"
    mig = pick((False,) * 9 + (True,))
    own_labels = ((labels.HOSTNAME, name), (NODE_NAME, name), ("rack", f"r{index // 2}"), ("zone", f"z{index // 3}"))
    return Node(
        name=name,
        cpu=pick((64, 64, 6)) * CORE,
        memory=10**12,
        gpus=0 if mig else pick((2, 4, 8, 0)) * GPU,
        pods=pick((110, 110, 110, 4)),
        extended=MIG_OF_A_NODE if mig else (),
        gpu_memory_mib=pick((400, 800)) if spread_memory else 400,
        labels=tuple(sorted((*own_labels, (MIG_ENABLED, "true" if mig else "false")))),
        mig=mig,
        devices=(),
    )


def _queues(pick: Pick) -> list[Queue]:
    queues: list[Queue] = []

    def add(name: str, parent: str, depth: int) -> None:
        queues.append(
            Queue(
                name=name,
                uid=name,
                parent=parent,
                priority=pick((100, 100, 100, 200)),
                created=NOW - 1000 + len(queues),
                gpu=_share(pick),
                cpu=pick((FREE, FREE, ResourceShare(quota=3 * CORE, limit=-1, weight=1.0))),
                memory=FREE,
                reclaim_min_runtime=pick((None, None, 600.0)),
                preempt_min_runtime=pick((None, None, 600.0)),
            )
        )
        children = (0, 1, 2) if depth == 1 else (0, 0, 0, 2)
        if depth < 3:
            for number in range(pick(children)):
                add(f"{name}-q{number}", name, depth + 1)

    for top in range(pick((1, 2, 3))):
        add(f"d{top}", "", 1)
    return queues


def _share(pick: Pick) -> ResourceShare:
    quota = pick((0, 1, 2, 4, -1))
    limit = pick((-1, -1, -1, 2, 4, 8))
    return ResourceShare(
        quota=quota * GPU if quota > 0 else quota,
        limit=limit * GPU if limit > 0 else limit,
        weight=float(pick((1, 0, 2, 3))),
    )


WANTED = (
    (WholeGpus(devices=1),) * 4
    + (WholeGpus(devices=2),) * 2
    + (WholeGpus(devices=4),) * 2
    + (GpuFraction(devices=1, portion=500),) * 2
    + (GpuFraction(devices=1, portion=300),)
    + (GpuFraction(devices=2, portion=500),)
    + (GpuMemory(devices=1, memory_mib=100),)
    + (GpuMemory(devices=2, memory_mib=300),)
    + (MigInstances(profiles=((SMALL_MIG, 1),)),)
    + (MigInstances(profiles=((LARGE_MIG, 1),)),)
    + (NO_GPU,) * 2
)


def _shape(pick: Pick, name: str) -> Shape:
    gpu = pick(WANTED)
    where = pick((None,) * 12 + ("named", "apart", "together"))
    plain = Shape(cpu=pick((CORE, CORE, CORE, 3 * CORE)), memory=10**9, gpu=gpu)
    if where is None:
        return plain
    if where == "named":
        named = NodeTerm(requirements=(Requirement(key=NODE_NAME, operator="In", values=("n0", "n2")),))
        return Shape(cpu=plain.cpu, memory=plain.memory, gpu=gpu, terms=(named,))
    term = PodTerm(
        topology_key=labels.HOSTNAME if where == "apart" else "rack",
        requirements=(Requirement(key="app", operator="In", values=(name,)),),
        namespaces=("default",),
    )
    return Shape(
        cpu=plain.cpu,
        memory=plain.memory,
        gpu=gpu,
        anti_affinity=(term,) if where == "apart" else (),
        affinity=(term,) if where == "together" else (),
        labels=(("app", name),),
        namespace="default",
    )


@dataclass(frozen=True, slots=True)
class _Members:
    """The groups of a workload's pods: the tree, the pod set of each pod in turn, and how many pods it takes to start."""

    root: SubGroup
    podsets: tuple[str, ...]
    needed: int


def _members(pick: Pick, count: int) -> _Members:
    constraint = pick(
        (None,) * 4
        + tuple(Constraint(topology="floor", required=level) for level in ("zone", "rack", labels.HOSTNAME))
        + (Constraint(topology="floor", preferred="rack"), Constraint(topology="floor", preferred=labels.HOSTNAME))
    )
    form = pick(("plain",) * 6 + ("halves", "nested")) if count >= 2 else "plain"
    if form == "plain":
        minimum = pick(tuple(range(1, count + 1)))
        gang = SubGroup(podsets=(PodSet(name="default", min_available=minimum),), constraint=constraint)
        return _Members(gang, ("default",), minimum)
    inner = pick((None, None, Constraint(topology="floor", required=labels.HOSTNAME)))
    if form == "halves":
        podsets = (PodSet(name="a", min_available=1, constraint=inner), PodSet(name="b", min_available=1))
        optional = pick((None, None, 1))
        return _Members(SubGroup(podsets=podsets, min_members=optional, constraint=constraint), ("a", "b"), 2)
    groups = (
        SubGroup(name="left", podsets=(PodSet(name="a", min_available=1, constraint=inner),)),
        SubGroup(name="right", podsets=(PodSet(name="b", min_available=1), PodSet(name="c", min_available=0))),
    )
    root = SubGroup(groups=groups, min_members=pick((None, 1, 2)), constraint=constraint)
    return _Members(root, ("a", "b", "c"), 2)


def _workload(pick: Pick, name: str, queue: Queue, room: FreeCapacity, index: int) -> tuple[PodGroup, list[Task]]:
    count = pick((1, 2, 3, 5))
    members = _members(pick, count)
    priority, preemptible = pick(((50, True), (50, True), (75, True), (100, False), (100, True), (125, False)))
    shape = _shape(pick, name)
    running = pick((False, True, True))
    task_priorities = pick((False,) * 9 + (True,))
    tasks = [
        Task(
            uid=f"{name}-{number}",
            name=f"{name}-{number}",
            namespace="default",
            podgroup=name,
            shape=shape,
            subgroup=members.podsets[number % len(members.podsets)],
            priority=pick((None, 1, 2)) if task_priorities else None,
        )
        for number in range(count)
    ]
    if running:
        stale = pick((False,) * 9 + (True,))
        tasks = _run(pick, tasks, room, needed=1 if stale else members.needed)
    group = PodGroup(
        uid=name,
        name=name,
        namespace="default",
        queue=queue.name,
        priority=priority,
        preemptible=preemptible,
        created=NOW - 600 + 10 * index,
        root=_without_constraints(members.root) if running else members.root,
        preemption_delay=pick((0.0, 0.0, 0.0, 3600.0)),
        staleness_grace=pick((None, 0.0)),
    )
    return group, tasks


def _without_constraints(group: SubGroup) -> SubGroup:
    """The tree without topology constraints: running pods may be anywhere."""
    return SubGroup(
        name=group.name,
        groups=tuple(_without_constraints(inner) for inner in group.groups),
        podsets=tuple(PodSet(name=podset.name, min_available=podset.min_available) for podset in group.podsets),
        min_members=group.min_members,
    )


def _run(pick: Pick, tasks: list[Task], room: FreeCapacity, needed: int) -> list[Task]:
    """Place tasks on nodes while they fit. If fewer than ``needed`` fit, none runs (their room stays lost to later
    ones).
    """
    placed: list[Task] = []
    leaving = pick((False, False, False, False, True))
    for task in tasks:
        first = pick(tuple(range(len(room.nodes))))
        for node in (*room.nodes[first:], *room.nodes[:first]):
            groups = room.place(node, task.shape, f"g-{task.uid}")
            if groups is None:
                continue
            placed.append(
                structs.replace(
                    task,
                    status=Status.RELEASING if leaving else Status.RUNNING,
                    node=node.name,
                    gpu_groups=groups,
                    accepted=accepted_share(task.shape.gpu, node.gpu_memory_mib),
                )
            )
            break
        else:
            break
    return placed + tasks[len(placed) :] if len(placed) >= needed else tasks
