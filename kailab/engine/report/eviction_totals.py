"""The totals of evictions for one beneficiary, reported with each of these evictions.

KAI takes whole units (a surplus pod, else a whole gang), evicts every unit of the set in its simulation, and then
repacks the victims that still find a place. So a job of one node can move a gang of many nodes; ``max_taken_ratio``
bounds that.
"""

from __future__ import annotations

from msgspec import structs

from kailab.engine.decisions import Action, Decisions, Evict, EvictionTotals, HeldAmounts
from kailab.engine.policies.taken_ratio import counting
from kailab.engine.queueing.order import tasks_to_allocate
from kailab.engine.session import Session
from kailab.engine.snapshot.amounts import quantity_text
from kailab.engine.working.queues import Amounts


def with_eviction_totals(session: Session, decisions: Decisions) -> Decisions:
    """The decisions of an open session, with the totals added to each eviction and its message."""
    if not decisions.evictions:
        return decisions
    together: dict[tuple[str, Action], list[Evict]] = {}
    for evict in decisions.evictions:
        # By the final beneficiary, which may have taken over another's victims.
        together.setdefault((evict.beneficiary, evict.action), []).append(evict)
    moved = {pipeline.task for pipeline in decisions.pipelines if pipeline.moved}
    # Evictions of stale gangs have no beneficiary to compare with.
    totals = {
        key: _totals(session, decisions, key[0], evictions, moved) for key, evictions in together.items() if key[0]
    }
    evictions = []
    for evict in decisions.evictions:
        total = totals.get((evict.beneficiary, evict.action))
        if total is not None:
            evict = structs.replace(evict, taking=total, message=f"{evict.message}; {totals_text(total)}")
        evictions.append(evict)
    return structs.replace(decisions, evictions=tuple(evictions))


def _totals(
    session: Session, decisions: Decisions, beneficiary: str, evictions: list[Evict], moved: set[str]
) -> EvictionTotals:
    tasks = session.working.tasks
    promised = [
        tasks[pipeline.task]
        for pipeline in decisions.pipelines
        if pipeline.podgroup == beneficiary and not pipeline.moved
    ]
    # A later action may have taken the promise; then the job's next request stands for it.
    asked = session.wants(promised or tasks_to_allocate(session.jobs[beneficiary]), session.table.min_gpu_memory)
    lost, elsewhere = [0, 0, 0], [0, 0, 0]
    for evict in evictions:
        into = elsewhere if evict.task in moved else lost
        held = evict.amounts
        for r, amount in enumerate((held.cpu, held.memory, held.gpu)):
            into[r] += amount
    pods_moved = sum(1 for evict in evictions if evict.task in moved)
    return EvictionTotals(
        asked=_held(asked),
        lost=_held((lost[0], lost[1], lost[2])),
        moved=_held((elsewhere[0], elsewhere[1], elsewhere[2])),
        pods_lost=len(evictions) - pods_moved,
        pods_moved=pods_moved,
    )


def _held(amounts: Amounts) -> HeldAmounts:
    return HeldAmounts(gpu=amounts[2], cpu=amounts[0], memory=amounts[1])


def totals_text(taking: EvictionTotals) -> str:
    """A text such as ``asked: 8 GPU; taken: 93 GPU (93 pods, all of them only moved)``."""
    asked, lost, moved = taking.asked, taking.lost, taking.moved
    taken = (lost.cpu + moved.cpu, lost.memory + moved.memory, lost.gpu + moved.gpu)
    resources = counting((asked.cpu, asked.memory, asked.gpu))
    pods = taking.pods_lost + taking.pods_moved
    pods_text = "1 pod" if pods == 1 else f"{pods} pods"
    if taking.pods_moved:
        moved_pods = f"{taking.pods_moved} of them" if taking.pods_lost else "all of them" if pods > 1 else "it is"
        pods_text += f", {moved_pods} only moved"
    return (
        f"asked: {_amounts_text((asked.cpu, asked.memory, asked.gpu), resources)}; "
        f"taken: {_amounts_text(taken, resources)} ({pods_text})"
    )


def _amounts_text(amounts: Amounts, resources: tuple[int, ...]) -> str:
    return " and ".join(quantity_text(r, amounts[r]) for r in resources)
