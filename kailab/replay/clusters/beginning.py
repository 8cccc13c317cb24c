"""Whether a job could ever begin in a cluster, were nobody else there: by its nodes, and by what its queues forbid."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from kailab.cluster.protocol import Object
from kailab.engine.queueing.capacity import refuses
from kailab.engine.working.queues import QueueTree
from kailab.fleet import Fleet
from kailab.model import labels
from kailab.model.quantities import cpu_millis, mem_bytes
from kailab.replay.job import WHOLE, TraceJob
from kailab.replay.manifests import pods_of
from kailab.replay.plan import Plan
from kailab.scheduler.reading.podgroups import Priorities, is_preemptible
from kailab.scheduler.reading.queues import queue_record

MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nodes:
    """Like nodes. ``gpus``: of ``model``, of whichever vendor; an instance of one that is split may count as one. ``shared``: those of which a part can be had."""

    count: int
    cpu_millis: int
    memory: int
    pods: int
    gpus: int
    shared: int
    model: str


class Beginning:
    """Of jobs in the cluster of a plan. ``classes``: the PriorityClasses that are there."""

    def __init__(self, plan: Plan, classes: Iterable[Object]) -> None:
        self._nodes = list(_nodes_of(plan.fleet))
        self._largest = plan.fleet.largest_node
        # Nobody is in them, and nobody comes: they are asked for their bounds alone.
        self._queues = QueueTree(queue_record(one) for one in plan.queues.objects).queues
        self._queue_of = plan.queues.of_team
        self._priorities = Priorities()
        for one in classes:
            self._priorities.set(one)
        self._found: dict[tuple[int | str | tuple[str, ...], ...], bool] = {}

    def possible(self, job: TraceJob) -> bool:
        """Whether there could be room for it."""
        key = (
            job.gpus, job.share, job.pods, job.cpu_millis, job.memory_mib, job.models, self._queue_of[job.team], job.priority
        )  # fmt: skip
        found = self._found.get(key)
        if found is None:
            pods = pods_of(job, self._largest)
            found = self._found[key] = not job.gpus % pods and self._nodes_hold(job, pods) and self._allowed(job, pods)
        return found

    def _nodes_hold(self, job: TraceJob, pods: int) -> bool:
        """Its pods are equal, so it is enough to count how many of them each node could have."""
        open_to_it = (nodes for nodes in self._nodes if not job.models or nodes.model in job.models)
        return sum(nodes.count * _most(nodes, job, pods) for nodes in open_to_it) >= pods

    def _allowed(self, job: TraceJob, pods: int) -> bool:
        queue = self._queues[self._queue_of[job.team]]
        wanted = job.cpu_millis * pods, job.memory_mib * MIB * pods, job.milli
        # Without one its pods have the class that is the default of all, else that of batch Jobs.
        priority = self._priorities.of(job.priority) if job.priority else self._priorities.default()
        return refuses(queue, wanted, is_preemptible({}, priority)) is None


def _nodes_of(fleet: Fleet) -> Iterable[_Nodes]:
    for pool in fleet.pools:
        for node in islice(pool.nodes(), 1):
            taints = node["spec"].get("taints") or ()
            # Jobs of traces tolerate that a node is fake, and nothing else.
            if any(one["key"] != labels.FAKE_NODE_TAINT and one.get("effect") != "PreferNoSchedule" for one in taints):
                continue
            has = node["status"]["allocatable"]
            yield _Nodes(
                count=pool.count,
                cpu_millis=cpu_millis(has["cpu"]),
                memory=mem_bytes(has["memory"]),
                pods=int(has["pods"]),
                gpus=sum(int(has.get(name, 0)) for name in (labels.GPU_RESOURCE, labels.AMD_GPU_RESOURCE)),
                shared=pool.whole_gpus,
                model=node["metadata"]["labels"].get(labels.GPU_PRODUCT, ""),
            )


def _most(nodes: _Nodes, job: TraceJob, pods: int) -> int:
    """How many of the job's pods a node could have."""
    most = [nodes.pods]
    if job.cpu_millis:
        most.append(nodes.cpu_millis // job.cpu_millis)
    if job.memory_mib:
        most.append(nodes.memory // (job.memory_mib * MIB))
    if job.share < WHOLE:
        # So many share a GPU. For the last of them on the node, too, a slot is left for a pod that holds its GPU.
        most += [nodes.shared * (WHOLE // job.share), nodes.pods - 1]
    elif job.gpus:
        most.append(nodes.gpus // (job.gpus // pods))
    return min(most)
