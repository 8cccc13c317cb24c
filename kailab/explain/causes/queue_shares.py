"""Work without a claim on what others hold: its queue, or one above, has its quota and fair share, or the others hold only theirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, cast

from kailab.engine.decisions import QueueShare
from kailab.engine.relaxing.queue_rules import refusing_rules
from kailab.engine.relaxing.relaxed_cycles import RelaxedCycles
from kailab.engine.relaxing.rules import (
    FIELDS,
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
from kailab.evidence.wording import amount_text, capitalized, some
from kailab.explain.causes.queue_limits import PodsTogether, QueueBoundRefusal, queue_ref, quota_words
from kailab.explain.causes.queue_order import (
    find_blocked_victims,
    find_work_in_front,
    has_room_on_closed_nodes,
    lacks_room_or_claim,
    without_own_delay,
)
from kailab.explain.causes.refusal import Refusal
from kailab.explain.causes.waiting_group import WaitingPodGroup
from kailab.lab.answer import CauseCode


class Holding(NamedTuple):
    """What another queue holds of a resource, with what it may hold."""

    queue: str
    held: int
    quota: int
    fair_share: float

    @property
    def beyond(self) -> int:
        """What it holds beyond its quota."""
        return 0 if self.quota == UNLIMITED else max(0, self.held - self.quota)

    def text(self, resource: str) -> str:
        """``team-a holds 12 GPUs with a quota of 8 GPUs``, with the fair share if that is why it may hold more."""
        due = quota_words(resource, self.quota)
        if self.beyond and self.held <= self.fair_share:
            due += f" and a fair share of {amount_text(resource, self.fair_share)}"
        return f"{self.queue} holds {amount_text(resource, self.held)} with {due}"


@dataclass(frozen=True, kw_only=True)
class ShareRefusal(QueueBoundRefusal):
    """A comparison of a queue with what it has a claim on. ``holdings``: the queues beside it that hold the rest, the largest first."""

    FACTS: ClassVar[tuple[str, ...]] = ("queue", "resource", "quota", "held", "fair_share")
    quota: int
    fair_share: float
    holdings: tuple[Holding, ...] = ()

    @property
    def is_claim_exceeded(self) -> bool:
        """Whether the queue would hold more than its quota and its fair share."""
        return self.quota != UNLIMITED and self.held + self.wanted > max(self.quota, self.fair_share)

    @property
    def holdings_text(self) -> str:
        return some([holding.text(self.resource) for holding in self.holdings])

    def lifted(self) -> tuple[Relaxation, ...]:
        return (QuotasRaised((self.queue,), (self.resource,)),)


@dataclass(frozen=True, kw_only=True)
class FairShareReached(ShareRefusal):
    """The queue would hold more than its quota and its fair share, so it may take nothing back from the others."""

    code: CauseCode = CauseCode.FAIR_SHARE_REACHED

    @property
    def holds(self) -> bool:
        return self.is_claim_exceeded

    @property
    def sentence(self) -> str:
        claim = f"its quota of {self.text(self.quota)}"
        if self.fair_share >= self.quota:
            claim = f"{self.text(self.fair_share)}: {claim} and its part of what is beyond quotas"
        return capitalized(
            f"{self.title} holds {self.text(self.held)} and has a claim on {claim}. {capitalized(self.wants)} more, and {self._others}."
        )

    @property
    def _others(self) -> str:
        if not self.holdings:
            return "there is nothing that it could reclaim"
        theirs = all(
            holding.held <= max(holding.quota, holding.fair_share) or holding.quota == UNLIMITED
            for holding in self.holdings
        )
        # A queue beyond its share could be reclaimed from, but not by one that would exceed its own.
        begin = (
            "there is nothing that it could reclaim. The others have theirs"
            if theirs
            else "beyond its claim it may take nothing back. Beside it"
        )
        return f"{begin}: {self.holdings_text}"


@dataclass(frozen=True, kw_only=True)
class NoWeight(ShareRefusal):
    """The queue has its quota, and gets nothing beyond it because its over-quota weight is 0."""

    code: CauseCode = CauseCode.NO_WEIGHT

    @property
    def holds(self) -> bool:
        return 0 <= self.quota < self.held + self.wanted

    @property
    def sentence(self) -> str:
        return capitalized(
            f"{self.title} has its quota of {self.text(self.quota)}, of which it holds {self.text(self.held)}, and gets nothing beyond it "
            f"because its over-quota weight is 0; {self.wants} more."
        )

    def lifted(self) -> tuple[Relaxation, ...]:
        return (WeightsGiven((self.queue,), (self.resource,)),)


@dataclass(frozen=True, kw_only=True)
class VictimsWithinQuota(ShareRefusal):
    """The queue is owed more, and the queues beside it hold too little that they may not keep. ``free``: what is free now, or will be once
    leaving pods are gone."""

    code: CauseCode = CauseCode.VICTIMS_WITHIN_QUOTA
    free: int

    @property
    def holds(self) -> bool:
        return bool(self.holdings) and (self.quota == UNLIMITED or self.held < max(self.quota, self.fair_share))

    @property
    def sentence(self) -> str:
        due = quota_words(self.resource, self.quota)
        if self.quota != UNLIMITED and self.held >= self.quota:
            due = f"a fair share of {self.text(self.fair_share)}"
        return capitalized(
            f"{self.title} is owed more, holding {self.text(self.held)} with {due}, and {self.wants}; but {self._kept}: {self.holdings_text}."
        )

    @property
    def _kept(self) -> str:
        """How quotas protect what the others hold, as far as the numbers show it."""
        beyond = sum(holding.beyond for holding in self.holdings)
        if not beyond:
            return "none of the others holds more than its own quota"
        if beyond < self.wanted - self.free:
            return "the others hold too little beyond their own quota"
        return "what the others hold beyond their own quota can't be freed so that it fits while they keep their quotas"

    @property
    def facts(self) -> Mapping[str, Any]:
        return {**super().facts, "others": sorted(holding.queue for holding in self.holdings)}

    def lifted(self) -> tuple[Relaxation, ...]:
        return (QuotasTaken(tuple(holding.queue for holding in self.holdings)),)


def find_share_limits(group: WaitingPodGroup) -> Iterable[Refusal]:
    """Its queue has reached its share, or the other queues may keep what they hold. One at most."""
    relaxed_cycles, record, facts = group.relaxed_cycles, group.record, group.node_facts
    if relaxed_cycles is None or record is None or facts is None or not lacks_room_or_claim(facts):
        return
    before = without_own_delay(relaxed_cycles)
    if before and relaxed_cycles(*before).further:
        return
    reach = relaxed_cycles.reach(record.uid)
    if reach is None or not reach.lacks() or any(find_blocked_victims(group)) or any(find_work_in_front(group)):
        return
    lacking = cast(QueueField, reach.lacks()[0])
    others = [
        holder
        for holder in reach.holders
        if holder.queue not in ("", record.queue) and getattr(holder.held, lacking) > 0
    ]
    if not others:
        return
    shares = _Shares(group, relaxed_cycles, reach, lacking, before, others)
    refusal = (
        shares.reached() if all(holder.keeps == EvictionBlocker.SHARE for holder in others) else shares.within_quotas()
    )
    # Where other rules would have to be lifted with the share, and closed nodes have room of its own, these alone keep it waiting.
    if refusal is not None and not (
        has_room_on_closed_nodes(relaxed_cycles) and not relaxed_cycles(*before, *refusal.lifted()).further
    ):
        yield refusal


def find_claims_behind_limits(group: WaitingPodGroup) -> Iterable[Refusal]:
    """What keeps it from taking back what others hold below a limit that is reached. Taking it back leaves the sum below the limit as it
    is, so this alone lets it run, and a higher limit alone does not."""
    cycles = group.relaxed_cycles
    limits = () if cycles is None else tuple(rule.lifted() for rule in refusing_rules(cycles))
    if cycles is None or not limits or cycles(*limits).further:
        return
    without = replace(group, lifted=limits)
    for find in (find_work_in_front, find_blocked_victims, find_share_limits):
        for refusal in find(without):
            if cycles(*refusal.lifted()).further:
                yield refusal


class _Shares(NamedTuple):
    """``others``: who holds the ``lacking`` resource in other queues, on nodes where the work may run. ``before``: relaxations made in any
    case."""

    group: WaitingPodGroup
    relaxed_cycles: RelaxedCycles
    reach: ReachableCapacity
    lacking: QueueField
    before: tuple[Relaxation, ...]
    others: Sequence[Holder]

    def reached(self) -> ShareRefusal | None:
        """The level whose share keeps it from the others; None if all that these hold would not be enough."""
        contested = {holder.level for holder in self.others}
        levels = [
            (queue, cast(QueueField, self.lacking if self.lacking in names else names[0]))
            for queue, names in self.reach.beyond
            if queue in contested or queue == self.group.queue
        ]
        for queue, resource in levels:
            no_weight = NoWeight(**self._shared(queue, resource))
            if (
                no_weight.holds
                and self.relaxed_cycles.weight(queue, resource) == 0
                and self._would_be_enough()
                and self._lacks_weight(no_weight)
            ):
                return no_weight
            reached = self._fair_share(queue, resource)
            if self.relaxed_cycles(*self.before, *reached.lifted()).further:
                return reached
        if not self._would_be_enough():
            return None
        return self._fair_share(*next((level for level in levels if level[0] in contested), levels[0]))

    def within_quotas(self) -> VictimsWithinQuota | None:
        """None if it would not run even without the others' quotas, because what they hold is on other nodes or fragmented."""
        keeping = [holder for holder in self.others if holder.keeps != EvictionBlocker.SHARE]
        beside = {holder.beside for holder in keeping}
        if not beside or (self.lacking != "gpu" and all(self._share(name).quota == UNLIMITED for name in beside)):
            return None
        if not self._runs_without_quotas():
            return None
        shared = self._shared(keeping[0].level, self.lacking, beside)
        free = getattr(self.reach.free, self.lacking) + getattr(self.reach.leaving, self.lacking)
        return VictimsWithinQuota(
            **{**shared, "objects": (*shared["objects"], *map(queue_ref, sorted(beside)))}, free=free
        )

    def _runs_without_quotas(self) -> bool:
        """Whether it would run if the others had no quotas."""
        if not self._would_be_enough():
            return False
        # It could then take all that they hold, unless it is no quota that keeps it from that.
        if self._is_within_quotas() and any(holder.keeps == EvictionBlocker.QUOTA for holder in self.others):
            return True
        own = self.relaxed_cycles.queue_path
        taken = QuotasTaken(tuple(queue.name for queue in self.relaxed_cycles.snapshot.queues if queue.name not in own))
        return any(
            self.relaxed_cycles(*self.before, taken, *more).further
            for more in ((), (OthersPreemptible(),), (OthersPreemptible(), QueuesUnprotected()))
        )

    def _is_within_quotas(self) -> bool:
        """Whether no queue of its own, at any level, would hold more than its quota of a resource that it wants."""
        return all(
            share.quota == UNLIMITED or share.allocated + wanted <= share.quota
            for queue in self.relaxed_cycles.queue_path
            for resource in FIELDS
            if (wanted := getattr(self.reach.wanted, resource))
            for share in (self._share(queue, resource),)
        )

    def _fair_share(self, queue: str, resource: QueueField) -> FairShareReached:
        beside = {holder.beside for holder in self.reach.holders if holder.level == queue and holder.beside != queue}
        return FairShareReached(**self._shared(queue, resource, beside))

    def _would_be_enough(self) -> bool:
        """Whether it would get something if all that the others hold were free, and its quota let it take that. This says as much as a
        search for victims without any protection, which takes a minute for a gang in one rack."""
        holders = tuple(
            sorted({holder.podgroup for holder in self.reach.holders if holder.queue not in ("", self.group.queue)})
        )
        return self.relaxed_cycles(
            *self.before, QuotasRaised(self.relaxed_cycles.queue_path), HoldingsGone(holders)
        ).further

    def _lacks_weight(self, refusal: NoWeight) -> bool:
        """Whether an over-quota weight would let it run, also with weights above its queue if it gets a larger share by that. Where more than
        weights is in the way, a larger quota takes the place of both, so the share is named."""
        with_weight = self.relaxed_cycles(*self.before, *refusal.lifted())
        if with_weight.further:
            return True
        if with_weight.share(refusal.queue, refusal.resource).fair_share <= refusal.fair_share:
            return False
        # Its share is a part of the shares above it, so all levels are relaxed.
        line = self.relaxed_cycles.queue_path
        return self.relaxed_cycles(*self.before, WeightsGiven(line, (refusal.resource,))).further

    def _share(self, queue: str, resource: QueueField | None = None) -> QueueShare:
        return self.relaxed_cycles().share(queue, resource or self.lacking)

    def _shared(self, queue: str, resource: QueueField, beside: Iterable[str] = ()) -> dict[str, Any]:
        """The fields of a refusal by this queue. ``beside``: the queues that hold the rest."""
        own = self._share(queue, resource)
        shares = {name: self._share(name, resource) for name in beside}
        holdings = tuple(
            Holding(name, shares[name].allocated, shares[name].quota, shares[name].fair_share)
            for name in sorted(shares, key=lambda name: (-shares[name].allocated, name))
        )
        return {
            "queue": queue, "own_queue": self.group.queue, "resource": resource, "held": own.allocated, "quota": own.quota,
            "fair_share": own.fair_share, "wanted": getattr(self.reach.wanted, resource), "pods": PodsTogether.of(self.group),
            "holdings": holdings, "objects": (queue_ref(queue),),
        }  # fmt: skip
