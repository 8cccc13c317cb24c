"""preempt: within one queue, a job of higher priority evicts preemptible pods of lower priority.

Source: KAI's preempt action.
"""

from __future__ import annotations

from bisect import bisect_left

from kailab.engine.actions.evicting import SearchSkip, candidates, impossible, search
from kailab.engine.decisions import EvictionGround
from kailab.engine.placing.allocation import Allocator
from kailab.engine.queueing.capacity import over_quota
from kailab.engine.queueing.order import tasks_to_allocate
from kailab.engine.search.minruntime import MinRuntime, keeps_minimum
from kailab.engine.search.victim_sets import VictimSet
from kailab.engine.session import Session
from kailab.engine.working.jobindex import Entry
from kailab.engine.working.queues import WQueue
from kailab.engine.working.state import Job


def execute(session: Session, allocator: Allocator) -> None:
    skip = SearchSkip(session)
    runtime = MinRuntime(session)

    def must_fail(queue: WQueue, job: Job) -> bool:
        # Jobs for which its failure counts rank no higher, so what it tells about them is true of them anyway.
        if _as_kai(session):
            return not _ranked_below(session, queue, job.record.priority)
        return _none_below(session, queue, job.record.priority)

    def scope_of(queue: WQueue, job: Job) -> str:
        # In KAI's order later jobs rank no higher. In a configured order they may, and then have other victims.
        return queue.name if session.ranking is None else f"{queue.name} {job.record.priority}"

    def failed_before(queue: WQueue, job: Job) -> bool:
        return skip.no_easier(job, scope_of(queue, job))

    for job in candidates(session, allocator, "preempt", failed_before, must_fail=must_fail):
        queue = session.queue_of(job)
        assert queue is not None
        scope = scope_of(queue, job)
        if skip.no_easier(job, scope) or impossible(session, allocator, job):
            continue
        if not _preempt(session, allocator, runtime, job):
            skip.failed(job, scope)


def _preempt(session: Session, allocator: Allocator, runtime: MinRuntime, job: Job) -> bool:
    queue = session.queue_of(job)
    assert queue is not None
    # Victims are preemptible, so evicting them does not change what non-preemptible pods hold of the quota. Limits are
    # left to the simulation, which gives the victims' amounts back first.
    if not job.record.preemptible:
        wanted = session.wants(tasks_to_allocate(job), session.table.max_gpu_memory)
        if over_quota(queue, wanted) is not None:
            session.ledger.note(job, "preempt", f"queue {queue.name} would hold non-preemptible work over its quota")
            return False
    priority = job.record.priority

    ranking = session.ranking

    def pick(victim: Job) -> bool:
        return (
            victim.record.priority < priority
            and victim is not job
            and session.active_tasks(victim) != 0
            and (ranking is None or ranking.may_preempt(job, victim))
            # A protected job may lose its surplus; ``valid`` makes sure that its minimum stays.
            and (victim.elastic or not runtime.preempt_protects(victim))
        )

    def valid(victim_set: VictimSet) -> bool:
        return all(
            keeps_minimum(victim, tasks)
            for victim, tasks in victim_set.by_job().values()
            if victim.elastic and runtime.preempt_protects(victim)
        )

    def ground(victim: Job) -> EvictionGround:
        return EvictionGround(
            rule="priority", queue=queue.name, beside=queue.name, priorities=(victim.record.priority, priority)
        )

    queues, lists = [queue], None
    if _as_kai(session):
        # In KAI's order, the jobs of lower priority are at the end of the list.
        lists = {queue.name: _ranked_below(session, queue, priority)}
    elif _none_below(session, queue, priority) or not any(
        victim.record.priority < priority for victim in session.victims.members(queue.name)
    ):
        queues = []  # no job has to be sorted
    return search(session, allocator, job, "preempt", pick, queues, valid, ground=ground, lists=lists)


def _as_kai(session: Session) -> bool:
    """True if possible victims are in KAI's order."""
    return session.ranking is None or session.ranking.victims_as_kai


def _ranked_below(session: Session, queue: WQueue, priority: int) -> list[Entry]:
    """The possible victims of a queue with a lower priority, in KAI's order: they are at the end of the list."""
    entries = session.victims.lists.get(queue.name, [])
    return entries[bisect_left(entries, 1 - priority, key=lambda entry: entry[0][0]) :]


def _none_below(session: Session, queue: WQueue, priority: int) -> bool:
    """True if no job of the queue with a lower priority runs or waits, so that none can be a victim in this cycle."""
    # The working set's own indexes are in KAI's order, with the lowest priority last, and stay as the cycle began.
    indexes = (session.working.victims, session.working.waiting)
    lowest = [entries[-1][1] for index in indexes if (entries := index.lists.get(queue.name))]
    return all(job.record.priority >= priority for job in lowest)
