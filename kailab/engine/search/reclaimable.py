"""The rules of reclaim: which queue may take how much from which other queue.

The reclaimer's own queue must stay within its fair share (``stays_within_share``). It may take from a queue that holds more than its allocatable
share or, while it stays within its own quota, from one that holds more than its quota. The comparison uses the ancestors
just below the lowest common ancestor of the two queues, not the two queues themselves. ``can_reclaim_from`` is the first
check of a victim's queue, before any search; ``QueueBalances.is_reclaimable`` is the final check of a set of victims. The allocatable share is the
larger of fair share and quota, at most the limit; with an unlimited quota it is the limit. The queues above the reclaimer's may go beyond their fair share: their ratio of allocation to fair share, times the
saturation multiplier, must then stay below that of every sibling that loses something, unless that sibling has no fair
share at all. Source: KAI's proportion plugin, package reclaimable.
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
    """What a reclaimer wants: its amounts, the resources to compare, and whether it is preemptible (otherwise it must
    stay within its quota).
    """

    queue: WQueue
    amounts: Amounts
    involved: frozenset[int]
    preemptible: bool


class ReclaimedAmounts(NamedTuple):
    """What one victim unit (a surplus pod, or the core of a gang) gives back."""

    amounts: Amounts
    involved: frozenset[int]


def involved(tasks: list[WTask], amounts: Amounts) -> frozenset[int]:
    """The resources that are really requested. As in KAI, MIG instances do not count in the comparison of GPUs."""
    names = {r for r in (CPU, MEMORY) if amounts[r] > 0}
    if any(task.info.request > 0 or task.info.shape.gpu.by_memory for task in tasks):
        names.add(GPU)
    return frozenset(names)


def demand(session: Session, job: Job, tasks: list[WTask]) -> Demand | None:
    queue = session.queue_of(job)
    if queue is None:
        return None
    amounts = session.wants(tasks, session.table.min_gpu_memory)
    return Demand(queue, amounts, involved(tasks, amounts), job.record.preemptible)


def stays_within_share(wanted: Demand) -> bool:
    """True if the reclaimer's queue stays within its fair share, and non-preemptible work within its quota. Source: KAI's
    CanReclaimResources.
    """
    queue = wanted.queue
    for r in RESOURCES:
        # As in KAI, every resource is checked, even if the job wants none of it.
        if queue.allocated[r] + wanted.amounts[r] > queue.fair[r]:
            return False
    return not exceeds_own_quota(wanted)


def exceeds_own_quota(wanted: Demand) -> bool:
    """True if the reclaimer is non-preemptible and its queue would hold more non-preemptible work than its quota."""
    queue = wanted.queue
    return not wanted.preemptible and any(
        queue.non_preemptible[r] + wanted.amounts[r] > queue.quota[r] for r in RESOURCES
    )


def can_reclaim_from(tree: QueueTree, wanted: Demand, victim_queue: WQueue) -> bool:
    """True if work of ``victim_queue`` can be a victim at all, which is checked before any search. A reclaimer beyond its quota can take only
    from a queue beyond its allocatable share. Otherwise the queue must hold more than its quota of a resource that is wanted. If it holds
    exactly its quota of all of them, the search decides."""
    mine, theirs = tree.diverging_ancestors(wanted.queue, victim_queue)
    if not mine.within_quota_with(wanted.amounts):
        return any(theirs.allocated[r] > theirs.allocatable[r] for r in RESOURCES)
    below = False
    for r in RESOURCES:
        # Skip resources that the job does not request, and those of which the other queue has an unlimited quota.
        if wanted.amounts[r] <= 0 or theirs.quota[r] == inf:
            continue
        if theirs.allocated[r] > theirs.quota[r]:
            return True
        if theirs.allocated[r] < theirs.quota[r]:
            below = True
    return not below


def above_allocatable(theirs: WQueue, left: Sequence[int]) -> bool:
    """True if ``left``, what the victim's queue holds before the next victim is taken, exceeds its allocatable share in some
    resource. ``theirs``: the ancestor of the victim's queue that is compared.
    """
    return _beyond(left, theirs.allocatable) is not None


def owed_quota(held: Sequence[int], wanted: Amounts, mine: WQueue, theirs: WQueue, left: Sequence[int]) -> bool:
    """True if the reclaimer stays within its quota in every resource and the victim's queue exceeds its own in some."""
    if any(held[r] + wanted[r] > mine.quota[r] for r in RESOURCES):
        return False
    return _beyond(left, theirs.quota) is not None


def _beyond(held: Sequence[int], bounds: Sequence[float]) -> int | None:
    """The first resource, GPUs first, of which more is held than the bound, or None."""
    return next((r for r in (GPU, CPU, MEMORY) if held[r] > bounds[r]), None)


def reclaimers(tree: QueueTree, name: str) -> tuple[Reclaimer, ...]:
    """Queues that could reclaim from a queue or its ancestors as things stand: those that could still ask within their
    quota, and those beyond it that wait below their fair share.
    """
    queue = tree.queues.get(name)
    result: list[Reclaimer] = []
    for theirs in queue.path if queue is not None else ():
        if not any(theirs.allocated[r] > min(theirs.quota[r], theirs.allocatable[r]) for r in RESOURCES):
            continue  # no rule takes anything from it
        beside = tree.roots if theirs.parent is None else theirs.parent.children
        for mine in sorted(beside, key=lambda queue: queue.name):
            if mine is not theirs and (reclaimer := _reclaimer(tree, mine, theirs)) is not None:
                result.append(reclaimer)
    return tuple(result)


def _reclaimer(tree: QueueTree, mine: WQueue, theirs: WQueue) -> Reclaimer | None:
    waits = [r for r in RESOURCES if mine.request[r] > mine.allocated[r]]
    reclaimer = None
    if theirs.allocated[GPU]:
        # A queue that holds too much of a single resource may lose GPUs to work that requests that resource too.
        reclaimer = _reclaimer_of(tree, mine, theirs, GPU, ()) or _reclaimer_of(tree, mine, theirs, GPU, waits)
    for r in (CPU, MEMORY):
        # Every queue could ask for CPU, so only queues that do are reported, and only if GPUs are not the issue.
        if reclaimer is None and r in waits and not (GPU in waits and theirs.allocated[GPU]):
            reclaimer = _reclaimer_of(tree, mine, theirs, r, waits)
    return reclaimer


def _reclaimer_of(tree: QueueTree, mine: WQueue, theirs: WQueue, r: int, beside: Sequence[int]) -> Reclaimer | None:
    """The reclaimer whose claim is on resource ``r``, and on the smallest amount of each resource in ``beside``."""
    held = mine.allocated[r]
    unused = min(mine.quota[r], mine.limit[r], max(tree.totals[r], held + 1)) - held
    if unused >= 1:
        # The fair share is at least the smaller of quota and request, so only the quota is checked.
        wanted = _demand_of(mine, r, int(unused), beside)
        if can_reclaim_from(tree, wanted, theirs) and owed_quota(
            mine.allocated, wanted.amounts, mine, theirs, theirs.allocated
        ):
            amount = -1 if mine.quota[r] == inf else int(unused)
            return Reclaimer(queue=mine.name, beside=theirs.name, rule="quota", amount=amount, resource=NAMES[r])
    due = int(min(mine.fair[r], mine.request[r]) - held)
    if due < 1:
        return None
    wanted = _demand_of(mine, r, due, beside)
    if (
        stays_within_share(wanted)
        and can_reclaim_from(tree, wanted, theirs)
        and above_allocatable(theirs, theirs.allocated)
    ):
        return Reclaimer(queue=mine.name, beside=theirs.name, rule="fair share", amount=due, resource=NAMES[r])
    return None


def _demand_of(queue: WQueue, r: int, amount: int, beside: Sequence[int]) -> Demand:
    cpu, memory, gpus = (amount if each == r else int(each in beside) for each in RESOURCES)
    return Demand(queue, (cpu, memory, gpus), frozenset((r, *beside)), preemptible=True)


class QueueBalances:
    """What queues held before the search began. Every set of victims is compared with these amounts."""

    def __init__(self, tree: QueueTree) -> None:
        self.tree = tree
        self.allocated = {queue: tuple(queue.allocated) for queue in tree.queues.values()}
        self.non_preemptible = {queue: tuple(queue.non_preemptible) for queue in tree.queues.values()}

    def is_reclaimable(
        self, wanted: Demand, reclaimed: dict[WQueue, list[ReclaimedAmounts]], multiplier: float
    ) -> bool:
        """True if the reclaimer may take these amounts from these queues. Source: KAI's Reclaimable."""
        remaining: dict[WQueue, list[int]] = {}
        resources: dict[WQueue, frozenset[int]] = {}
        for queue, given in reclaimed.items():
            mine, theirs = self.tree.diverging_ancestors(wanted.queue, queue)
            names = frozenset[int]().union(*(unit.involved for unit in given))
            resources[queue] = names
            left = remaining.setdefault(theirs, list(self.allocated[theirs]))
            # Each unit is compared with what the units before it have left.
            for unit in given:
                if not (above_allocatable(theirs, left) or self._owed(wanted, mine, theirs, left)):
                    return False
                # The amounts are gone from all ancestors too, so later victims are compared with what is left there.
                for level in queue.path:
                    held = remaining.setdefault(level, list(self.allocated[level]))
                    for r in RESOURCES:
                        held[r] -= unit.amounts[r]
                    resources[level] = resources.get(level, frozenset()) | names
        return self._keeps_saturation_and_quota(wanted, remaining, resources, multiplier)

    def refuses_loss(self, wanted: Demand, theirs: WQueue, lost: Sequence[int], unit: Sequence[int]) -> bool:
        """True if ``is_reclaimable`` refuses every set of victims that takes at least ``lost`` from the diverging ancestor ``theirs``, in units of at most
        ``unit``. Before the last unit is taken, the queue holds at most what it holds now less ``lost`` plus ``unit``; if that is within its
        bounds, the last unit is refused.
        """
        if not any(lost):
            return False
        mine, _ = self.tree.diverging_ancestors(wanted.queue, theirs)
        left = [self.allocated[theirs][r] - lost[r] + unit[r] for r in RESOURCES]
        return not (above_allocatable(theirs, left) or self._owed(wanted, mine, theirs, left))

    def ground(self, reclaimer: WQueue, victims: WQueue) -> EvictionGround:
        """The rule by which ``is_reclaimable`` accepted the first victim of the queue ``victims``. In the result, ``before`` is what that queue
        held before the search, and ``after`` what it holds now."""
        mine, theirs = self.tree.diverging_ancestors(reclaimer, victims)
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

    def _keeps_saturation_and_quota(
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
                    their_ratio = _saturation(left[r], sibling.fair[r])
                    # Only a queue above the reclaimer's own can be beyond its fair share here. It must stay the less
                    # saturated of the two, or the next cycle would take the same back (KAI: reclaimable.go).
                    if ratio > 1 and sibling.fair[r] > 0 and ratio * multiplier >= their_ratio:
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
