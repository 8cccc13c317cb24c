"""Who may take what from whom across queues.

A queue may reclaim only up to its fair share. It takes from a queue that holds more than its allocatable share, or, while
it stays within its own quota, from one that holds more than its quota; at the level of the tree where the two part. After
it, no level of the reclaimer may be fuller, relative to its fair share, than a sibling it took from. Source: KAI's
proportion plugin, package reclaimable.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Literal, NamedTuple

from kailab.engine.decisions import EvictionGround, Reclaimer
from kailab.engine.session import Session
from kailab.engine.working.queues import CPU, GPU, MEMORY, NAMES, RESOURCES, Amounts, QueueTree, WQueue
from kailab.engine.working.state import Job, WTask


class Demand(NamedTuple):
    """What a reclaimer wants: amounts, the resources that take part in comparisons, and whether it must stay in quota."""

    queue: WQueue
    amounts: Amounts
    involved: frozenset[int]
    preemptible: bool


class ReclaimedAmounts(NamedTuple):
    """What one victim unit (a surplus pod, or the core of a gang) gives back."""

    amounts: Amounts
    involved: frozenset[int]


def involved(tasks: list[WTask], amounts: Amounts) -> frozenset[int]:
    """Resources really asked for; MIG instances don't take part in the GPU comparison, as in KAI."""
    names = {r for r in (0, 1) if amounts[r] > 0}
    if any(task.info.request > 0 or task.info.shape.gpu.memory_mib for task in tasks):
        names.add(2)
    return frozenset(names)


def demand(session: Session, job: Job, tasks: list[WTask]) -> Demand | None:
    queue = session.queue_of(job)
    if queue is None:
        return None
    amounts = session.wants(tasks, session.table.min_gpu_memory)
    return Demand(queue, amounts, involved(tasks, amounts), job.record.preemptible)


def can_reclaim(wanted: Demand) -> bool:
    """Whether the reclaimer's queue stays within its fair share, and non-preemptible work within its quota."""
    queue = wanted.queue
    for r in RESOURCES:
        # KAI's CanReclaimResources asks every resource, also those of which the job wants nothing.
        if queue.allocated[r] + wanted.amounts[r] > queue.fair[r]:
            return False
        if not wanted.preemptible and queue.non_preemptible[r] + wanted.amounts[r] > queue.quota[r]:
            return False
    return True


def may_yield(tree: QueueTree, wanted: Demand, victim_queue: WQueue) -> bool:
    """A first look at a victim's queue, before any search."""
    mine, theirs = tree.levelled(wanted.queue, victim_queue)
    # Without a claim of quota only what a queue holds beyond its allocatable share can be taken from it.
    if not mine.within_quota_with(wanted.amounts):
        return any(theirs.allocated[r] > theirs.allocatable[r] for r in RESOURCES)
    below = False
    for r in RESOURCES:
        # Of what is not asked for nothing can be owed, and from an unlimited quota nothing is beyond.
        if wanted.amounts[r] <= 0 or theirs.quota[r] == inf:
            continue
        if theirs.allocated[r] > theirs.quota[r]:
            return True
        if theirs.allocated[r] < theirs.quota[r]:
            below = True
    return not below


def above_share(theirs: WQueue, left: Sequence[int]) -> bool:
    """Fair share kept up: what the victim's queue has left is still more than it may fill, in some resource."""
    return _beyond(left, theirs.allocatable) is not None


def owed_quota(held: Sequence[int], wanted: Amounts, mine: WQueue, theirs: WQueue, left: Sequence[int]) -> bool:
    """Quota guaranteed: the reclaimer stays within its quota in every resource, the victim's queue is beyond its own in
    some."""
    if any(held[r] + wanted[r] > mine.quota[r] for r in RESOURCES):
        return False
    return _beyond(left, theirs.quota) is not None


def _beyond(held: Sequence[int], bounds: Sequence[float]) -> int | None:
    """The first resource, GPUs before all, of which more is held than the bound; None: in none."""
    return next((r for r in (GPU, CPU, MEMORY) if held[r] > bounds[r]), None)


def reclaimers(tree: QueueTree, name: str) -> tuple[Reclaimer, ...]:
    """Queues that could reclaim from a queue, or from an ancestor of it, as things stand: those within their quota by asking, and
    those beyond it that wait below their fair share."""
    queue = tree.queues.get(name)
    found: list[Reclaimer] = []
    for theirs in queue.path if queue is not None else ():
        if not any(theirs.allocated[r] > min(theirs.quota[r], theirs.allocatable[r]) for r in RESOURCES):
            continue  # no rule takes anything from it
        beside = tree.roots if theirs.parent is None else theirs.parent.children
        for mine in sorted(beside, key=lambda queue: queue.name):
            if mine is not theirs and (taker := _taker(tree, mine, theirs)) is not None:
                found.append(taker)
    return tuple(found)


def _taker(tree: QueueTree, mine: WQueue, theirs: WQueue) -> Reclaimer | None:
    waits = [r for r in RESOURCES if mine.request[r] > mine.allocated[r]]
    found = None
    if theirs.allocated[GPU]:
        # Whoever holds too much of one resource alone may lose to work that asks for that too.
        found = _taker_of(tree, mine, theirs, GPU, ()) or _taker_of(tree, mine, theirs, GPU, waits)
    for r in (CPU, MEMORY):
        # Everybody could ask for CPU: it is told of those that do, where it is not about GPUs.
        if found is None and r in waits and not (GPU in waits and theirs.allocated[GPU]):
            found = _taker_of(tree, mine, theirs, r, waits)
    return found


def _taker_of(tree: QueueTree, mine: WQueue, theirs: WQueue, r: int, beside: Sequence[int]) -> Reclaimer | None:
    """By a claim on resource ``r``, and on the least amount of those ``beside`` it."""
    held = mine.allocated[r]
    unused = min(mine.quota[r], mine.limit[r], max(tree.totals[r], held + 1)) - held
    if unused >= 1:
        # Whoever asks within the quota has a fair share for it: only the quota has to be looked at.
        wanted = _some_of(mine, r, int(unused), beside)
        if may_yield(tree, wanted, theirs) and owed_quota(
            mine.allocated, wanted.amounts, mine, theirs, theirs.allocated
        ):
            amount = -1 if mine.quota[r] == inf else int(unused)
            return Reclaimer(queue=mine.name, beside=theirs.name, rule="quota", amount=amount, resource=NAMES[r])
    due = int(min(mine.fair[r], mine.request[r]) - held)
    if due < 1:
        return None
    wanted = _some_of(mine, r, due, beside)
    if can_reclaim(wanted) and may_yield(tree, wanted, theirs) and above_share(theirs, theirs.allocated):
        return Reclaimer(queue=mine.name, beside=theirs.name, rule="fair share", amount=due, resource=NAMES[r])
    return None


def _some_of(queue: WQueue, r: int, amount: int, beside: Sequence[int]) -> Demand:
    cpu, memory, gpus = (amount if each == r else int(each in beside) for each in RESOURCES)
    return Demand(queue, (cpu, memory, gpus), frozenset((r, *beside)), preemptible=True)


class QueueBalances:
    """What queues held before the search began: the yardstick for every scenario of it."""

    def __init__(self, tree: QueueTree) -> None:
        self.tree = tree
        self.allocated = {queue: tuple(queue.allocated) for queue in tree.queues.values()}
        self.non_preemptible = {queue: tuple(queue.non_preemptible) for queue in tree.queues.values()}

    def allows(self, wanted: Demand, yields: dict[WQueue, list[ReclaimedAmounts]], multiplier: float) -> bool:
        """Whether the reclaimer may take these from these queues."""
        remaining: dict[WQueue, list[int]] = {}
        resources: dict[WQueue, frozenset[int]] = {}
        for queue, given in yields.items():
            mine, theirs = self.tree.levelled(wanted.queue, queue)
            names = frozenset[int]().union(*(one.involved for one in given))
            resources[queue] = names
            left = remaining.setdefault(theirs, list(self.allocated[theirs]))
            # Unit by unit: each is held against what the ones before it have left.
            for one in given:
                if not (above_share(theirs, left) or self._owed(wanted, mine, theirs, left)):
                    return False
                # What a victim gives back is gone from every queue above it too: a later victim is judged by what is
                # left there.
                for level in queue.path:
                    held = remaining.setdefault(level, list(self.allocated[level]))
                    for r in RESOURCES:
                        held[r] -= one.amounts[r]
                    resources[level] = resources.get(level, frozenset()) | names
        return self._within(wanted, remaining, resources, multiplier)

    def ground(self, reclaimer: WQueue, victims: WQueue) -> EvictionGround:
        """Why ``allows`` allowed the first of the victims of a queue; ``after`` is how the queues stand now."""
        mine, theirs = self.tree.levelled(reclaimer, victims)
        held = self.allocated[theirs]
        r, bounds = _beyond(held, theirs.allocatable), theirs.allocatable
        rule: Literal["fair share", "quota"] = "fair share"
        if r is None:
            r, bounds, rule = _beyond(held, theirs.quota), theirs.quota, "quota"
        assert r is not None
        return EvictionGround(
            rule=rule, queue=theirs.name, beside=mine.name, resource=NAMES[r], bound=bounds[r], before=held[r],
            after=theirs.allocated[r],
        )  # fmt: skip

    def _owed(self, wanted: Demand, mine: WQueue, theirs: WQueue, left: list[int]) -> bool:
        return owed_quota(self.allocated[mine], wanted.amounts, mine, theirs, left)

    def _within(
        self, wanted: Demand, remaining: dict[WQueue, list[int]], resources: dict[WQueue, frozenset[int]],
        multiplier: float,
    ) -> bool:  # fmt: skip
        for level in wanted.queue.path:
            held = remaining.setdefault(level, list(self.allocated[level]))
            for r in RESOURCES:
                held[r] += wanted.amounts[r]
            for sibling, left in remaining.items():
                if sibling is level or sibling.parent is not level.parent:
                    continue
                for r in resources.get(sibling, frozenset()) | wanted.involved:
                    ratio = _saturation(held[r], level.fair[r])
                    theirs = _saturation(left[r], sibling.fair[r])
                    # Up to its fair share a queue may always take. Beyond it, it must stay the less saturated of the
                    # two, or the next cycle would take the same back (KAI: reclaimable.go).
                    if ratio > 1 and sibling.fair[r] > 0 and ratio * multiplier >= theirs:
                        return False
            if not wanted.preemptible:
                non_preemptible = self.non_preemptible[level]
                if any(non_preemptible[r] + wanted.amounts[r] > level.quota[r] for r in RESOURCES):
                    return False
        return True


def _saturation(allocated: int, fair: float) -> float:
    if fair == 0:
        return inf if allocated > 0 else 0.0
    return allocated / fair
