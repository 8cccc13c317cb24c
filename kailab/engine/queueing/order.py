"""The serving order: which job of a queue, which queue among its siblings, which task and which member of a subgroup comes first.

Source: KAI's proportion queue order, priority, elastic, taskorder and subgrouporder plugins.
"""

from __future__ import annotations

from kailab.engine.queueing.order_records import JobCriterion, QueueCriterion
from kailab.engine.working.queues import Amounts, WQueue
from kailab.engine.working.state import Job, Member, WPodSet, WTask

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
