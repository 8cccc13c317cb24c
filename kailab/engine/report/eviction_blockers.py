"""Who holds what a waiting job lacks, and what keeps it from taking that: told when somebody asks.

What may be taken is the word of the actions' own rules (``search.reclaimable``, ``search.minruntime``); nothing is searched for.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec
import numpy as np

from kailab.engine.decisions import HeldAmounts
from kailab.engine.placing import fit
from kailab.engine.queueing.order import tasks_to_allocate
from kailab.engine.search.minruntime import MinRuntime
from kailab.engine.search.reclaimable import Demand, demand, may_yield
from kailab.engine.session import Session
from kailab.engine.snapshot.records import ALLOCATED
from kailab.engine.working.layout import CPU, MEMORY
from kailab.engine.working.queues import Amounts, WQueue
from kailab.engine.working.state import Job, WTask

RESOURCE_FIELDS = ("gpu", "cpu", "memory")
"""Fields of ``HeldAmounts``, in the order in which they are told."""
_PLACES = {"cpu": 0, "memory": 1, "gpu": 2}


class EvictionBlocker(StrEnum):
    """What keeps a job from having another evicted, as far as rules tell it of each by itself."""

    NOTHING = "nothing"
    RANK = "rank"  # of its own queue, and of no lower priority
    SHARE = "share"  # of another queue, and its own would hold more than its share
    QUOTA = "quota"  # of another queue, which holds no more than it may keep
    NON_PREEMPTIBLE = "non-preemptible"
    PROTECTED = "protected"  # by a minimum runtime
    SCHEDULER = "scheduler"  # of no queue: another scheduler has placed it


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """One PodGroup ("": pods of other schedulers), and what it holds where the job might run. ``beside``: its queue, or the ancestor
    of it that stands beside the job's queue or an ancestor of that (``level``). ``until``: the end of its protection. ``surplus``: it
    runs on without some of its pods, which no minimum runtime protects."""

    podgroup: str
    queue: str
    beside: str
    level: str
    held: HeldAmounts
    keeps: EvictionBlocker
    until: float | None = None
    surplus: bool = False


class ReachableCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """What a job wants next, what is free of it where it might run, and who holds the rest there. ``leaving``: what pods hold that
    are on their way out. ``beyond``: by queue, from the job's own up, the resources (fields of ``HeldAmounts``) of which it would hold
    more than both its quota and its fair share; queues of which that is so in none are left out."""

    wanted: HeldAmounts
    free: HeldAmounts
    leaving: HeldAmounts
    holders: tuple[Holder, ...]
    beyond: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def lacks(self) -> tuple[str, ...]:
        """Resources (fields of ``HeldAmounts``) of which too little is free in sum, with all that is leaving."""
        return tuple(
            name
            for name in RESOURCE_FIELDS
            if getattr(self.wanted, name) > getattr(self.free, name) + getattr(self.leaving, name)
        )


def reachable_capacity(session: Session, job: Job) -> ReachableCapacity | None:
    """None for a job whose queue is not there."""
    tasks = tasks_to_allocate(job)
    wanted = demand(session, job, tasks)
    if wanted is None:
        return None
    nodes = _nodes(session, tasks)
    free, leaving = _room(session, nodes)
    held: dict[str, tuple[Job | None, list[int]]] = {}
    for i in np.flatnonzero(nodes):
        for task in session.table.tasks[i].values():
            # Promises hold nothing yet, and what is leaving is told apart.
            if task.job is job or not ALLOCATED[task.status]:
                continue
            sums = held.setdefault("" if task.job is None else task.job.uid, (task.job, [0, 0, 0]))[1]
            for r, amount in enumerate(session.accepted(task)):
                sums[r] += amount
    rules = _Rules(session, job, wanted)
    holders = (rules.holder(other, _held((sums[0], sums[1], sums[2]))) for other, sums in held.values())
    return ReachableCapacity(
        wanted=_held(wanted.amounts),
        free=free,
        leaving=leaving,
        holders=tuple(sorted(holders, key=lambda one: (one.queue, one.podgroup))),
        beyond=tuple(
            (level.name, fields) for level in wanted.queue.path if (fields := _beyond_share(level, wanted.amounts))
        ),
    )


def _beyond_share(queue: WQueue, wanted: Amounts) -> tuple[str, ...]:
    return tuple(
        name
        for name in RESOURCE_FIELDS
        if queue.allocated[r := _PLACES[name]] + wanted[r] > max(queue.quota[r], queue.fair[r])
    )


class _Rules:
    def __init__(self, session: Session, job: Job, wanted: Demand) -> None:
        self._session = session
        self._job = job
        self._wanted = wanted
        self._runtime = MinRuntime(session)
        self._shares: dict[str, tuple[WQueue, WQueue, EvictionBlocker]] = {}

    def holder(self, victim: Job | None, held: HeldAmounts) -> Holder:
        queue = None if victim is None else self._session.queue_of(victim)
        if victim is None or queue is None:
            return Holder(podgroup="", queue="", beside="", level="", held=held, keeps=EvictionBlocker.SCHEDULER)
        level, beside, keeps = self._between(queue)
        if queue is self._wanted.queue:
            keeps = (
                EvictionBlocker.NOTHING if victim.record.priority < self._job.record.priority else EvictionBlocker.RANK
            )
        until = self._until(victim, queue)
        # What protects a victim is told only where the rules between queues, or of rank, would let it be taken.
        if keeps == EvictionBlocker.NOTHING:
            if not victim.record.preemptible:
                keeps = EvictionBlocker.NON_PREEMPTIBLE
            elif until is not None:
                keeps = EvictionBlocker.PROTECTED
        return Holder(
            podgroup=victim.uid, queue=queue.name, beside=beside.name, level=level.name, held=held, keeps=keeps,
            until=until, surplus=victim.elastic,
        )  # fmt: skip

    def _between(self, queue: WQueue) -> tuple[WQueue, WQueue, EvictionBlocker]:
        found = self._shares.get(queue.name)
        if found is None:
            level, beside = self._session.tree.levelled(self._wanted.queue, queue)
            keeps = EvictionBlocker.NOTHING
            # A reclaimer is held to its own share, and to that of its ancestor at the level where it takes.
            if any(_beyond_share(one, self._wanted.amounts) for one in (self._wanted.queue, level)):
                keeps = EvictionBlocker.SHARE
            elif not may_yield(self._session.tree, self._wanted, queue):
                keeps = EvictionBlocker.QUOTA
            found = self._shares[queue.name] = (level, beside, keeps)
        return found

    def _until(self, victim: Job, queue: WQueue) -> float | None:
        if queue is self._wanted.queue:
            return self._runtime.preempt_until(victim)
        return self._runtime.reclaim_until(self._wanted.queue, victim)


def _nodes(session: Session, tasks: list[WTask]) -> np.ndarray:
    """Where any of the tasks may go, but for what is held there."""
    table = session.table
    if not session.config.predicates:
        return table.available
    found = np.zeros(len(table), dtype=bool)
    for info in {id(task.info): task.info for task in tasks}.values():
        found |= fit.static_mask(table, info, session.working.table_version)
    return found


def _room(session: Session, nodes: np.ndarray) -> tuple[HeldAmounts, HeldAmounts]:
    table = session.table
    idle, leaving = np.maximum(table.idle, 0), np.maximum(table.releasing, 0)
    # Node by node, because free parts of shared devices stand in no array.
    gpus = sum(table.unheld_gpus(int(i)) for i in np.flatnonzero(nodes))
    with_leaving = int(table.free_gpu_vector()[nodes].sum())
    return (
        HeldAmounts(gpu=int(gpus), cpu=int(idle[CPU][nodes].sum()), memory=int(idle[MEMORY][nodes].sum())),
        HeldAmounts(
            gpu=max(0, with_leaving - int(gpus)),
            cpu=int(leaving[CPU][nodes].sum()),
            memory=int(leaving[MEMORY][nodes].sum()),
        ),
    )


def _held(amounts: Amounts) -> HeldAmounts:
    return HeldAmounts(cpu=amounts[0], memory=amounts[1], gpu=amounts[2])
