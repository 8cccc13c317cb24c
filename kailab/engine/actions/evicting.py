"""What consolidation, reclaim and preempt have in common: whose turn it is, and who need not be tried.

A job that is no easier to place than one that has just failed is skipped. Source: KAI's actions and their minimal job
representatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kailab.engine.actions.waiting import waiting_jobs
from kailab.engine.decisions import Action, EvictionGround, PendingCode
from kailab.engine.ledger import FailedAttempt
from kailab.engine.placing.allocation import Allocator
from kailab.engine.queueing.order import tasks_to_allocate
from kailab.engine.search.bounds import SearchBounds
from kailab.engine.search.reclaimable import Demand
from kailab.engine.search.scenario import EvictionScenario
from kailab.engine.search.signatures import Representatives, sort_of
from kailab.engine.search.solver import Solver
from kailab.engine.session import Session
from kailab.engine.snapshot.records import Status
from kailab.engine.working.jobindex import Entry
from kailab.engine.working.queues import WQueue
from kailab.engine.working.state import Job


def candidates(session: Session, allocator: Allocator, action: Action, preemptible_only: bool = False) -> Iterator[Job]:
    """Waiting jobs that may set an eviction off, in order."""
    delayed = _delayed(session, action, preemptible_only)
    order = waiting_jobs(
        session,
        action,
        # Not in the order at all, as in KAI: they use up no ``queue_depth``, and their queue is not compared by them.
        lambda job: job.uid not in delayed and (job.record.preemptible or not preemptible_only),
    )
    while not order.over:
        job = order.pop()
        if _refused(session, job):
            session.ledger.note(
                job, action, "its binding was refused: nobody is evicted for it until one works or it changes"
            )
            continue
        yield job


def _delayed(session: Session, action: Action, preemptible_only: bool) -> set[str]:
    """Jobs (uids) whose preemption delay has not elapsed as the action begins."""
    found: set[str] = set()
    for queue in session.tree.leaves:
        for _, job in session.waiting.lists.get(queue.name, ()):
            until = job.delayed_until()
            if until is None or session.now >= until or not job.root.ready or not session.has_turn(job):
                continue
            if preemptible_only and not job.record.preemptible:
                continue
            # Nothing happens in the cluster when the delay ends, so no event would start a cycle then.
            session.ledger.wake(until)
            session.ledger.note(job, action, "its preemption delay has not elapsed")
            session.ledger.delayed[job.uid] = until
            found.add(job.uid)
    return found


def _refused(session: Session, job: Job) -> bool:
    # Victims would go for a place that may be refused again, cycle after cycle.
    refused = session.config.refused
    return bool(refused) and any(task.uid in refused for task in tasks_to_allocate(job))


def impossible(session: Session, allocator: Allocator, job: Job) -> bool:
    """No eviction can help: some task can't go to any node of this cluster."""
    for task in tasks_to_allocate(job):
        if allocator.placer.blocked(task):
            pod = f"{task.record.namespace}/{task.record.name}"
            session.ledger.fail(
                job, FailedAttempt(PendingCode.POD_SCHEDULING_ERRORS, f"no node has room for pod {pod}", task=task.uid)
            )
            return True
    return False


class SearchSkip:
    """Remembers what failed; ``session.config.use_signatures`` switches it. A search cut short because others had used up
    the action's budget proves nothing about the next one, nor does one whose victims were too much for what it asked for,
    or one that was refused for what is kept free."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._on = session.config.use_signatures
        self._failed: dict[str, Representatives] = {}
        self._known: dict[tuple[str, tuple[Any, ...]], bool] = {}  # of jobs of a sort, since the last one failed

    def hopeless(self, job: Job, scope: str) -> bool:
        if not self._on:
            return False
        sort = sort_of(job)
        # Most that wait are like another one that does.
        known = self._known.get((scope, sort)) if sort is not None else None
        if known is None:
            known = not self._failed.setdefault(scope, Representatives()).easier(job)
            if sort is not None:
                self._known[scope, sort] = known
        return known

    def failed(self, job: Job, scope: str) -> None:
        if self._session.budget.cut_short or self._session.taking.refused or self._session.held_back:
            return
        self._failed.setdefault(scope, Representatives()).add(job)
        self._known.clear()


def search(
    session: Session, allocator: Allocator, job: Job, action: Action,
    pick: Callable[[Job], bool], queues: list[WQueue], valid: Callable[[EvictionScenario], bool], wanted: Demand | None = None,
    ground: Callable[[Job], EvictionGround] | None = None, lists: Mapping[str, list[Entry]] | None = None, all_stay: bool = False,
) -> bool:  # fmt: skip
    """Look for victims and, if some are found, decide it. ``ground``: what lets a victim be taken that gets no other place. ``lists``: parts
    of the sorted lists of victims outside of which ``pick`` allows none. ``all_stay``: every victim has to find another place (``valid`` sees
    to it)."""
    mark = session.mark()
    # KAI counts some of its victims twice, and what they leave with them: then the room that they need can't be told.
    all_stay = all_stay and not session.config.imitate_faults
    bounds = SearchBounds(
        session, job, pick, queues, session.victims.lists if lists is None else lists, wanted, all_stay
    )
    solver = Solver(session, allocator, job, pick, queues, valid, bounds)
    solved = solver.solve()
    # A solution beyond the maximum is dropped as a whole: a part of its victims would go for nothing.
    refused = session.limits.refuses(session, mark) if solved else None
    session.held_back = False
    if solved and refused is None and allocator.reservations is not None:
        refused = allocator.reservations.refuse(job)
        session.held_back = refused is not None
    if solved and refused is None:
        # Before the commit: what the ledger has as evicted does not count once more.
        session.limits.count(session, mark)
        session.commit(mark, action, job, ground)
        return True
    session.undo(mark)
    # What would have to change for another outcome is told before the mere number of tries.
    if refused is not None:
        tried = refused
    elif solver.hopeless:
        tried = f"no set of victims could make room: {solver.hopeless}"
    elif solver.budget.spent:
        sets = "1 set" if solver.budget.used == 1 else f"{solver.budget.used} sets"
        tried = f"the search budget ended it after {sets} of victims; none of them made room"
    elif session.taking.refused:
        tried = f"{session.taking.refused} ({solver.simulated} tried)"
    elif solver.simulated:
        tried = f"no set of victims makes room ({solver.simulated} tried)"
    else:
        tried = "no victims to be had"
    session.ledger.note(job, action, tried)
    return False


def everyone_moved(scenario: EvictionScenario) -> bool:
    # Who was placed again is promised that place, or back where it was; who is still leaving found none.
    return all(task.status != Status.RELEASING for task in scenario.tasks())
