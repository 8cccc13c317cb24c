"""Queue shares from published schedulers."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from kailab.engine.policies.contract import QueueShares
from kailab.engine.policies.views import JobView, QueueView


class Themis(QueueShares, frozen=True):
    """Finish-time fairness: what quotas leave goes first to the queue that is worst off, which is judged by its
    worst-off job: the job's total time divided by the time that it would take with an n-th of the cluster, where n
    sibling queues ask for something. Queues that are equal to within ``step`` share equally.

    Jobs declare their run time (annotation ``kailab.dev/expected-seconds``); others are left out. Themis holds an
    auction among the worst off and leases GPUs. Here the division is repeated in each cycle, and after ``refresh``
    seconds without events, which corresponds to the lease. KAI's rules still decide which jobs may be evicted.
    Source: Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020, sections 3 and 4.
    """

    refresh: ClassVar[float | None] = 1200.0
    step: Annotated[float, Meta(gt=0)] = 1.0

    def weight(self, queue: QueueView) -> tuple[float, float]:
        worst = max((_unfairness(job, queue) for job in queue.jobs), default=0.0)
        return worst // self.step, 1.0


def _unfairness(job: JobView, queue: QueueView) -> float:
    seconds = [task.expected_seconds for task in job.tasks if task.expected_seconds is not None]
    alone = max(seconds, default=0.0)
    if alone <= 0:
        return 0.0
    gpus = job.holds.gpu + (job.wants.gpu if job.minimum == "below" else 0)
    slowed = max(1.0, gpus * queue.beside / max(1, queue.total.gpu))
    start = job.group.last_start
    ran = 0.0 if job.waiting_since is not None or start is None else job.now - start
    return (job.now - job.group.created + max(0.0, alone - ran)) / (alone * slowed)
