"""Decide if a job could ever begin in an otherwise empty cluster, by its nodes and its queues."""

from __future__ import annotations

from itertools import islice

from kailab.cluster.protocol import Object
from kailab.engine.placing.fit import static_mask
from kailab.engine.snapshot.records import GPU
from kailab.engine.working.layout import GPUS, PODS, Layout
from kailab.engine.working.nodes import NodeTable
from kailab.engine.working.state import ShapeInfo
from kailab.model.objects import name_of
from kailab.replay.clusters.queue_bounds import QueueBounds
from kailab.replay.job import TraceJob
from kailab.replay.manifests import NAMESPACE, job_object, pods_of
from kailab.replay.plan import ReplayPlan
from kailab.scheduler.reading.nodes import node_record
from kailab.scheduler.reading.shapes import ShapeCache


class JobFeasibility:
    """Answers for one plan's cluster. ``bounds``: of its queues."""

    def __init__(self, plan: ReplayPlan, bounds: QueueBounds) -> None:
        pools = [pool for pool in plan.fleet.pools if pool.count]
        # Nodes of a pool are alike, so one represents all. The table sorts nodes by name.
        counts = {name_of(node): (pool.count, node) for pool in pools for node in islice(pool.nodes(), 1)}
        self._layout = Layout()
        self._nodes = NodeTable([node_record(node) for _, node in counts.values()], self._layout)
        self._counts = [counts[node.name][0] for node in self._nodes.nodes]
        self._shapes = ShapeCache()
        self._largest = plan.fleet.largest_node
        # These queues stay empty.
        self._empty = bounds.holding()
        self._queue_of = plan.queues.of_team
        self._answers: dict[tuple[int | str | tuple[str, ...], ...], bool] = {}

    def possible(self, job: TraceJob) -> bool:
        """True if the empty cluster has room for the job."""
        key = (
            job.gpus, job.share, job.pods, job.cpu_millis, job.memory_mib, job.models, self._queue_of[job.team], job.priority
        )  # fmt: skip
        answer = self._answers.get(key)
        if answer is None:
            pods = pods_of(job, self._largest)
            answer = not job.gpus % pods and self._nodes_hold(job, pods) and self._empty.takes(job, pods, pods)
            self._answers[key] = answer
        return answer

    def _nodes_hold(self, job: TraceJob, pods: int) -> bool:
        """True if the nodes have room for all pods.

        Pods of a job are equal, so counting the pods that fit on each node is enough. The engine's own rules give the
        requests, the allowed nodes and the part of a device that a share takes.
        """
        info = ShapeInfo(self._shapes.of(_pod_of(job, pods)), self._layout)
        self._nodes.grow()
        allowed = static_mask(self._nodes, info, 0)
        return (
            sum(count * self._most(index, info) for index, count in enumerate(self._counts) if allowed[index]) >= pods
        )

    def _most(self, index: int, info: ShapeInfo) -> int:
        """How many of the pods fit on the node at this index."""
        allocatable = self._nodes.allocatable
        bounds = [int(allocatable[row, index]) // amount for row, amount in info.needs]
        gpu = info.shape.gpu
        if gpu.shared:
            device = int(self._nodes.gpu_memory[index])
            part = gpu.share_memory(device)
            # A share that rounds to no memory takes the whole device, because a device without used memory counts as free.
            bounds.append(int(allocatable[GPUS, index]) // GPU * (device // part if part else 1))
            # One pod slot must remain for the reservation pod that holds the shared GPU.
            bounds.append(int(allocatable[PODS, index]) - 1)
        return min(bounds)


def _pod_of(job: TraceJob, pods: int) -> Object:
    """The pod that the job's Job object creates."""
    template = job_object(job.name, job, "", pods, endless=False)["spec"]["template"]
    return {"metadata": {**template["metadata"], "namespace": NAMESPACE}, "spec": template["spec"]}
