"""Whether a job could ever begin in a cluster, were nobody else there: by its nodes, and by what its queues forbid."""

from __future__ import annotations

from itertools import islice

from kailab.cluster.protocol import Object
from kailab.engine.placing.fit import static_mask
from kailab.engine.snapshot.records import GPU
from kailab.engine.working.gpus import share_memory
from kailab.engine.working.layout import GPUS, PODS, Layout
from kailab.engine.working.nodes import NodeTable
from kailab.engine.working.state import ShapeInfo
from kailab.replay.clusters.queue_bounds import QueueBounds
from kailab.replay.job import TraceJob
from kailab.replay.manifests import NAMESPACE, job_object, pods_of
from kailab.replay.plan import ReplayPlan
from kailab.scheduler.reading.nodes import node_record
from kailab.scheduler.reading.shapes import ShapeCache


class JobFeasibility:
    """Of jobs in the cluster of a plan. ``bounds``: of its queues."""

    def __init__(self, plan: ReplayPlan, bounds: QueueBounds) -> None:
        pools = [pool for pool in plan.fleet.pools if pool.count]
        # Nodes of one pool are alike, so that one stands for all. A table sorts nodes by name.
        counts = {node["metadata"]["name"]: (pool.count, node) for pool in pools for node in islice(pool.nodes(), 1)}
        self._layout = Layout()
        self._nodes = NodeTable([node_record(node) for _, node in counts.values()], self._layout)
        self._counts = [counts[node.name][0] for node in self._nodes.nodes]
        self._shapes = ShapeCache()
        self._largest = plan.fleet.largest_node
        # Nobody is in them, and nobody comes.
        self._empty = bounds.holding()
        self._queue_of = plan.queues.of_team
        self._found: dict[tuple[int | str | tuple[str, ...], ...], bool] = {}

    def possible(self, job: TraceJob) -> bool:
        """Whether there could be room for it."""
        key = (
            job.gpus, job.share, job.pods, job.cpu_millis, job.memory_mib, job.models, self._queue_of[job.team], job.priority
        )  # fmt: skip
        found = self._found.get(key)
        if found is None:
            pods = pods_of(job, self._largest)
            found = not job.gpus % pods and self._nodes_hold(job, pods) and self._empty.takes(job, pods, pods)
            self._found[key] = found
        return found

    def _nodes_hold(self, job: TraceJob, pods: int) -> bool:
        """Its pods are equal, so it is enough to count how many of them each node could have. What a pod asks for, where it may go and what a share
        takes of a device, the engine says."""
        info = ShapeInfo(self._shapes.of(_pod_of(job, pods)), self._layout)
        self._nodes.grow()
        may = static_mask(self._nodes, info, 0)
        return sum(number * self._most(place, info) for place, number in enumerate(self._counts) if may[place]) >= pods

    def _most(self, place: int, info: ShapeInfo) -> int:
        """How many of the pods a node of the pool at this place could have."""
        has = self._nodes.allocatable
        most = [int(has[row, place]) // amount for row, amount in info.needs]
        gpu = info.shape.gpu
        if gpu.shared:
            device = int(self._nodes.gpu_memory[place])
            part = share_memory(gpu, device)
            # A part that comes to no memory at all shares its device with nobody: such a device counts as free, and is taken whole.
            most.append(int(has[GPUS, place]) // GPU * (device // part if part else 1))
            # For the last of them on the node, too, a slot is left for a pod that holds its GPU.
            most.append(int(has[PODS, place]) - 1)
        return min(most)


def _pod_of(job: TraceJob, pods: int) -> Object:
    """A pod that its Job makes."""
    template = job_object(job.name, job, "", pods, endless=False)["spec"]["template"]
    return {"metadata": {**template["metadata"], "namespace": NAMESPACE}, "spec": template["spec"]}
