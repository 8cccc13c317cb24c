"""What puts those who wait where they are in the serving order, as records: decided by ``order``, told by ``serving``. The places
themselves are ``decisions.Turn``."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from kailab.engine.decisions import Reclaimer
from kailab.engine.working.queues import Amounts, QueueResource, WQueue

if TYPE_CHECKING:
    # Only for types: the state loads numpy, which a command that shows a saved lab does without.
    from kailab.engine.working.state import Job, Member, WPodSet, WTask


class QueueCriterion(StrEnum):
    """What put one queue before another, in the order in which it is asked."""

    FAIR_SHARE = "fair-share"  # the other is above its fair share in every resource
    QUOTA = "quota"  # with its next job it stays within its quota
    PRIORITY = "queue-priority"
    NO_SHARE = "no-share"  # the other would hold something of which it may have nothing
    SHARE_WITH_JOB = "share-with-job"  # it holds the smaller part of its share, its next job counted
    SHARE = "share"  # the same, without the job
    SIZE = "size"  # its share is smaller
    AGE = "queue-age"


class JobCriterion(StrEnum):
    """What put one job before another of its queue."""

    AGED = "aged"  # it has waited for long enough to come before all others
    SCORE = "score"
    POLICY = "policy"  # a policy that another distribution brings
    PRIORITY = "priority"
    MINIMUM = "minimum"  # below its minimum of pods comes before at it, and that before above it
    AGE = "age"
    UID = "uid"


PROMISED = "promised"
"""Room was made, or was to be made, for the one before: it goes first."""


class Earlier(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that is served before another. ``over``: that queue, or the ancestor of it beside which this one stands.
    ``podgroup``: whose turn is next there."""

    queue: str
    over: str
    podgroup: str
    because: str


# What a queue could take back from another and what stops it, as records: reckoned by ``report.returning``.


class Return(msgspec.Struct, frozen=True, kw_only=True):
    """What ``taker.queue`` could take from the work of ``taker.beside`` and of the queues below it. Amounts of ``taker.resource``.

    ``over``: the resource of which ``beside`` holds more than the taker's rule leaves it; ``beyond``: how much that is, and all that it
    holds of ``taker.resource`` where that is another. Of all that it holds, ``firm`` is held by non-preemptible
    work and ``young`` by work within a minimum runtime, which ends between ``young_first`` and ``young_last``; ``open`` is held by work
    that nothing protects. ``waiting``: what the taker asks for and does not hold, ``delayed`` of it by jobs with a preemption delay, the
    first of which ends at ``delayed_until``. ``reclaims``: whether the scheduler reclaims at all. ``unserved``: the PodGroup
    (``namespace/name``) that stands first in the taker's line, where work of it waits and the next cycle takes nothing of this for
    it; empty where that is not so, and where nobody has asked for a cycle.
    """

    taker: Reclaimer
    beyond: int
    over: QueueResource = "GPU"
    firm: int = 0
    young: int = 0
    young_first: float | None = None
    young_last: float | None = None
    open: int = 0
    waiting: int = 0
    delayed: int = 0
    delayed_until: float | None = None
    reclaims: bool = True
    unserved: str = ""

    @property
    def now(self) -> int:
        """Up to how much could be taken at this moment; 0 where something stops all of it. Gangs go as a whole, so it may be less."""
        if not self.reclaims or self.unserved:
            return 0
        return self.allowed

    @property
    def allowed(self) -> int:
        """The same by the rules of queues alone, whatever the work is that asks."""
        if not self.reclaims:
            return 0
        amount = self.beyond if self.taker.amount < 0 else min(self.beyond, self.taker.amount)
        return min(amount, self.open)


# Who comes first: jobs within a queue, queues among their siblings, tasks within a pod set, members of a subgroup.
#
# Source: KAI's proportion queue order, priority, elastic, taskorder and subgrouporder plugins.

NOTHING: Amounts = (0, 0, 0)


KAI_ORDER = (JobCriterion.PRIORITY, JobCriterion.MINIMUM, JobCriterion.AGE, JobCriterion.UID)
"""What the parts of ``Job.order_key`` are, where no other order is configured."""


def order_criterion(before: Job, after: Job) -> JobCriterion:
    """What put the one before the other, both of one queue."""
    criteria = KAI_ORDER if before.ranking is None else before.ranking.criteria
    parts = zip(criteria, before.order_key(), after.order_key(), strict=True)
    return next((criterion for criterion, one, other in parts if one != other), JobCriterion.UID)


def queue_before(
    left: WQueue, right: WQueue, left_job: Amounts, right_job: Amounts, left_lost: Amounts, right_lost: Amounts,
    totals: list[float],
) -> tuple[bool, QueueCriterion]:  # fmt: skip
    """Whether ``left`` is served before ``right``, each with the amounts its next job wants (``*_job``) and the amounts its
    chosen victims give back (``*_lost``); and what decides it."""
    # KAI's GetQueueOrderResult: each question is asked only where the ones before it have the same answer for both.
    mine, theirs = measure(left, left_job, left_lost, totals), measure(right, right_job, right_lost, totals)
    for criterion, one, other in zip(_MEASURED, mine, theirs, strict=True):
        if one != other:
            return one < other, criterion
    return smaller(left, right)


Measure = tuple[bool, bool, int, bool, float, float]
"""By what queues are compared first, in this order, the smaller first."""

_MEASURED = (
    QueueCriterion.FAIR_SHARE, QueueCriterion.QUOTA, QueueCriterion.PRIORITY, QueueCriterion.NO_SHARE,
    QueueCriterion.SHARE_WITH_JOB, QueueCriterion.SHARE,
)  # fmt: skip


def measure(queue: WQueue, job: Amounts, lost: Amounts, totals: list[float]) -> Measure:
    """Of a queue with the amounts its next job wants, or the amounts its chosen victims give back."""
    return (
        queue.over_fair_share(),
        not queue.within_quota_with(job),
        -queue.record.priority,
        _uses_without_share(queue, job),
        # Of the two amounts one is always nothing: the order is either of jobs that wait or of victims.
        queue.dominant_share(totals, _minus(job, lost)),
        queue.dominant_share(totals),
    )


def smaller(left: WQueue, right: WQueue) -> tuple[bool, QueueCriterion]:
    """Whether ``left`` is served before ``right``, where their measures are equal; and what decides it."""
    # Smaller in some resource and larger in none; else neither queue is the weaker one.
    less = greater = False
    for mine, theirs in zip(left.allocatable, right.allocatable, strict=True):
        if mine < theirs:
            less = True
        elif mine > theirs:
            greater = True
    if less != greater:
        return less, QueueCriterion.SIZE
    # KAI ends with the time of creation, and has no order between queues of one second.
    older = (left.record.created, left.record.uid, left.name) < (right.record.created, right.record.uid, right.name)
    return older, QueueCriterion.AGE


def _minus(one: Amounts, other: Amounts) -> Amounts:
    return (one[0] - other[0], one[1] - other[1], one[2] - other[2])


def _uses_without_share(queue: WQueue, job: Amounts) -> bool:
    share, held = queue.allocatable, queue.allocated
    return (
        (share[0] == 0 and held[0] + job[0] > 0)
        or (share[1] == 0 and held[1] + job[1] > 0)
        or (share[2] == 0 and held[2] + job[2] > 0)
    )


def member_key(
    member: Member, counts: tuple[int, int] | None = None, by_name: bool = False
) -> tuple[int, int, float, str]:
    """Unsatisfied first; then required before optional, lower ratio of placed to needed first; name. ``counts`` overrides
    (placed, needed). ``by_name``: the name alone."""
    if by_name:
        return (0, 0, 0.0, member.name)
    placed, needed = counts or member.counts
    # Below its minimum all members are alike, however much they lack, as in KAI (orderByAllocationRatio).
    if placed < needed:
        return (0, 0, 0.0, member.name)
    if needed > 0:
        return (1, 0, placed / needed, member.name)
    # Nothing needed, so there is no ratio: by the number placed.
    return (1, 1, placed, member.name)


def tasks_to_allocate(job: Job) -> list[WTask]:
    """The tasks a job is tried with next: those missing to its minimum; above it, one at a time.

    Tasks evicted only in this cycle's thoughts may be placed again and count as waiting.
    """
    # KAI keeps the list until a task of the job changes its status (tasksToAllocate), and some decisions rest on that.
    if job.todo_version != job.version:
        job.todo = (True, tasks_anew(job))
        job.todo_version = job.version
    assert job.todo is not None
    return job.todo[1]


def tasks_anew(job: Job) -> list[WTask]:
    """The same, whatever was looked up before."""
    return _from_group(job.root, job.by_name)


def _from_group(group: Member, by_name: bool) -> list[WTask]:
    if isinstance(group, WPodSet):
        return _from_podset(group)
    if len(group.members) == 1:  # the plain case
        only = group.members[0]
        # One pod set below the root: by far the most frequent, and nothing to sort.
        if group.needed == 1 or group.satisfied:
            return _from_group(only, by_name)
    children = sorted(group.members, key=lambda member: member_key(member, None, by_name))
    if not group.satisfied:
        tasks: list[WTask] = []
        # As many as the minimum asks for, those below theirs first: members that are satisfied already don't lower the
        # number, as in KAI (collectTasksFromSubGroupSet).
        for child in children[: group.needed]:
            if not child.satisfied:
                tasks += _from_group(child, by_name)
        return tasks
    for child in children:
        found = _from_group(child, by_name)
        if found:
            return found
    return []


def _from_podset(podset: WPodSet) -> list[WTask]:
    # 0: PENDING, 7: RELEASING. Plain numbers, as this runs for all tasks of a job whenever one of them changes.
    waiting = [task for task in podset.tasks.values() if task.status == 0 or (task.virtual and task.status == 7)]
    if not waiting:
        return []
    missing = podset.minimum - podset.active
    count = missing if missing > 0 else 1
    if count == 1 and len(waiting) > 1:
        # One task is wanted of perhaps thousands: no need to sort them.
        return [min(waiting, key=_task_key)]
    if len(waiting) > 1:
        waiting.sort(key=_task_key)
    return waiting[:count]


def _task_key(task: WTask) -> tuple[int | float | str, ...]:
    return task.key
