"""Work without a claim on what others hold: its queue, or one above, has its quota and fair share, or the others hold only theirs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from kailab.engine.decisions import QueueShare
from kailab.engine.relaxing.relaxed_cycles import RelaxedCycles
from kailab.engine.relaxing.rules import (
    HoldingsGone,
    OthersPreemptible,
    QueueField,
    QueuesUnprotected,
    QuotasRaised,
    QuotasTaken,
    Relaxation,
    WeightsGiven,
)
from kailab.engine.report.eviction_blockers import EvictionBlocker, Holder, ReachableCapacity
from kailab.engine.snapshot.records import UNLIMITED
from kailab.explain.causes.queue_limits import demand_text, queue_ref, queue_share, queue_title, quota_words
from kailab.explain.causes.queue_order import (
    find_blocked_victims,
    find_work_in_front,
    lacks_room_or_claim,
    without_own_delay,
)
from kailab.explain.causes.waiting_group import WaitingPodGroup
from kailab.lab.answer import Cause, CauseCode
from kailab.lab.wording import amount_text, capitalized, some


def find_share_limits(group: WaitingPodGroup) -> Iterable[Cause]:
    """Its queue has reached its share, or the other queues may keep what they hold. One cause at most."""
    trials, record = group.trials, group.record
    if trials is None or record is None or not lacks_room_or_claim(trials):
        return
    before = without_own_delay(trials)
    if before and trials(*before).further:
        return
    reach = trials.reach(record.uid)
    if reach is None or not reach.lacks() or any(find_blocked_victims(group)) or any(find_work_in_front(group)):
        return
    lacking = cast(QueueField, reach.lacks()[0])
    others = _of_others(reach, record.queue, lacking)
    if not others:
        return
    if all(holder.keeps == EvictionBlocker.SHARE for holder in others):
        shared = _share_reached(group, trials, reach, lacking, before)
        if shared is not None:
            yield shared
        return
    cause = _within_quota(group, trials, reach, lacking, before)
    if cause is not None:
        yield cause


def _of_others(reach: ReachableCapacity, queue: str, resource: str) -> list[Holder]:
    """Holders of a resource in other queues, on nodes where the work may run."""
    return [
        holder for holder in reach.holders if holder.queue not in ("", queue) and getattr(holder.held, resource) > 0
    ]


def _would_be_enough(
    trials: RelaxedCycles, queue: str, others: Iterable[Holder], before: tuple[Relaxation, ...]
) -> bool:
    """Whether it would get something if all that the others hold were free, and its quota let it take that. This says as much as a search for
    victims without any protection, which takes a second for a gang of 256 GPUs."""
    own = tuple(level.name for level in trials.draft().way(queue))
    holders = tuple(sorted({holder.podgroup for holder in others}))
    return trials(*before, QuotasRaised(own), HoldingsGone(holders)).further


def _quotas_of_others(trials: RelaxedCycles, queue: str) -> QuotasTaken:
    own = {level.name for level in trials.draft().way(queue)}
    return QuotasTaken(tuple(other.name for other in trials.snapshot.queues if other.name not in own))


def _share_reached(
    group: WaitingPodGroup,
    trials: RelaxedCycles,
    reach: ReachableCapacity,
    lacking: QueueField,
    before: tuple[Relaxation, ...],
) -> Cause | None:
    """None if all that the others hold would not be enough."""
    others = _of_others(reach, group.queue, lacking)
    contested = {holder.level for holder in others}
    levels = [
        (queue, cast(QueueField, lacking if lacking in names else names[0]))
        for queue, names in reach.beyond
        if queue in contested or queue == group.queue
    ]
    for queue, resource in levels:
        if (
            trials.weight(queue, resource) == 0
            and _would_be_enough(trials, group.queue, others, before)
            and _lacks_weight(group, trials, queue, resource, before)
        ):
            state = queue_share(trials().decisions, queue, resource)
            if state.allocated + getattr(reach.wanted, resource) > state.quota:
                return _no_weight(group, trials, queue, resource, reach)
        if trials(*before, QuotasRaised((queue,), (resource,))).further:
            return _fair_share(group, trials, queue, resource, reach)
    if not _would_be_enough(trials, group.queue, others, before):
        return None
    queue, resource = next((level for level in levels if level[0] in contested), levels[0])
    return _fair_share(group, trials, queue, resource, reach)


def _lacks_weight(
    group: WaitingPodGroup, trials: RelaxedCycles, queue: str, resource: QueueField, before: tuple[Relaxation, ...]
) -> bool:
    """Whether an over-quota weight would let it run, or would give it a larger share where larger quotas alone would not let it run."""
    with_weight = trials(*before, WeightsGiven((queue,), (resource,)))
    if with_weight.further:
        return True
    have = queue_share(trials().decisions, queue, resource).fair_share
    if queue_share(with_weight.decisions, queue, resource).fair_share <= have:
        return False
    # Its share is a part of the shares above it, so all levels are relaxed.
    line = tuple(level.name for level in trials.draft().way(group.queue))
    return (
        trials(*before, WeightsGiven(line, (resource,))).further
        or not trials(*before, QuotasRaised(line, (resource,))).further
    )


def _no_weight(
    group: WaitingPodGroup, trials: RelaxedCycles, queue: str, resource: QueueField, reach: ReachableCapacity
) -> Cause:
    state = queue_share(trials().decisions, queue, resource)
    return Cause(
        CauseCode.NO_WEIGHT,
        capitalized(
            f"{queue_title(group, queue)} has its quota of {amount_text(resource, state.quota)}, of which it holds "
            f"{amount_text(resource, state.allocated)}, and gets nothing beyond it because its over-quota weight is 0; "
            f"{_wants(group, reach, resource)} more."
        ),
        (queue_ref(queue),),
        _facts(queue, resource, state.quota, state.allocated, state.fair_share),
    )


def _fair_share(
    group: WaitingPodGroup, trials: RelaxedCycles, queue: str, resource: QueueField, reach: ReachableCapacity
) -> Cause:
    state = queue_share(trials().decisions, queue, resource)
    return Cause(
        CauseCode.FAIR_SHARE_REACHED,
        capitalized(
            f"{queue_title(group, queue)} holds {amount_text(resource, state.allocated)} and has a claim on "
            f"{_claim(resource, state)}. {capitalized(_wants(group, reach, resource))} more, and "
            f"{_others_words(trials, reach, queue, resource)}"
        ),
        (queue_ref(queue),),
        _facts(queue, resource, state.quota, state.allocated, state.fair_share),
    )


def _within_quota(
    group: WaitingPodGroup,
    trials: RelaxedCycles,
    reach: ReachableCapacity,
    resource: QueueField,
    before: tuple[Relaxation, ...],
) -> Cause | None:
    """None if it would not run even without the others' quotas, because what they hold is on other nodes or fragmented."""
    others = [holder for holder in _of_others(reach, group.queue, resource) if holder.keeps != EvictionBlocker.SHARE]
    beside = sorted({holder.beside for holder in others})
    bounded = [name for name in beside if queue_share(trials().decisions, name, resource).quota != UNLIMITED]
    if not beside or (resource != "gpu" and not bounded):
        return None
    taken = _quotas_of_others(trials, group.queue)
    if not any(
        trials(*before, taken, *more).further
        for more in ((), (OthersPreemptible(),), (OthersPreemptible(), QueuesUnprotected()))
    ):
        return None
    level = others[0].level
    state = queue_share(trials().decisions, level, resource)
    held = _holdings(trials, beside, resource)
    due = quota_words(resource, state.quota)
    if state.quota != UNLIMITED and state.allocated >= state.quota:
        due = f"a fair share of {amount_text(resource, state.fair_share)}"
    return Cause(
        CauseCode.VICTIMS_WITHIN_QUOTA,
        capitalized(
            f"{queue_title(group, level)} is owed more, holding {amount_text(resource, state.allocated)} with "
            f"{due}, and {_wants(group, reach, resource)}; but {_kept_by_quotas(trials, reach, beside, resource)}: {held}."
        ),
        (queue_ref(level), *map(queue_ref, beside)),
        {**_facts(level, resource, state.quota, state.allocated, state.fair_share), "others": beside},
    )


def _kept_by_quotas(
    trials: RelaxedCycles, reach: ReachableCapacity, beside: Sequence[str], resource: QueueField
) -> str:
    """How quotas protect what others hold, as far as the numbers in the sentence show it."""
    over = sum(max(0, _held_over(trials, name, resource)) for name in beside)
    lacking = getattr(reach.wanted, resource) - getattr(reach.free, resource) - getattr(reach.leaving, resource)
    if not over:
        return "none of the others holds more than its own quota"
    if over < lacking:
        return "the others hold too little beyond their own quota"
    return "what the others hold beyond their own quota can't be freed so that it fits while they keep their quotas"


def _held_over(trials: RelaxedCycles, queue: str, resource: QueueField) -> float:
    state = queue_share(trials().decisions, queue, resource)
    return 0 if state.quota == UNLIMITED else state.allocated - state.quota


def _claim(resource: QueueField, state: QueueShare) -> str:
    """``4 GPUs: its quota of 2 GPUs and its part of what is beyond quotas``."""
    quota = f"its quota of {amount_text(resource, state.quota)}"
    if state.fair_share < state.quota:
        return quota
    return f"{amount_text(resource, state.fair_share)}: {quota} and its part of what is beyond quotas"


def _others_words(trials: RelaxedCycles, reach: ReachableCapacity, queue: str, resource: QueueField) -> str:
    beside = sorted({holder.beside for holder in reach.holders if holder.level == queue and holder.beside != queue})
    if not beside:
        return "there is nothing that it could reclaim."
    states = [queue_share(trials().decisions, name, resource) for name in beside]
    theirs = all(state.quota == UNLIMITED or state.allocated <= max(state.quota, state.fair_share) for state in states)
    # A queue beyond its share could be reclaimed from, but not by one that would exceed its own.
    begin = (
        "there is nothing that it could reclaim. The others have theirs"
        if theirs
        else "beyond its claim it may take nothing back. Beside it"
    )
    return f"{begin}: {_holdings(trials, beside, resource)}."


def _holdings(trials: RelaxedCycles, queues: Sequence[str], resource: QueueField) -> str:
    """``team-a holds 12 GPUs with a quota of 12 GPUs``, the largest first."""
    states = {name: queue_share(trials().decisions, name, resource) for name in queues}
    order = sorted(queues, key=lambda name: (-states[name].allocated, name))
    return some(
        [
            f"{name} holds {amount_text(resource, states[name].allocated)} with {_due(resource, states[name])}"
            for name in order
        ]
    )


def _due(resource: QueueField, state: QueueShare) -> str:
    """The quota, and the fair share if that is why the queue may hold more."""
    quota = quota_words(resource, state.quota)
    if state.quota == UNLIMITED or not state.quota < state.allocated <= state.fair_share:
        return quota
    return f"{quota} and a fair share of {amount_text(resource, state.fair_share)}"


def _wants(group: WaitingPodGroup, reach: ReachableCapacity, resource: QueueField) -> str:
    return demand_text(group, amount_text(resource, getattr(reach.wanted, resource)))


def _facts(queue: str, resource: str, quota: float, held: float, fair: float) -> dict[str, object]:
    return {"queue": queue, "resource": resource, "quota": quota, "held": held, "fairShare": fair}
