"""An order of jobs, a score of nodes and a choice of victims."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from kailab.engine import JobOrder, JobView, NodeScore, NodesView, Task, VictimOrder


class FewestGpusFirst(JobOrder, frozen=True):
    """Jobs that want fewer GPUs come first, but nobody waits for ever: after ``patience`` seconds a job comes before all."""

    refresh: ClassVar[float | None] = 60.0  # keys depend on time: ask for them anew every minute
    patience: float = 3600.0

    def key(self, job: JobView) -> tuple[float, float]:
        """(0, since) for those who have waited for long enough, (1, GPUs) for all others."""
        if job.waiting_since is not None and job.now - job.waiting_since >= self.patience:
            return 0.0, job.waiting_since
        return 1.0, job.wants.gpu


class EmptiestNode(NodeScore, frozen=True):
    """The node with the most idle GPUs."""

    def score(self, task: Task, nodes: NodesView) -> np.ndarray:
        """The part of the emptiest node's idle GPUs that each node has."""
        return nodes.idle_gpu / max(1, nodes.idle_gpu.max())


class ShortestRun(VictimOrder, frozen=True):
    """Those that lose the least work: GPU-seconds since their start."""

    def cost(self, job: JobView) -> float:
        """What runs without a known start has nothing to lose."""
        start = job.now if job.group.last_start is None else job.group.last_start
        return (job.now - start) * job.holds.gpu / 1000
