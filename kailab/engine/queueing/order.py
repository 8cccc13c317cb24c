"""The serving order of queues, jobs, tasks and subgroup members.

Source: KAI's proportion queue order, priority, elastic, taskorder and subgrouporder plugins.
"""

from __future__ import annotations

from kailab.engine.working.order_criteria import JobCriterion, QueueCriterion
from kailab.engine.working.queues import Amounts, WQueue
from kailab.engine.working.state import Job, Member, WPodSet, WTask

NOTHING: Amounts = (0, 0, 0)


KAI_ORDER = (JobCriterion.PRIORITY, JobCriterion.MINIMUM, JobCriterion.AGE, JobCriterion.UID)
"""The criteria behind the parts of ``Job.order_key`` in KAI's order."""


def order_criterion(before: Job, after: Job) -> JobCriterion:
    """The criterion that puts job ``before`` ahead of job ``after`` of the same queue."""
    criteria = KAI_ORDER if before.ranking is None else before.ranking.criteria
    parts = zip(criteria, before.order_key(), after.order_key(), strict=True)
    return next((criterion for criterion, mine, theirs in parts if mine != theirs), JobCriterion.UID)


def queue_before(
    left: WQueue, right: WQueue, left_job: Amounts, right_job: Amounts, left_lost: Amounts, right_lost: Amounts,
    totals: list[float],
) -> tuple[bool, QueueCriterion]:  # fmt: skip
    """True if ``left`` is served before ``right``, and the criterion that decides. ``*_job``: the amounts that the
    queue's next job wants; ``*_lost``: the amounts that its chosen victims give back.
    """
    # KAI's GetQueueOrderResult: a criterion decides only if all criteria before it are equal for both.
    lefts, rights = measure(left, left_job, left_lost, totals), measure(right, right_job, right_lost, totals)
    for criterion, mine, theirs in zip(_MEASURED, lefts, rights, strict=True):
        if mine != theirs:
            return mine < theirs, criterion
    return smaller(left, right)


Measure = tuple[bool, bool, int, bool, float, float]
"""The values by which queues are compared first, in this order; smaller comes first."""

_MEASURED = (
    QueueCriterion.FAIR_SHARE, QueueCriterion.QUOTA, QueueCriterion.PRIORITY, QueueCriterion.NO_SHARE,
    QueueCriterion.SHARE_WITH_JOB, QueueCriterion.SHARE,
)  # fmt: skip


def measure(queue: WQueue, job: Amounts, lost: Amounts, totals: list[float]) -> Measure:
    """The measure of a queue with the amounts that its next job wants, or that its chosen victims give back."""
    return (
        queue.over_fair_share(),
        not queue.within_quota_with(job),
        -queue.record.priority,
        _uses_without_share(queue, job),
        # One of the two amounts is always zero: the order is either of waiting jobs or of victims.
        queue.dominant_share(totals, _minus(job, lost)),
        queue.dominant_share(totals),
    )


def smaller(left: WQueue, right: WQueue) -> tuple[bool, QueueCriterion]:
    """True if ``left`` is served before ``right`` although their measures are equal, and the criterion that decides."""
    # Smaller in some resource and larger in none; otherwise neither queue is smaller.
    less = greater = False
    for mine, theirs in zip(left.allocatable, right.allocatable, strict=True):
        if mine < theirs:
            less = True
        elif mine > theirs:
            greater = True
    if less != greater:
        return less, QueueCriterion.SIZE
    # KAI ends with the creation time and has no order between queues of the same second.
    older = (left.record.created, left.record.uid, left.name) < (right.record.created, right.record.uid, right.name)
    return older, QueueCriterion.AGE


def _minus(left: Amounts, right: Amounts) -> Amounts:
    return (left[0] - right[0], left[1] - right[1], left[2] - right[2])


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
    """Sort key of subgroup members: unsatisfied first, then required before optional, then the lower ratio of placed to
    needed, then the name. ``counts`` overrides (placed, needed). ``by_name``: by name alone.
    """
    if by_name:
        return (0, 0, 0.0, member.name)
    placed, needed = counts or member.counts
    # As in KAI (orderByAllocationRatio), all members below their minimum are equal, however much they lack.
    if placed < needed:
        return (0, 0, 0.0, member.name)
    if needed > 0:
        return (1, 0, placed / needed, member.name)
    # Nothing is needed, so there is no ratio; the number placed decides.
    return (1, 1, placed, member.name)


def tasks_to_allocate(job: Job) -> list[WTask]:
    """The tasks that a job is tried with next: those missing to its minimum, or one task at a time above it.

    Tasks evicted provisionally in this cycle may be placed again and count as waiting.
    """
    # KAI caches the list until a task of the job changes its status (tasksToAllocate), and some decisions depend on
    # that.
    if job.next_tasks_version != job.version:
        job.next_tasks = tasks_anew(job)
        job.next_tasks_version = job.version
    return job.next_tasks


def tasks_anew(job: Job) -> list[WTask]:
    """The tasks to allocate without the cache."""
    return _from_group(job.root, job.by_name)


def _from_group(group: Member, by_name: bool) -> list[WTask]:
    if isinstance(group, WPodSet):
        return _from_podset(group)
    if len(group.members) == 1:
        only = group.members[0]
        # The most frequent case, a single pod set, needs no sorting.
        if group.needed == 1 or group.satisfied:
            return _from_group(only, by_name)
    children = sorted(group.members, key=lambda member: member_key(member, None, by_name))
    if not group.satisfied:
        tasks: list[WTask] = []
        # As many members as the minimum needs, unsatisfied ones first. As in KAI (collectTasksFromSubGroupSet),
        # satisfied members do not lower the number.
        for child in children[: group.needed]:
            if not child.satisfied:
                tasks += _from_group(child, by_name)
        return tasks
    for child in children:
        next_tasks = _from_group(child, by_name)
        if next_tasks:
            return next_tasks
    return []


def _from_podset(podset: WPodSet) -> list[WTask]:
    # 0: PENDING, 7: RELEASING. Plain numbers, because this runs for all tasks of a job after each change of one.
    waiting = [task for task in podset.tasks.values() if task.status == 0 or (task.virtual and task.status == 7)]
    if not waiting:
        return []
    missing = podset.minimum - podset.active
    count = missing if missing > 0 else 1
    if count == 1 and len(waiting) > 1:
        # One of perhaps thousands of tasks is wanted, so sorting is not needed.
        return [min(waiting, key=_task_key)]
    if len(waiting) > 1:
        waiting.sort(key=_task_key)
    return waiting[:count]


def _task_key(task: WTask) -> tuple[int | float | str, ...]:
    return task.key
