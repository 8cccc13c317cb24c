"""What keeps work from taking what it has a claim on: its own delay, and protection or preemptibility of those that hold it.

Each is taken away in the engine, alone and then together: it is a cause where it lets the work have others evicted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kailab.engine.decisions import PendingCode as Reason
from kailab.engine.relaxing.relaxed_cycles import RelaxedCycleOutcome, RelaxedCycles
from kailab.engine.relaxing.rules import DelayGone, OthersPreemptible, QueuesUnprotected, Relaxation
from kailab.engine.report.eviction_blockers import Holder
from kailab.engine.snapshot.amounts import number
from kailab.explain.cause import Cause, Code
from kailab.explain.causes.case import Case
from kailab.explain.causes.queue_limits import tight_rules
from kailab.explain.causes.queue_words import end, podgroup_ref, queue_ref, quota_words, share, workload_titles
from kailab.lab.wording import amount_text

_ROOM = (Reason.POD_SCHEDULING_ERRORS, Reason.PREEMPTION_DELAY, Reason.UNSCHEDULABLE)


def stands_still(trials: RelaxedCycles) -> bool:
    """It gets nothing even at its own turn, and no queue rule refuses it: room is what it lacks, or a claim on that of others."""
    outcome = trials()
    return not outcome.further and any(one.code in _ROOM for one in outcome.pending) and not tight_rules(trials)


def context(trials: RelaxedCycles) -> tuple[Relaxation, ...]:
    """Taken away before claims are looked at: its own delay, where it has one now."""
    delayed = any(one.code == Reason.PREEMPTION_DELAY for one in trials().pending)
    return (DelayGone(),) if delayed else ()


def delayed(case: Case) -> Iterable[Cause]:
    """It may have others evicted only later."""
    trials, record = case.trials, case.record
    if trials is None or record is None or not context(trials) or not trials(DelayGone()).further:
        return
    until = next(one.numbers["until"] for one in trials().pending if one.code == Reason.PREEMPTION_DELAY)
    victims = victims_of(trials(DelayGone()))
    whom = f"; then {workload_titles(case, victims)} would make room" if victims else ""
    yield Cause(
        Code.PREEMPTION_DELAY,
        f"There is no free room for it, and by its preemption delay of {number(record.preemption_delay)} s it may not have others "
        f"evicted {end(case, until)}{whom}.",
        (podgroup_ref(case, record.uid),),
        {"until": until, "delay": record.preemption_delay},
    )


def victims(case: Case) -> Iterable[Cause]:
    """Those that hold what it has a claim on are protected, or not preemptible, or some the one and some the other."""
    trials, record = case.trials, case.record
    if trials is None or record is None:
        return
    tight = tight_rules(trials)
    # Where those that would go are of its own queue, their going makes room below a limit too.
    if trials(DelayGone(), *(one.lifted() for one in tight)).further if tight else not stands_still(trials):
        return
    before = context(trials)
    if before and trials(*before).further:
        return
    for changes in ((QueuesUnprotected(),), (OthersPreemptible(),), (QueuesUnprotected(), OthersPreemptible())):
        outcome = trials(*before, *changes)
        taken = victims_of(outcome)
        if not taken:
            continue
        holders = {one.podgroup: one for one in _holders(trials, record.uid)}
        kept = [holders[uid] for uid in taken if uid in holders]
        protected = [one for one in kept if one.until is not None]
        firm = [one for one in kept if not case.standing.records[one.podgroup].preemptible]
        if protected and QueuesUnprotected() in changes:
            yield _protected(case, outcome, protected)
        if firm and OthersPreemptible() in changes:
            yield _firm(case, outcome, firm)
        return


def victims_of(outcome: RelaxedCycleOutcome) -> list[str]:
    """PodGroups (UIDs) that go for it, not only to be placed elsewhere."""
    if not outcome.further:
        return []
    return list(dict.fromkeys(one.podgroup for one in outcome.evictions if one.action in ("reclaim", "preempt")))


def _holders(trials: RelaxedCycles, podgroup: str) -> Sequence[Holder]:
    reach = trials.reach(podgroup)
    return () if reach is None else reach.holders


def _protected(case: Case, outcome: RelaxedCycleOutcome, holders: Sequence[Holder]) -> Cause:
    ends = sorted(one.until for one in holders if one.until is not None)
    last = ends[-1]
    names = [one.podgroup for one in holders]
    until = end(case, ends[0]) if ends[0] == last else f"{end(case, ends[0])}, the last {end(case, last)}"
    return Cause(
        Code.VICTIMS_PROTECTED,
        f"It has a claim on what {_held_by(case, outcome, holders)}, but what would be evicted for it "
        f"({workload_titles(case, names)}) is protected by a minimum runtime {until}.",
        (*(queue_ref(name) for name in _queues(holders)), *(podgroup_ref(case, uid) for uid in names)),
        {"queues": _queues(holders), "until": last, "first": ends[0]},
    )


def _firm(case: Case, outcome: RelaxedCycleOutcome, holders: Sequence[Holder]) -> Cause:
    names = [one.podgroup for one in holders]
    return Cause(
        Code.VICTIMS_NON_PREEMPTIBLE,
        f"It has a claim on what {_held_by(case, outcome, holders)}, but what would be evicted for it "
        f"({workload_titles(case, names)}) is non-preemptible: nobody may take it.",
        (*(queue_ref(name) for name in _queues(holders)), *(podgroup_ref(case, uid) for uid in names)),
        {"queues": _queues(holders)},
    )


def _queues(holders: Sequence[Holder]) -> list[str]:
    return sorted({one.beside for one in holders})


def _held_by(case: Case, outcome: RelaxedCycleOutcome, holders: Sequence[Holder]) -> str:
    """``queue team-a holds beyond its quota (12 GPUs of 8 GPUs)``; of its own queue by priority."""
    found: list[str] = []
    for name in _queues(holders):
        same = [one for one in holders if one.beside == name]
        if any(one.queue == case.queue for one in same):
            found.append(f"work of lower priority in its own queue {name} holds")
            continue
        ground = next(
            (one.ground for one in outcome.evictions if one.ground is not None and one.ground.queue == name), None
        )
        resource = "gpu" if ground is None or ground.resource is None else ground.resource.lower()
        state = share(outcome.decisions, name, resource)
        rule = "quota" if ground is None or ground.rule not in ("fair share", "quota") else ground.rule
        bounds = quota_words(resource, state.quota)
        if rule == "fair share":
            bounds += f" and a fair share of {amount_text(resource, state.fair_share)}"
        bound = state.fair_share if rule == "fair share" else state.quota
        # It may be another resource, or a queue below this one, that holds too much.
        beyond = f" beyond its {rule}" if 0 <= bound < state.allocated else ""
        found.append(f"queue {name} holds{beyond} ({amount_text(resource, state.allocated)}, with {bounds})")
    return " and ".join(found)
