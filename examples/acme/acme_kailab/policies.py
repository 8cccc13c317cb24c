"""An order of jobs, a score of nodes and a choice of victims."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from kailab.engine import JobOrder, JobView, NodeScore, NodesView, Task, VictimOrder


class FewestGpusFirst(JobOrder, frozen=True):
    """Jobs that want fewer GPUs come first. A job that has waited for ``patience`` seconds comes before all others."""

    refresh: ClassVar[float | None] = 60.0  # keys depend on time: compute them again every minute
    patience: float = 3600.0

    def key(self, job: JobView) -> tuple[float, float]:
        """Return (0, since) for a job that has waited long enough, else (1, GPUs)."""
        if job.waiting_since is not None and job.now - job.waiting_since >= self.patience:
            return 0.0, job.waiting_since
        return 1.0, job.wants.gpu


class EmptiestNode(NodeScore, frozen=True):
    """The node with the most idle GPUs."""

    def score(self, task: Task, nodes: NodesView) -> np.ndarray:
        """Return each node's idle GPUs as a part of the emptiest node's."""
        return nodes.idle_gpu / max(1, nodes.idle_gpu.max())


class ShortestRun(VictimOrder, frozen=True):
    """Jobs that lose the least work go first: GPU-seconds since their start."""

    def cost(self, job: JobView) -> float:
        """Return the GPU-seconds at stake. A job without a known start has nothing to lose."""
        start = job.now if job.group.last_start is None else job.group.last_start
        return (job.now - start) * job.holds.gpu / 1000
