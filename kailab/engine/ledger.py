"""The decisions of a cycle so far, and why other jobs got no place.

A later action may take back what an earlier action of the same cycle promised; the ledger then drops it.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from msgspec import structs

from kailab.engine.decisions import (
    Action,
    Bind,
    Decisions,
    Evict,
    EvictionGround,
    Numbers,
    Pending,
    PendingCode,
    Pipeline,
    QueueShare,
    QueueState,
    ReservedPlace,
    TaskAmounts,
)
from kailab.engine.snapshot.records import ON_NODE
from kailab.engine.working.queues import WQueue
from kailab.engine.working.state import Job, WTask


class FailedAttempt(NamedTuple):
    """Why an attempt to place a job failed."""

    code: PendingCode
    message: str
    queue: str = ""
    numbers: Numbers | None = None
    task: str = ""


class Ledger:
    """Collects the decisions of one cycle.

    By PodGroup uid: ``failures`` the first reason why the job got no place; ``tried`` the outcomes of evicting actions;
    ``delayed`` the end of its preemption delay; ``robbed`` the job that took its tasks or promises.
    """

    def __init__(self, jobs: dict[str, Job], now: float) -> None:
        self._jobs = jobs
        self._now = now
        self.binds: dict[str, Bind] = {}  # by task
        self.pipelines: dict[str, Pipeline] = {}
        self.evictions: dict[str, Evict] = {}
        self.robbed: dict[str, str] = {}
        self.heirs: tuple[str, ...] = ()
        self.again = False
        self.kept: tuple[ReservedPlace, ...] = ()
        self.started: list[str] = []
        self.failures: dict[str, FailedAttempt] = {}
        self.tried: dict[str, list[tuple[Action, str]]] = {}
        self.delayed: dict[str, float] = {}
        self.wake_at: float | None = None

    def bind(self, task: WTask, job: Job, action: Action, amounts: TaskAmounts) -> None:
        self.binds[task.uid] = Bind(
            task=task.uid,
            podgroup=job.uid,
            queue=job.record.queue,
            node=task.node,
            gpu_groups=task.groups,
            action=action,
            numa_zones=task.zones,
            amounts=amounts,
        )

    def promise(self, task: WTask, job: Job, action: Action, amounts: TaskAmounts) -> None:
        """Promise a place for later. A victim that gets another place is reported as moved, by the action that evicted
        it.
        """
        eviction = self.evictions.get(task.uid)
        self.pipelines[task.uid] = Pipeline(
            task=task.uid,
            podgroup=job.uid,
            queue=job.record.queue,
            node=task.node,
            gpu_groups=task.groups,
            action=eviction.action if eviction else action,
            moved=eviction is not None,
            numa_zones=task.zones,
            amounts=amounts,
        )

    def evict(
        self, task: WTask, job: Job, node: str, action: Action, beneficiary: Job | None,
        shares: dict[str, tuple[QueueShare, QueueShare]], amounts: TaskAmounts, ground: EvictionGround,
    ) -> None:  # fmt: skip
        """Record an eviction. A task that holds nothing in the cluster yet only loses what this cycle promised or gave
        it.
        """
        self.robbed[job.uid] = beneficiary.uid if beneficiary else ""
        # A bind or promise of this cycle is unknown to the cluster, so dropping it is enough. A victim that loses its
        # new place stays evicted and is recorded once.
        self.pipelines.pop(task.uid, None)
        if self.binds.pop(task.uid, None) is not None or not ON_NODE[task.record.status] or task.uid in self.evictions:
            return
        queue = job.record.queue
        # Only the two queues of the decision; the statement may have touched more.
        involved = {queue}
        if beneficiary is not None:
            involved.add(beneficiary.record.queue)
        self.evictions[task.uid] = Evict(
            task=task.uid,
            podgroup=job.uid,
            queue=queue,
            node=node,
            action=action,
            beneficiary=beneficiary.uid if beneficiary else "",
            beneficiary_queue=beneficiary.record.queue if beneficiary else "",
            message=_eviction_message(task, job, action, beneficiary),
            shares={name: shares[name] for name in sorted(involved) if name in shares},
            amounts=amounts,
            ground=ground,
        )
        # The preemption delay starts again at once, so that later actions of this cycle respect it.
        job.last_evicted = self._now

    def fail(self, job: Job, failure: FailedAttempt) -> None:
        """Record why a job was not placed. The first reason is kept."""
        self.failures.setdefault(job.uid, failure)

    def note(self, job: Job, action: Action, outcome: str) -> None:
        self.tried.setdefault(job.uid, []).append((action, outcome))

    def wake(self, when: float) -> None:
        if when > self._now and (self.wake_at is None or when < self.wake_at):
            self.wake_at = when

    @property
    def changes(self) -> bool:
        return bool(self.binds or self.evictions)

    def made_room_for(self) -> tuple[str, ...]:
        """Jobs that an evicting action promised a place, in the order decided; then the jobs that consolidation moved.

        A job that lost tasks to others counts only if consolidation found it a place again. A moved job goes first as
        well, because others must not get the place for which its tasks were evicted.
        """
        made = dict.fromkeys(
            promise.podgroup
            for promise in self.pipelines.values()
            if not promise.moved
            and (
                promise.action == "consolidation"
                or (promise.action != "allocate" and promise.podgroup not in self.robbed)
            )
        )
        moved = dict.fromkeys(
            promise.podgroup
            for promise in self.pipelines.values()
            if promise.moved and promise.action == "consolidation"
        )
        return tuple({**made, **moved})

    def decisions(self, pending: list[Pending], stale: list[str], queues: tuple[QueueState, ...]) -> Decisions:
        """The decisions of the cycle. Promises to a gang that lost its minimum are dropped."""
        for uid in self.robbed:
            if any(podset.active < podset.minimum for podset in self._jobs[uid].podsets):
                for task in self._jobs[uid]:
                    # A victim keeps its new place, because its eviction was decided as a move.
                    if task.uid in self.pipelines and not self.pipelines[task.uid].moved:
                        del self.pipelines[task.uid]
        served = {pipeline.podgroup for pipeline in self.pipelines.values()}
        served |= {bind.podgroup for bind in self.binds.values()}
        evictions = tuple(self._heir(eviction, served) for eviction in self.evictions.values())
        return Decisions(
            now=self._now,
            binds=tuple(self.binds.values()),
            pipelines=tuple(self.pipelines.values()),
            evictions=evictions,
            pending=tuple(pending),
            stale=tuple(stale),
            queues=queues,
            robbed=tuple(sorted(self.robbed.items())),
            heirs=self.heirs,
            again=self.again,
            kept=self.kept,
            started=tuple(self.started),
            wake_at=self.wake_at,
        )

    def _heir(self, eviction: Evict, served: set[str]) -> Evict:
        """If another job took over the promise of an eviction's beneficiary, make that job the beneficiary (for actions that allow it)."""
        # A job that took a promise may lose it in turn, also in a circle. "" stands for a stale gang: no job gets its
        # place.
        uid, seen = eviction.beneficiary, {""}
        while uid not in served and uid not in seen and uid in self.robbed:
            seen.add(uid)
            uid = self.robbed[uid]
        if uid == eviction.beneficiary or uid not in served or eviction.action == "consolidation":
            return eviction
        queue = self._jobs[uid].record.queue
        # Reclaim takes from other queues only, and preempt within one queue, so the beneficiary must match the action.
        if (eviction.action == "reclaim") == (queue == eviction.queue):
            return eviction
        return structs.replace(eviction, beneficiary=uid, beneficiary_queue=queue)


def queue_share(queue: WQueue, r: int) -> QueueShare:
    # Runs for each queue in each cycle, so it calls no helper functions.
    quota, limit = queue.quota[r], queue.limit[r]
    return QueueShare(
        quota=-1 if quota == inf else int(quota),
        limit=-1 if limit == inf else int(limit),
        fair_share=queue.fair[r],
        allocated=queue.allocated[r],
        requested=queue.request[r],
        non_preemptible=queue.non_preemptible[r],
    )


def queue_state(queue: WQueue) -> QueueState:
    """A queue's balance now."""
    return QueueState(
        name=queue.name,
        parent=queue.record.parent,
        priority=queue.record.priority,
        cpu=queue_share(queue, 0),
        memory=queue_share(queue, 1),
        gpu=queue_share(queue, 2),
    )


def _eviction_message(task: WTask, job: Job, action: Action, beneficiary: Job | None) -> str:
    pod = f"pod {task.record.namespace}/{task.record.name}"
    if beneficiary is None:
        podset = task.podset
        minimum = podset.minimum if podset is not None else 0
        return f"{pod} goes because its gang {job.record.name} runs with fewer than its minimum of {minimum} pods"
    other = f"{beneficiary.record.namespace}/{beneficiary.record.name}"
    if action == "reclaim":
        return (
            f"{pod} of queue {job.record.queue} was reclaimed for {other} of queue {beneficiary.record.queue}, which is "
            "below its share"
        )
    if action == "preempt":
        return (
            f"{pod} (priority {job.record.priority}) was preempted for {other} (priority {beneficiary.record.priority}) "
            f"of the same queue {job.record.queue}"
        )
    return f"{pod} is moved to make room for {other}"
