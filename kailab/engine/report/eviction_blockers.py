"""Which PodGroups hold what a waiting job lacks, and what keeps the job from evicting them.

The answer comes from the rules of the actions (``search.reclaimable``, ``search.minruntime``), without a search.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec
import numpy as np

from kailab.engine.decisions import HeldAmounts
from kailab.engine.placing import fit
from kailab.engine.queueing.order import tasks_to_allocate
from kailab.engine.search.minruntime import MinRuntime
from kailab.engine.search.reclaimable import Demand, can_reclaim_from, demand
from kailab.engine.session import Session
from kailab.engine.snapshot.records import ALLOCATED
from kailab.engine.working.layout import CPU, MEMORY
from kailab.engine.working.queues import Amounts, WQueue
from kailab.engine.working.state import Job, WTask

RESOURCE_FIELDS = ("gpu", "cpu", "memory")
"""Fields of ``HeldAmounts``, in the order of reports."""
_PLACES = {"cpu": 0, "memory": 1, "gpu": 2}


class EvictionBlocker(StrEnum):
    """What keeps a job from evicting another, as far as rules about single jobs decide."""

    NOTHING = "nothing"
    RANK = "rank"  # it is of the same queue and of no lower priority
    SHARE = "share"  # it is of another queue, and the job's queue would exceed its share
    QUOTA = "quota"  # it is of another queue, which holds no more than it may keep
    NON_PREEMPTIBLE = "non-preemptible"
    PROTECTED = "protected"  # a minimum runtime protects it
    SCHEDULER = "scheduler"  # it is of no queue: another scheduler placed it


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """One PodGroup ("": pods of other schedulers) and what it holds on nodes where the job might run.

    ``beside``: its queue, or its queue's ancestor that is a sibling of ``level``, which is the job's queue or one of
    its ancestors. ``until``: the end of its protection. ``surplus``: it keeps running without some of its pods, which
    no minimum runtime protects.
    """

    podgroup: str
    queue: str
    beside: str
    level: str
    held: HeldAmounts
    keeps: EvictionBlocker
    until: float | None = None
    surplus: bool = False


class ReachableCapacity(msgspec.Struct, frozen=True, kw_only=True):
    """What a job wants next, what is free where it might run, and which PodGroups hold the rest there.

    ``leaving``: what leaving pods hold. ``beyond``: per queue, from the job's own up, the resources (fields of
    ``HeldAmounts``) of which it would exceed both its quota and its fair share; queues without such a resource are left
    out.
    """

    wanted: HeldAmounts
    free: HeldAmounts
    leaving: HeldAmounts
    holders: tuple[Holder, ...]
    beyond: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def lacks(self) -> tuple[str, ...]:
        """Resources (fields of ``HeldAmounts``) of which too little is free in sum, with leaving pods counted as gone."""
        return tuple(
            name
            for name in RESOURCE_FIELDS
            if getattr(self.wanted, name) > getattr(self.free, name) + getattr(self.leaving, name)
        )


def reachable_capacity(session: Session, job: Job) -> ReachableCapacity | None:
    """The capacity that a job could reach; None if its queue does not exist."""
    tasks = tasks_to_allocate(job)
    wanted = demand(session, job, tasks)
    if wanted is None:
        return None
    nodes = _nodes(session, tasks)
    free, leaving = _room(session, nodes)
    held: dict[str, tuple[Job | None, list[int]]] = {}
    for i in np.flatnonzero(nodes):
        for task in session.table.tasks[i].values():
            # Promises hold nothing yet, and leaving pods are reported separately.
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
        holders=tuple(sorted(holders, key=lambda holder: (holder.queue, holder.podgroup))),
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
        # The victim's protection is reported only if the rules between queues, or of priority, would allow the
        # eviction.
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
        cached = self._shares.get(queue.name)
        if cached is None:
            level, beside = self._session.tree.diverging_ancestors(self._wanted.queue, queue)
            keeps = EvictionBlocker.NOTHING
            # A reclaimer must stay within its own share, and within that of its ancestor at the level of the
            # comparison.
            if any(_beyond_share(each, self._wanted.amounts) for each in (self._wanted.queue, level)):
                keeps = EvictionBlocker.SHARE
            elif not can_reclaim_from(self._session.tree, self._wanted, queue):
                keeps = EvictionBlocker.QUOTA
            cached = self._shares[queue.name] = (level, beside, keeps)
        return cached

    def _until(self, victim: Job, queue: WQueue) -> float | None:
        if queue is self._wanted.queue:
            return self._runtime.preempt_until(victim)
        return self._runtime.reclaim_until(self._wanted.queue, victim)


def _nodes(session: Session, tasks: list[WTask]) -> np.ndarray:
    """The nodes where any of the tasks may go, regardless of what is held there."""
    table = session.table
    if not session.config.predicates:
        return table.available
    mask = np.zeros(len(table), dtype=bool)
    for info in {id(task.info): task.info for task in tasks}.values():
        mask |= fit.static_mask(table, info, session.working.table_version)
    return mask


def _room(session: Session, nodes: np.ndarray) -> tuple[HeldAmounts, HeldAmounts]:
    table = session.table
    idle, leaving = np.maximum(table.idle, 0), np.maximum(table.releasing, 0)
    # Node by node, because no array contains the free parts of shared devices.
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
