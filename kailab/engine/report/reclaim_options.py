"""What queues could take back from each other as things stand, and what stops them.

``search.reclaimable`` says which queues have a claim; the rules of the reclaim action say what protects a victim.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from math import inf
from typing import NamedTuple

from kailab.engine.decisions import Reclaimer
from kailab.engine.queueing.division import Division
from kailab.engine.queueing.fairshare import tree_shares
from kailab.engine.queueing.order import tasks_to_allocate
from kailab.engine.queueing.order_records import ReclaimOption
from kailab.engine.search.minruntime import MinRuntime
from kailab.engine.search.reclaimable import reclaimers
from kailab.engine.session import Session
from kailab.engine.snapshot.records import ALLOCATED
from kailab.engine.working.queues import CPU, GPU, MEMORY, NAMES, QueueResource, WQueue
from kailab.engine.working.state import Job


def divisions(session: Session) -> tuple[Division, ...]:
    """How the fair shares of this session came about: the division is repeated and reported."""
    result: list[Division] = []
    tree = session.tree
    tree_shares(
        session.divided_queues,
        # Totals are whole numbers stored as floats for ratios; the division needs whole numbers.
        [int(total) for total in tree.totals],
        {name: queue.request for name, queue in tree.queues.items()},
        k_value=session.config.k_value,
        usage=session.config.usage,
        tell=result.append,
    )
    return tuple(result)


class _ReclaimableWork(NamedTuple):
    """Preemptible work of a leaf by start time, in one resource. ``core``: running sums of what a minimum runtime may
    protect. ``surplus``: what it never protects.
    """

    starts: list[float]
    core: list[int]
    surplus: int


class _WaitingClaims(NamedTuple):
    delayed: int
    until: float | None


class ReclaimOptions:
    """What queues could reclaim in one session at the start of its cycle."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._runtime = MinRuntime(session)
        self._leaves: dict[str, list[WQueue]] = {}
        for leaf in session.tree.leaves:
            for level in leaf.path:
                self._leaves.setdefault(level.name, []).append(leaf)
        self._holders: dict[tuple[str, int], _ReclaimableWork] = {}
        self._waiters: dict[tuple[str, int], _WaitingClaims] = {}
        self._found: dict[Reclaimer, ReclaimOption] = {}

    def of(self, name: str) -> tuple[ReclaimOption, ...]:
        """What others could take from a queue or its ancestors."""
        return tuple(self._return(taker) for taker in reclaimers(self._session.tree, name))

    def _return(self, taker: Reclaimer) -> ReclaimOption:
        cached = self._found.get(taker)
        if cached is None:
            cached = self._found[taker] = self._compute(taker)
        return cached

    def _compute(self, taker: Reclaimer) -> ReclaimOption:
        mine, theirs = self._session.tree.queues[taker.queue], self._session.tree.queues[taker.beside]
        r = NAMES.index(taker.resource)
        over, beyond = _beyond(theirs, taker.rule, r)
        young, unprotected = 0, 0
        ends: list[float] = []
        for leaf in self._leaves.get(theirs.name, ()):
            holders = self._held(leaf, r)
            runtime = self._runtime.reclaim_runtime(mine, leaf)
            first = _first_young(holders.starts, runtime, self._session.now)
            # ``core`` begins with 0, so the entry at a position is the sum of all that started earlier.
            total, old = holders.core[-1], holders.core[first]
            young += total - old
            unprotected += holders.surplus + old
            if total > old:
                ends += [holders.starts[first] + runtime, holders.starts[-1] + runtime]
        waiters = self._delayed(mine, r)
        return ReclaimOption(
            taker=taker,
            beyond=beyond,
            over=over,
            firm=theirs.non_preemptible[r],
            young=young,
            young_first=min(ends, default=None),
            young_last=max(ends, default=None),
            open=unprotected,
            waiting=max(0, mine.request[r] - mine.allocated[r]),
            delayed=waiters.delayed,
            delayed_until=waiters.until,
            reclaims="reclaim" in self._session.config.actions,
        )

    def _held(self, leaf: WQueue, r: int) -> _ReclaimableWork:
        cached = self._holders.get((leaf.name, r))
        if cached is None:
            cores, surplus = [], 0
            for _, job in self._session.victims.lists.get(leaf.name, ()):
                core, more = _core_and_surplus(self._session, job, r)
                # Work with an unknown start is not protected by a minimum runtime.
                cores.append((-inf if job.last_start is None else job.last_start, core))
                surplus += more
            cores.sort()
            sums = [0, *accumulate(core for _, core in cores)]
            cached = self._holders[leaf.name, r] = _ReclaimableWork([start for start, _ in cores], sums, surplus)
        return cached

    def _delayed(self, queue: WQueue, r: int) -> _WaitingClaims:
        cached = self._waiters.get((queue.name, r))
        if cached is None:
            now, amount, first = self._session.now, 0, inf
            for job in self._waiting(queue):
                until = job.delayed_until()
                if until is not None and now < until:
                    amount += self._session.wants(tasks_to_allocate(job), self._session.table.min_gpu_memory)[r]
                    first = min(first, until)
            cached = self._waiters[queue.name, r] = _WaitingClaims(amount, None if first == inf else first)
        return cached

    def _waiting(self, queue: WQueue) -> Iterable[Job]:
        for leaf in self._leaves.get(queue.name, ()):
            yield from (job for _, job in self._session.waiting.lists.get(leaf.name, ()))


def _first_young(starts: list[float], runtime: float, now: float) -> int:
    # Work whose minimum runtime is over is at the front: starts are sorted, and the runtime is the same for a whole
    # leaf.
    return bisect_right(starts, now, key=lambda start: start + runtime) if runtime > 0 else len(starts)


def _beyond(theirs: WQueue, rule: str, r: int) -> tuple[QueueResource, int]:
    """The resource of which a queue holds more than a rule leaves it (GPUs first), and how much of resource ``r`` may
    be taken for it.
    """
    for each in (GPU, CPU, MEMORY):
        bound = theirs.allocatable[each] if rule == "fair share" else min(theirs.quota[each], theirs.allocatable[each])
        if theirs.allocated[each] > bound:
            return NAMES[each], theirs.allocated[r] - int(bound) if each == r else theirs.allocated[r]
    return NAMES[r], 0


def _core_and_surplus(session: Session, job: Job, r: int) -> tuple[int, int]:
    """What the tasks hold that must run together, and what surplus tasks hold."""
    core = surplus = 0
    for podset in job.podsets:
        tasks = sorted((task for task in podset.tasks.values() if ALLOCATED[task.status]), key=lambda task: task.key)
        held = [session.accepted(task)[r] for task in tasks]
        core += sum(held[: podset.minimum])
        surplus += sum(held[podset.minimum :])
    return core, surplus
