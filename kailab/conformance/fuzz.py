"""Random small clusters against the invariants: ``python -m kailab.conformance.fuzz --seeds 0:500``.

``random_opening`` makes a cluster from a stream of choices, so that the same builder serves a seeded generator here
and a property-testing library that shrinks what it finds. Running work is put only where it really fits.
"""

from __future__ import annotations

import argparse
import random
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from kailab.conformance.invariants import Decide, run_rounds, undecided
from kailab.conformance.opening import NOW, Opening
from kailab.conformance.report import Report, Result
from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.records import (
    GPU,
    NO_GPU,
    Constraint,
    GpuRequest,
    Node,
    PodGroup,
    PodSet,
    Queue,
    Shape,
    Share,
    Status,
    SubGroup,
    Task,
    Topology,
)

T = TypeVar("T")
Pick = Callable[[Sequence[Any]], Any]
"""Chooses one of several; all that is random goes through it."""

MEMORY_MIB = 400
TOPOLOGY = Topology(name="floor", levels=("zone", "rack"))


class _Room:
    """What nodes have left while running work is laid out."""

    def __init__(self, nodes: list[Node]) -> None:
        self.devices = {node.name: node.gpus // GPU for node in nodes}
        self.cpu = {node.name: node.cpu for node in nodes}
        self.groups: dict[str, list[tuple[str, int]]] = {node.name: [] for node in nodes}

    def place(self, name: str, shape: Shape, fresh: str) -> tuple[str, ...] | None:
        """GPU groups (empty for whole devices) if the task fits on the node, else None."""
        if self.cpu[name] < shape.cpu:
            return None
        gpu = shape.gpu
        if not gpu.shared:
            if self.devices[name] < gpu.devices:
                return None
            self.devices[name] -= gpu.devices
            self.cpu[name] -= shape.cpu
            return ()
        for index, (group, used) in enumerate(self.groups[name]):
            if used + gpu.portion <= GPU:
                self.groups[name][index] = (group, used + gpu.portion)
                self.cpu[name] -= shape.cpu
                return (group,)
        if not self.devices[name]:
            return None
        self.devices[name] -= 1
        self.groups[name].append((fresh, gpu.portion))
        self.cpu[name] -= shape.cpu
        return (fresh,)


def random_opening(pick: Pick) -> Opening:
    """A cluster of 1-4 nodes, a queue tree of 1-2 levels, and 1-7 workloads of 1-5 pods, some of them running."""
    nodes = [_node(pick, index) for index in range(pick((1, 2, 3, 4)))]
    queues = _queues(pick)
    leaves = [queue for queue in queues if not any(other.parent == queue.name for other in queues)]
    room = _Room(nodes)
    podgroups: list[PodGroup] = []
    tasks: list[Task] = []
    for index in range(pick((1, 2, 3, 4, 5, 6, 7))):
        group, members = _workload(pick, f"w{index}", pick(leaves), nodes, room, index)
        podgroups.append(group)
        tasks += members
    return Opening(
        nodes=nodes,
        queues=queues,
        podgroups=podgroups,
        tasks=tasks,
        topologies=[TOPOLOGY],
        config=EngineConfig(
            gpu_placement=pick(("binpack", "spread")),
            use_signatures=pick((True, False)),
            max_consolidation_victims=pick((16, -1)),
        ),
    )


def _node(pick: Pick, index: int) -> Node:
    return Node(
        name=f"n{index}",
        cpu=pick((64_000, 64_000, 6_000)),
        memory=10**12,
        gpus=pick((2, 4, 8, 0)) * GPU,
        gpu_memory_mib=MEMORY_MIB,
        labels=(("rack", f"r{index // 2}"), ("zone", f"z{index // 3}")),
    )


def _share(pick: Pick) -> Share:
    quota = pick((0, 1, 2, 4, -1))
    limit = pick((-1, -1, -1, 2, 4, 8))
    return Share(
        quota=quota * GPU if quota > 0 else quota,
        limit=limit * GPU if limit > 0 else limit,
        weight=float(pick((1, 0, 2, 3))),
    )


def _queues(pick: Pick) -> list[Queue]:
    free = Share(quota=-1, limit=-1, weight=1.0)
    queues: list[Queue] = []

    def add(name: str, parent: str) -> None:
        queues.append(
            Queue(
                name=name,
                uid=name,
                parent=parent,
                priority=pick((100, 100, 100, 200)),
                created=NOW - 1000 + len(queues),
                gpu=_share(pick),
                cpu=pick((free, free, Share(quota=3_000, limit=-1, weight=1.0))),
                memory=free,
                reclaim_min_runtime=pick((None, None, 600.0)),
                preempt_min_runtime=pick((None, None, 600.0)),
            )
        )

    for top in range(pick((1, 2, 3))):
        add(f"d{top}", "")
        for leaf in range(pick((0, 1, 2))):
            add(f"d{top}-q{leaf}", f"d{top}")
    return queues


def _shape(pick: Pick) -> Shape:
    gpu = pick(
        (
            GpuRequest(devices=1),
            GpuRequest(devices=1),
            GpuRequest(devices=2),
            GpuRequest(devices=4),
            GpuRequest(devices=1, portion=500),
            GpuRequest(devices=1, portion=300),
            GpuRequest(devices=1, memory_mib=100),
            NO_GPU,
        )
    )
    return Shape(cpu=1_000, memory=10**9, gpu=gpu)


def _workload(
    pick: Pick, name: str, queue: Queue, nodes: list[Node], room: _Room, index: int
) -> tuple[PodGroup, list[Task]]:
    count = pick((1, 2, 3, 5))
    minimum = pick(tuple(range(1, count + 1)))
    halves = count >= 2 and pick((False, False, False, True))
    constraint = pick(
        (None, None, Constraint(topology="floor", required="rack"), Constraint(topology="floor", preferred="rack"))
    )
    podsets = (
        (PodSet(name="a", min_available=1), PodSet(name="b", min_available=1))
        if halves
        else (PodSet(name="default", min_available=minimum),)
    )
    priority, preemptible = pick(((50, True), (50, True), (75, True), (100, False), (100, True), (125, False)))
    shape = _shape(pick)
    running = pick((False, True, True))
    tasks = [
        Task(
            uid=f"{name}-{number}",
            name=f"{name}-{number}",
            namespace="default",
            podgroup=name,
            shape=shape,
            subgroup=podsets[number % len(podsets)].name,
        )
        for number in range(count)
    ]
    if running and not shape.gpu.memory_mib:
        tasks = _run(pick, tasks, nodes, room, needed=2 if halves else minimum)
    group = PodGroup(
        uid=name,
        name=name,
        namespace="default",
        queue=queue.name,
        priority=priority,
        preemptible=preemptible,
        created=NOW - 600 + 10 * index,
        root=SubGroup(podsets=podsets, constraint=constraint if not running else None),
        preemption_delay=pick((0.0, 0.0, 0.0, 3600.0)),
        staleness_grace=pick((None, 0.0)),
    )
    return group, tasks


def _run(pick: Pick, tasks: list[Task], nodes: list[Node], room: _Room, needed: int) -> list[Task]:
    """Put tasks on nodes while they fit; if fewer than needed do, none runs (their room stays lost to later ones)."""
    placed: list[Task] = []
    leaving = pick((False, False, False, False, True))
    for task in tasks:
        first = pick(tuple(range(len(nodes))))
        for node in (*nodes[first:], *nodes[:first]):
            groups = room.place(node.name, task.shape, f"g-{task.uid}")
            if groups is not None:
                status = Status.RELEASING if leaving else Status.RUNNING
                placed.append(
                    Task(
                        uid=task.uid,
                        name=task.name,
                        namespace=task.namespace,
                        podgroup=task.podgroup,
                        shape=task.shape,
                        subgroup=task.subgroup,
                        status=status,
                        node=node.name,
                        gpu_groups=groups,
                    )
                )
                break
        else:
            break
    return placed + tasks[len(placed) :] if len(placed) >= needed else tasks


def seeded(seed: int) -> Opening:
    """The cluster of a seed."""
    source = random.Random(seed)
    return random_opening(lambda options: options[source.randrange(len(options))])


def run_seed(seed: int, decide: Decide = run_cycle, most: int = 12) -> Result:
    opening = seeded(seed)
    try:
        violations = run_rounds(opening, decide, most) + undecided(opening, decide)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        last = traceback.format_exception_only(error)[-1].strip()
        violations = [f"the engine failed: {last} ({Path(place.filename).name}:{place.lineno})"]
    return Result(id=f"seed/{seed}", suite="invariants", differences=tuple(violations))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m kailab.conformance.fuzz", description=__doc__)
    parser.add_argument("--seeds", default="0:200", metavar="FROM:TO", help="seeds to run, TO left out")
    parser.add_argument("-v", "--verbose", action="store_true", help="every violation, not the first alone")
    parser.add_argument("-o", "--output", choices=["text", "json"], default="text")
    options = parser.parse_args(arguments)
    first, _, last = options.seeds.partition(":")
    if not first.isdigit() or not last.isdigit():
        print(f"--seeds {options.seeds}: expected FROM:TO, two whole numbers", file=sys.stderr)
        return 2
    report = Report("random clusters", [run_seed(seed) for seed in range(int(first), int(last))])
    print(report.as_json() if options.output == "json" else report.text(options.verbose))
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
