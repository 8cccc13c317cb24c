"""What consolidation, reclaim and preempt share: the candidates, the memory of failed searches, and the search itself.

A job is skipped if it is no easier to place than one that has just failed. Source: KAI's actions and their minimal job
representatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kailab.engine.actions.classedorder import JobTest, OpenOrder, RepeatedTurns, classed_order, classes_count
from kailab.engine.actions.waiting import chooses, waiting_jobs
from kailab.engine.decisions import Action, EvictionGround, PendingCode
from kailab.engine.faults import ACROSS_KINDS, COUNTED_TWICE
from kailab.engine.ledger import FailedAttempt
from kailab.engine.placing.allocation import Allocator
from kailab.engine.queueing.order import tasks_to_allocate
from kailab.engine.search.alike import AlikeSearches
from kailab.engine.search.bounds import SearchBounds
from kailab.engine.search.reclaimable import Demand
from kailab.engine.search.signatures import Representatives, kind_of_job
from kailab.engine.search.solver import Solver
from kailab.engine.search.victim_sets import VictimSet
from kailab.engine.session import Session
from kailab.engine.snapshot.records import Status
from kailab.engine.working.jobindex import Entry
from kailab.engine.working.queues import WQueue
from kailab.engine.working.state import Job, WTask


def candidates(
    session: Session, allocator: Allocator, action: Action, failed_before: JobTest, preemptible_only: bool = False,
    must_fail: JobTest | None = None,
) -> Iterator[Job]:  # fmt: skip
    """The waiting jobs that may cause evictions, in order. ``must_fail``: gets a queue and a job. It
    is true if every job of this class would be refused until something changes, and to leave the class out changes
    nothing in ``SearchSkip`` for others. ``failed_before``: true for a job that is skipped because of those that failed
    before (``SearchSkip``).
    """
    delayed = _delayed(session, action, preemptible_only)

    def pick(job: Job) -> bool:
        # As in KAI, these jobs are not in the order at all: they use up no ``queue_depth`` and do not affect
        # comparisons of queues.
        return job.uid not in delayed and (job.record.preemptible or not preemptible_only)

    if classes_count(session, allocator, action):
        yield from _one_of_each_class(session, pick, failed_before, preemptible_only, must_fail)
        return
    order = waiting_jobs(session, action, pick)
    while not order.over:
        job = order.pop()
        if _bind_refused(session, job):
            session.ledger.note(
                job, action, "its binding was refused: nobody is evicted for it until one works or it changes"
            )
            continue
        yield job


def _delayed(session: Session, action: Action, preemptible_only: bool) -> set[str]:
    """The uids of jobs whose preemption delay has not elapsed when the action begins."""
    delayed: set[str] = set()
    for job in session.waiting.delayed.values():
        queue = session.queue_of(job)
        if queue is None or queue.orphan or not queue.leaf:
            continue
        until = job.delayed_until()
        if until is None or session.now >= until or not job.root.ready or not session.has_turn(job):
            continue
        if preemptible_only and not job.record.preemptible:
            continue
        # No event starts a cycle when the delay ends, so the ledger asks for one.
        session.ledger.wake(until)
        session.ledger.note(job, action, "its preemption delay has not elapsed")
        session.ledger.delayed[job.uid] = until
        delayed.add(job.uid)
    return delayed


def _one_of_each_class(
    session: Session, pick: Callable[[Job], bool], failed_before: JobTest, preemptible_only: bool,
    must_fail: JobTest | None,
) -> Iterator[Job]:  # fmt: skip
    """The candidates without those of whose class one has failed; all others after one has succeeded."""
    chosen = chooses(session, pick)
    order = classed_order(session, chosen, preemptible_only)
    # A search that was held back is still remembered until the next one, and then failures are not (``SearchSkip``).
    if must_fail is not None and not session.held_back:
        order.refuse_classes(must_fail)
    if isinstance(order, OpenOrder):
        order.ask_later(failed_before)
    order.begin()
    if order.over:
        return
    after = (order if isinstance(order, OpenOrder) else RepeatedTurns(session, chosen, preemptible_only)).after
    commits = session.commits
    while not order.over:
        job = order.pop()
        wants = order.wants
        yield job
        # An equal job may be searched again if kept nodes stood in the way: what is kept for it may end with its own turn.
        if session.commits != commits or session.held_back:
            yield from after(job, wants)
            return
        # Its search failed, or was not worth it; the same holds for equal jobs while nothing changes (``SearchSkip``).
        order.refuse()


def _bind_refused(session: Session, job: Job) -> bool:
    # The bind may be refused again, cycle after cycle, and each time victims would be lost.
    refused = session.config.refused
    return bool(refused) and any(task.uid in refused for task in tasks_to_allocate(job))


def impossible(session: Session, allocator: Allocator, job: Job) -> bool:
    """True, with the reason recorded, if some task of the job fits no node of this cluster even when empty."""
    for task in tasks_to_allocate(job):
        if allocator.placer.blocked(task):
            pod = f"{task.record.namespace}/{task.record.name}"
            session.ledger.fail(
                job, FailedAttempt(PendingCode.POD_SCHEDULING_ERRORS, f"no node has room for pod {pod}", task=task.uid)
            )
            return True
    return False


class SearchSkip:
    """Remembers failed searches, unless ``use_signatures`` is off.

    A search does not count as failed if the action's budget cut it short, if its victims lost too much for what it
    asked for, or if it was refused because of kept nodes.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._on = session.config.use_signatures
        self._failed: dict[str, Representatives] = {}
        self._known: dict[tuple[str, tuple[Any, ...]], bool] = {}  # by scope and kind of job, since the last failure

    def no_easier(self, job: Job, scope: str) -> bool:
        if not self._on:
            return False
        kind = kind_of_job(job)
        # Most waiting jobs are like another one, so the answer is cached.
        known = self._known.get((scope, kind)) if kind is not None else None
        if known is None:
            known = not self._in(scope).easier(job)
            if kind is not None:
                self._known[scope, kind] = known
        return known

    def failed(self, job: Job, scope: str) -> None:
        if self._session.budget.cut_short or self._session.taking.refusal or self._session.held_back:
            return
        self._in(scope).add(job)
        self._known.clear()

    def _in(self, scope: str) -> Representatives:
        return self._failed.setdefault(scope, Representatives(self._session.imitates(ACROSS_KINDS)))


def search(
    session: Session, allocator: Allocator, job: Job, action: Action,
    pick: Callable[[Job], bool], queues: list[WQueue], valid: Callable[[VictimSet], bool], wanted: Demand | None = None,
    ground: Callable[[Job], EvictionGround] | None = None, lists: Mapping[str, list[Entry]] | None = None, all_stay: bool = False,
    surely_invalid: Callable[[VictimSet], bool] | None = None,
    refuses_loss: Callable[[VictimSet, list[Job]], bool] | None = None, alike: AlikeSearches | None = None,
) -> bool:  # fmt: skip
    """Look for victims for a job. If some are found, commit the solution and return True; else undo everything and note
    the outcome.

    ``pick``: the jobs that may be victims. ``valid``: the final check of a solution. ``ground``: why a victim without
    another place may be evicted. ``lists``: the parts of the sorted victim lists that contain all jobs that ``pick`` allows.
    ``all_stay``: every victim has to find another place, which ``valid`` verifies. ``surely_invalid``: True if ``valid`` would refuse a set of victims
    wherever its victims find other places; it is not simulated. ``refuses_loss``: True if ``valid`` would refuse it once exactly these jobs have lost
    their pods. ``alike``: searches of this action, of which one may stand for this.
    """
    mark = session.mark()
    tasks = tasks_to_allocate(job)
    if alike is not None and (known := alike.outcome(job, tasks)) is not None:
        session.held_back = False
        session.ledger.note(job, action, known)
        return False
    # When KAI's faults are imitated, some victims and what they free count twice, so the room they need is unknown.
    all_stay = all_stay and not session.imitates(COUNTED_TWICE)
    # A bound ends a failing search sooner or later; at once only where nobody asks how many sets were tried, and where
    # trying them leaves no trace: the order of domains, numbers in the names of shared devices, a budget that is used up.
    at_once = classes_count(session, allocator, action) and not session.working.topologies and not session.table.shared
    bounds = SearchBounds(session, job, pick, queues, lists, wanted, all_stay, wordless=at_once)
    bounded = session.working.ended_by_bound
    kind = (action, job.record.queue, len(tasks), tasks[0].info if tasks else None)
    # A search that succeeds at once is cheaper than the bounds, so they are checked first where one ended the last search
    # of this kind, in whichever cycle. They are true or not whatever has changed since, so nothing ends this memory.
    if at_once and (all_stay or kind in bounded):
        if tasks and queues and bounds.any_broken(tasks):
            session.held_back = False
            return False
        bounded.discard(kind)
    solver = Solver(session, allocator, job, pick, queues, valid, bounds, surely_invalid, refuses_loss)
    solved = solver.solve()
    if solver.broken_bound and at_once:
        bounded.add(kind)
    # A solution beyond the maximum is dropped as a whole: evicting a part of its victims would achieve nothing.
    refusal = session.limits.refusal(session, mark) if solved else None
    session.held_back = False
    if solved and refusal is None and allocator.node_reservations is not None:
        refusal = allocator.node_reservations.refusal(job)
        session.held_back = refusal is not None
    if solved and refusal is None:
        # Before the commit, because evictions that the ledger has already do not count again.
        session.limits.count(session, mark)
        session.commit(mark, action, job, ground)
        return True
    if solver.leaks:
        session.keep(mark)
    else:
        session.undo(mark)
    # Name what would have to change, rather than the mere number of tries.
    if refusal is not None:
        outcome = refusal
    elif solver.broken_bound:
        outcome = f"no set of victims could make room: {solver.broken_bound}"
    elif solver.budget.spent:
        sets = "1 set" if solver.budget.used == 1 else f"{solver.budget.used} sets"
        outcome = f"the search budget ended it after {sets} of victims; none of them made room"
    elif session.taking.refusal:
        outcome = f"{session.taking.refusal} ({solver.simulated} tried)"
    elif solver.simulated:
        outcome = f"no set of victims makes room ({solver.simulated} tried)"
        if alike is not None and not solver.found:
            alike.add(job, tasks, outcome)
    else:
        outcome = "no victims to be had"
    session.ledger.note(job, action, outcome)
    return False


def lost_at_least(job: Job, tasks: list[WTask]) -> int:
    """How many of these victims of a job find no other place, however much room there is: a simulation serves each job once, and in its turn
    a job takes what is missing to its minimum, or one task above it.
    """
    if len(tasks) == 1 or len(job.podsets) != 1:
        return 0
    [podset] = job.podsets
    missing = podset.minimum - (podset.active - len(tasks))
    return max(0, len(tasks) - max(1, missing))


def someone_stays_without(victim_set: VictimSet) -> bool:
    """True if ``everyone_moved`` is certainly false once the set of victims has been simulated."""
    return any(lost_at_least(job, tasks) for job, tasks in victim_set.by_job().values())


def everyone_moved(victim_set: VictimSet) -> bool:
    # A victim that was placed again is pipelined, or back in its old state; one that is still releasing found no place.
    return all(task.status != Status.RELEASING for task in victim_set.tasks())
