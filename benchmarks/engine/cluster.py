"""Builds working sets of equal nodes, queues and jobs for the set-ups.

Nodes have 8 GPUs and 20 GB; a task requests one core and 1 GB besides its GPUs; jobs have priority 50, so they are preemptible; queues have no limit
on CPU and memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from kailab.engine.snapshot.gpu_requests import NO_GPU, WholeGpus
from kailab.engine.snapshot.records import (
    GPU,
    Constraint,
    Node,
    PodGroup,
    PodSet,
    Queue,
    ResourceShare,
    Shape,
    Status,
    SubGroup,
    Task,
)
from kailab.engine.working.workingset import WorkingSet
from kailab.model import labels

NOW = 1_767_225_600.0
RUNNING_FOR = 60.0
"""Seconds that running jobs have been running."""

GPUS_PER_NODE = 8
CORE = 1_000
MEMORY = 1_000_000_000
TRAIN = 50
UNBOUNDED = ResourceShare(quota=-1, limit=-1, weight=1)
RACK = "rack"


def pod(gpus: int) -> Shape:
    """The shape of a task with whole GPUs, one core and 1 GB."""
    return Shape(cpu=CORE, memory=MEMORY, gpu=WholeGpus(devices=gpus) if gpus else NO_GPU)


class ClusterBuilder:
    """Builds a working set (``working``). Objects that are added later are younger."""

    def __init__(self) -> None:
        self.working = WorkingSet()
        self._made = 0

    def nodes(self, number: int, racks: int = 0, cores: int = 20_000, gpus: int = GPUS_PER_NODE) -> list[str]:
        """Add nodes and return their names. ``racks``: number of racks over which they are distributed in turn; 0: no racks."""
        names = [f"node-{i:05}" for i in range(number)]
        for i, name in enumerate(names):
            rack = ((RACK, f"rack-{i % racks}"),) if racks else ()
            self.working.set_node(
                Node(
                    name=name,
                    cpu=cores * CORE,
                    memory=20 * MEMORY,
                    gpus=gpus * GPU,
                    gpu_memory_mib=100,
                    labels=((labels.HOSTNAME, name), *rack),
                )
            )
        return names

    def queue(
        self, name: str, parent: str = "", *, quota: int = -1, weight: float = 0, cpu: ResourceShare = UNBOUNDED
    ) -> None:
        """Add a queue. ``quota``: GPUs; -1: unlimited."""
        gpu = ResourceShare(quota=quota * GPU if quota >= 0 else -1, limit=-1, weight=weight)
        self.working.set_queue(
            Queue(name=name, parent=parent, uid=name, created=self._next(), gpu=gpu, cpu=cpu, memory=UNBOUNDED)
        )

    def running(self, number: int, queue: str | Sequence[str], nodes: Sequence[str], shape: Shape) -> None:
        """Add running jobs of one task, distributed in turn over queues and nodes."""
        queues = [queue] if isinstance(queue, str) else queue
        for i in range(number):
            self.job(f"running-{i:06}", queues[i % len(queues)], shape, node=nodes[i % len(nodes)])

    def job(
        self, name: str, queue: str, shape: Shape, tasks: int = 1, node: str = "", constraint: Constraint | None = None
    ) -> None:
        """Add a gang of equal tasks, running on ``node`` or pending."""
        created = self._next()
        self.working.set_podgroup(
            PodGroup(
                uid=name,
                name=name,
                namespace="default",
                queue=queue,
                priority=TRAIN,
                created=created,
                last_start=NOW - RUNNING_FOR if node else None,
                root=SubGroup(podsets=(PodSet(name="default", min_available=tasks),), constraint=constraint),
            )
        )
        for i in range(tasks):
            self.working.set_task(
                Task(
                    uid=f"{name}-{i:04}",
                    name=f"{name}-{i:04}",
                    namespace="default",
                    podgroup=name,
                    shape=shape,
                    status=Status.RUNNING if node else Status.PENDING,
                    node=node,
                )
            )

    def _next(self) -> float:
        """The next creation time; all are long past."""
        self._made += 1
        return NOW - 1_000_000 + self._made
