"""reclaim: a queue below its share takes back resources from queues above theirs, anywhere in the tree.

Source: KAI's reclaim action.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kailab.engine.actions.evicting import SearchSkip, candidates, impossible, lost_at_least, search
from kailab.engine.decisions import EvictionGround
from kailab.engine.placing.allocation import Allocator
from kailab.engine.queueing.order import tasks_to_allocate
from kailab.engine.search.alike import AlikeSearches
from kailab.engine.search.minruntime import MinRuntime, keeps_minimum
from kailab.engine.search.reclaimable import (
    Demand,
    QueueBalances,
    ReclaimedAmounts,
    can_reclaim_from,
    demand,
    exceeds_own_quota,
    involved,
    stays_within_share,
)
from kailab.engine.search.victim_sets import VictimSet
from kailab.engine.session import Session
from kailab.engine.snapshot.records import ACTIVE
from kailab.engine.working.queues import RESOURCES, WQueue
from kailab.engine.working.state import Job, WPodSet, WTask


def execute(session: Session, allocator: Allocator) -> None:
    skip = SearchSkip(session)
    alike = AlikeSearches(session)
    runtime = MinRuntime(session)

    def must_fail(queue: WQueue, job: Job) -> bool:
        # Within one queue only preempt evicts. A failure is remembered for jobs of the same queue, which all have no victims.
        if not any(other is not queue and session.victims.holds(other.name) for other in session.tree.leaves):
            return True
        wanted = demand(session, job, tasks_to_allocate(job))
        return wanted is None or not stays_within_share(wanted)

    def failed_before(queue: WQueue, job: Job) -> bool:
        return skip.no_easier(job, queue.name)

    for job in candidates(session, allocator, "reclaim", failed_before, must_fail=must_fail):
        wanted = demand(session, job, tasks_to_allocate(job))
        if wanted is None:
            continue
        if not stays_within_share(wanted):
            beyond = (
                "would hold non-preemptible work over its quota"
                if exceeds_own_quota(wanted)
                else "would go beyond its fair share"
            )
            session.ledger.note(job, "reclaim", f"queue {wanted.queue.name} {beyond}")
            continue
        # Another queue has other victims and another claim, so failures count only for jobs of the same queue.
        if skip.no_easier(job, wanted.queue.name) or impossible(session, allocator, job):
            continue
        if not _reclaim(session, allocator, runtime, job, wanted, alike):
            skip.failed(job, wanted.queue.name)


def _reclaim(
    session: Session, allocator: Allocator, runtime: MinRuntime, job: Job, wanted: Demand, alike: AlikeSearches
) -> bool:
    queues = [
        queue
        for queue in session.tree.leaves
        # A queue that the rules protect is not worth a simulation.
        if queue is not wanted.queue
        and queue.name in session.victims.lists
        and can_reclaim_from(session.tree, wanted, queue)
    ]
    # Read before any eviction, so that every set of victims is compared with the same amounts.
    balances = QueueBalances(session.tree)
    multiplier = max(1.0, session.config.saturation_multiplier)

    ranking = session.ranking

    # Asked for each of hundreds of victims, of a few queues.
    unprotected = {queue.name for queue in queues if runtime.reclaim_runtime(wanted.queue, queue) <= 0}

    def pick(victim: Job) -> bool:
        if ranking is not None and not ranking.may_reclaim(job, victim):
            return False
        # A protected job may lose its surplus; ``valid`` makes sure that its minimum stays.
        return (
            victim.record.queue in unprotected or victim.elastic or not runtime.reclaim_protects(wanted.queue, victim)
        )

    def valid(victim_set: VictimSet) -> bool:
        victims = victim_set.by_job().values()
        # A gang is tried in part at first, and then demands no more than that part.
        tried = demand(session, job, victim_set.goal.tasks)
        assert tried is not None
        if not balances.is_reclaimable(tried, _reclaimed_by_queue(session, victims, _is_lost), multiplier):
            return False
        return all(
            keeps_minimum(victim, tasks)
            for victim, tasks in victims
            if victim.elastic and runtime.reclaim_protects(wanted.queue, victim)
        )

    def refuses_lost_jobs(victim_set: VictimSet, lost: list[Job]) -> bool:
        tried = demand(session, job, victim_set.goal.tasks)
        assert tried is not None
        gone = set(lost)
        losses = _reclaimed_by_queue(session, victim_set.by_job().values(), lambda task: task.job in gone)
        return not balances.is_reclaimable(tried, losses, multiplier)

    def surely_refused(victim_set: VictimSet) -> bool:
        victims = victim_set.by_job().values()
        # The usual case: no job surely loses anything.
        if session.config.allow_consolidating_reclaim and not any(lost_at_least(*victim) for victim in victims):
            return False
        tried = demand(session, job, victim_set.goal.tasks)
        assert tried is not None
        losses: dict[WQueue, tuple[list[int], list[int]]] = {}
        for victim, tasks in victims:
            queue = session.queue_of(victim)
            if queue is not None:
                _, theirs = session.tree.diverging_ancestors(wanted.queue, queue)
                lost, unit = losses.setdefault(theirs, ([0, 0, 0], [0, 0, 0]))
                _add_certain_loss(session, victim, tasks, lost, unit)
        return any(balances.refuses_loss(tried, theirs, lost, unit) for theirs, (lost, unit) in losses.items())

    def ground(victim: Job) -> EvictionGround:
        queue = session.queue_of(victim)
        assert queue is not None
        return balances.ground(wanted.queue, queue)

    return search(
        session,
        allocator,
        job,
        "reclaim",
        pick,
        queues,
        valid,
        wanted,
        ground,
        surely_invalid=surely_refused,
        refuses_loss=refuses_lost_jobs,
        alike=alike,
    )


def _is_lost(task: WTask) -> bool:
    return not ACTIVE[task.status]


def _reclaimed_by_queue(
    session: Session, victims: Iterable[tuple[Job, list[WTask]]], is_lost: Callable[[WTask], bool]
) -> dict[WQueue, list[ReclaimedAmounts]]:
    """What the victims give back, by queue: each surplus pod as a unit, and the core of each job as one unit."""
    yields: dict[WQueue, list[ReclaimedAmounts]] = {}
    for job, tasks in victims:
        queue = session.queue_of(job)
        if queue is None:
            continue
        surplus, core = _surplus_and_core(tasks)
        for unit in [*([task] for task in surplus), core]:
            # A victim that is promised another place loses nothing, so nothing is taken from its queue.
            if session.config.allow_consolidating_reclaim:
                unit = [task for task in unit if is_lost(task)]
            if unit:
                yields.setdefault(queue, []).append(_reclaimed(session, unit))
    return yields


def _add_certain_loss(session: Session, job: Job, tasks: list[WTask], lost: list[int], unit: list[int]) -> None:
    """``lost`` is a lower bound of what is lost, summed over jobs: add what this job loses at least if these tasks are evicted. ``unit`` is an
    upper bound of one unit of victims: raise it to what a unit of this job can give back. Both are amounts by resource.
    """
    number = lost_at_least(job, tasks) if session.config.allow_consolidating_reclaim else len(tasks)
    # The core of a job is one unit, and so is each pod beyond it.
    core = max(1, job.podsets[0].minimum) if len(job.podsets) == 1 else len(tasks)
    amounts = [session.accepted(task) for task in tasks]
    for r in RESOURCES:
        each = sorted(amount[r] for amount in amounts)
        lost[r] += sum(each[:number])
        unit[r] = max(unit[r], sum(each[-core:]))


def _surplus_and_core(tasks: list[WTask]) -> tuple[list[WTask], list[WTask]]:
    by_podset: dict[WPodSet, list[WTask]] = {}
    for task in tasks:
        assert task.podset is not None
        by_podset.setdefault(task.podset, []).append(task)
    surplus: list[WTask] = []
    core: list[WTask] = []
    for podset, members in by_podset.items():
        # KAI's splitVictimTasks: the first victims, up to the minimum, count as the core.
        core += members[: podset.minimum]
        surplus += members[podset.minimum :]
    return surplus, core


def _reclaimed(session: Session, tasks: list[WTask]) -> ReclaimedAmounts:
    amounts = session.accepted_in_all(tasks)
    return ReclaimedAmounts(amounts, involved(tasks, amounts))
