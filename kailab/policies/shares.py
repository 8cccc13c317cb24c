"""How queues share what quotas leave, after published schedulers."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta

from kailab.engine.policies.contract import QueueShares
from kailab.engine.policies.views import JobView, QueueView


class Themis(QueueShares, frozen=True):
    """Finish-time fairness: what quotas leave goes first to the queue that is worst off. How well off one is, is told by its job that is worst off: the time that this takes in
    all, by the time that it would take with an n-th of the cluster to itself, n queues beside each other asking. Queues that are equal to ``step`` share alike.

    Jobs tell how long they run (annotation ``kailab.dev/expected-seconds``); one that does not is left out. Where Themis holds an auction among the worst off and lends GPUs for
    a lease, here the division is made anew in each cycle, and after ``refresh`` where nothing happens, which is its lease; who may be evicted stays KAI's rule.
    Source: Mahajan et al., "Themis: Fair and Efficient GPU Cluster Scheduling", NSDI 2020, sections 3 and 4."""

    refresh: ClassVar[float | None] = 1200.0
    step: Annotated[float, Meta(gt=0)] = 1.0

    def weight(self, queue: QueueView) -> tuple[float, float]:
        worst = max((_unfairness(job, queue) for job in queue.jobs), default=0.0)
        return worst // self.step, 1.0


def _unfairness(job: JobView, queue: QueueView) -> float:
    told = [task.expected_seconds for task in job.tasks if task.expected_seconds is not None]
    alone = max(told, default=0.0)
    if alone <= 0:
        return 0.0
    gpus = job.holds.gpu + (job.wants.gpu if job.minimum == "below" else 0)
    slowed = max(1.0, gpus * queue.beside / max(1, queue.total.gpu))
    start = job.group.last_start
    ran = 0.0 if job.waiting_since is not None or start is None else job.now - start
    return (job.now - job.group.created + max(0.0, alone - ran)) / (alone * slowed)
