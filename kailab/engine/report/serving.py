"""The order in which allocate tries the waiting jobs, as things stand, and the criteria behind it.

A job that is tried and fits changes what its queue holds, and so the order of the jobs after it. So the first position
that the queue rules allow and that finds room is served next; all positions behind it are as they stand before that.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Container, Iterable, Sequence

from kailab.engine.actions.allocate import promised_jobs
from kailab.engine.actions.waiting import waiting_jobs
from kailab.engine.decisions import ServingPosition
from kailab.engine.queueing.capacity import refuses
from kailab.engine.queueing.order import NOTHING, order_criterion, queue_before
from kailab.engine.queueing.order import tasks_to_allocate as next_tasks
from kailab.engine.queueing.order_records import PROMISED, EarlierQueue
from kailab.engine.session import Session
from kailab.engine.working.queues import WQueue
from kailab.engine.working.state import Job


def serving_positions(session: Session, promised: Iterable[str] | None = None) -> tuple[ServingPosition, ...]:
    """All waiting jobs that could run in their queue, in the order of allocate. ``promised``: PodGroup uids that go
    first, instead of the configuration's.
    """
    positions: list[ServingPosition] = []
    before: Job | None = None
    heirs = dict.fromkeys(job.uid for job in promised_jobs(session, promised))
    for job in (*(session.jobs[uid] for uid in heirs), *_in_order(session, heirs)):
        queue = session.queue_of(job)
        assert queue is not None
        # As in Allocator.place, so that the report agrees with allocate.
        wanted = session.wants(next_tasks(job), session.table.max_gpu_memory)
        refusal = refuses(queue, wanted, job.record.preemptible)
        positions.append(
            ServingPosition(
                place=len(positions) + 1,
                podgroup=job.uid,
                queue=queue.name,
                because=_why_after(session, before, job, heirs),
                refused=refusal.code if refusal is not None else None,
                queue_context=refusal.queue if refusal is not None else "",
                numbers=refusal.numbers if refusal is not None else {},
            )
        )
        before = job
    return tuple(positions)


def queues_before(session: Session, order: Sequence[ServingPosition], name: str) -> tuple[EarlierQueue, ...]:
    """Queues that are served before queue ``name`` or an ancestor of it, in the order of their next jobs. ``order``:
    all positions. Positions that queue rules refuse count only if queue ``name`` has no others.
    """
    queue = session.tree.queues.get(name)
    if queue is None:
        return ()
    next_position: dict[str, ServingPosition] = {}
    below: dict[str, list[ServingPosition]] = {level.name: [] for level in queue.path}
    only_refused = all(turn.refused is not None for turn in order if turn.queue == name)
    for turn in order:
        for level in session.tree.queues[turn.queue].path:
            if level.name in below:
                below[level.name].append(turn)
            # A refused job is skipped, so it keeps no other job waiting.
            if turn.refused is None or (only_refused and turn.queue == name):
                next_position.setdefault(level.name, turn)
    earlier_queues: list[EarlierQueue] = []
    for level in queue.path:
        own = next_position.get(level.name)
        if own is None:
            continue
        for sibling in _siblings(session, level):
            other = next_position.get(sibling.name)
            if sibling is level or other is None or other.place > own.place:
                continue
            # The other job was compared with the head of this queue at that time, whether queue rules refuse the head
            # or not.
            turns_below = below[level.name]
            head = turns_below[bisect(turns_below, other.place, key=lambda turn: turn.place)]
            why = _why_before(session, sibling, level, other, head)
            earlier_queues.append(
                EarlierQueue(queue=sibling.name, over=level.name, podgroup=other.podgroup, because=why)
            )
    return tuple(sorted(earlier_queues, key=lambda earlier: next_position[earlier.queue].place))


def _why_before(session: Session, left: WQueue, right: WQueue, before: ServingPosition, after: ServingPosition) -> str:
    if before.podgroup in session.config.promised:
        return PROMISED
    return _between(session, left, right, session.jobs[before.podgroup], session.jobs[after.podgroup])


def _in_order(session: Session, leave_out: Container[str]) -> Iterable[Job]:
    order = waiting_jobs(session, "allocate", lambda job: job.uid not in leave_out)
    while not order.empty:
        yield order.pop()


def _why_after(session: Session, before: Job | None, job: Job, heirs: Container[str]) -> str:
    if before is None:
        return ""
    return PROMISED if before.uid in heirs else _criterion(session, before, job)


def _siblings(session: Session, queue: WQueue) -> Sequence[WQueue]:
    return session.tree.roots if queue.parent is None else queue.parent.children


def _criterion(session: Session, before: Job, after: Job) -> str:
    left, right = session.queue_of(before), session.queue_of(after)
    assert left is not None
    assert right is not None
    if left is right:
        return order_criterion(before, after)
    mine, theirs = session.tree.diverging_ancestors(left, right)
    return _between(session, mine, theirs, before, after)


def _between(session: Session, left: WQueue, right: WQueue, left_job: Job, right_job: Job) -> str:
    """The criterion that decides between two siblings, each with its best job."""
    ranking = session.ranking
    if ranking is not None and ranking.between_queues and ranking.first(left, right, left_job, right_job):
        return ranking.criterion(left_job, right_job)
    mine, theirs = session.wanted(left_job), session.wanted(right_job)
    return queue_before(left, right, mine, theirs, NOTHING, NOTHING, session.tree.totals)[1]
