"""The limits that a cluster's queues set: their limit for any job, their quota for non-preemptible jobs."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from kailab.cluster.protocol import Object
from kailab.engine.queueing.capacity import refuses
from kailab.engine.working.queues import GPU, RESOURCES, Amounts, QueueTree
from kailab.replay.job import TraceJob
from kailab.replay.plan import ReplayPlan
from kailab.scheduler.reading.podgroups import PriorityClasses, is_preemptible
from kailab.scheduler.reading.queues import queue_record

MIB = 2**20


class QueueBounds:
    """The queues of a plan's cluster. ``classes``: its PriorityClass objects."""

    def __init__(self, plan: ReplayPlan, classes: Iterable[Object]) -> None:
        self._records = [queue_record(obj) for obj in plan.queues.objects]
        self._queue_of = plan.queues.of_team
        self._priorities = PriorityClasses()
        for obj in classes:
            self._priorities.set(obj)

    def holding(self) -> QueueHoldings:
        """The queues, holding nothing."""
        return QueueHoldings(QueueTree(self._records), self)

    def queue_of(self, job: TraceJob) -> str:
        return self._queue_of[job.team]

    def preemptible(self, job: TraceJob) -> bool:
        # Pods without a priority get the default PriorityClass, or else that of batch Jobs.
        priority = self._priorities.of(job.priority) if job.priority else self._priorities.default()
        return is_preemptible({}, priority)


class QueueHoldings:
    """Amounts that jobs hold in queues, and whether one more job is allowed. ``some`` of a job's ``pods`` can be
    counted."""

    def __init__(self, tree: QueueTree, bounds: QueueBounds) -> None:
        self._queues = tree.queues
        self._bounds = bounds

    def takes(self, job: TraceJob, some: int, pods: int) -> bool:
        queue = self._queues[self._bounds.queue_of(job)]
        return refuses(queue, _amounts(job, some, pods), self._bounds.preemptible(job)) is None

    def hold(self, job: TraceJob, some: int, pods: int) -> None:
        non_preemptible = not self._bounds.preemptible(job)
        amounts = _amounts(job, some, pods)
        for level in self._queues[self._bounds.queue_of(job)].path:
            for r in RESOURCES:
                level.allocated[r] += amounts[r]
                level.non_preemptible[r] += amounts[r] if non_preemptible else 0

    def limits(self, job: TraceJob) -> list[tuple[int, set[str]]]:
        """Each GPU limit that applies to the job: milli-GPU, and the queues that share it."""
        levels = self._queues[self._bounds.queue_of(job)].path
        return [
            (int(level.limit[GPU]), {name for name, queue in self._queues.items() if level in queue.path})
            for level in levels
            if level.limit[GPU] < inf
        ]


def _amounts(job: TraceJob, some: int, pods: int) -> Amounts:
    return job.cpu_millis * some, job.memory_mib * MIB * some, job.milli // pods * some
