"""Causes in the order of serving: work whose turn comes later, and work that can't take what it has a claim on.

A queue is ranked by the first job of its line. When victims are searched for, the job and its victims are placed again in the order of
their queues, so a large gang at the head of the job's queue puts that queue behind those of the victims, which then get their places back.
Source: KAI's GetJobsToAllocate and its queue order.

Its own delay, and the protection or non-preemptibility of the holders, is a cause if the engine, without it, evicts others for the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

from kailab.engine.decisions import Decisions, ServingPosition
from kailab.engine.decisions import PendingCode as Reason
from kailab.engine.relaxing.queue_rules import refusing_rules
from kailab.engine.relaxing.relaxed_cycles import RelaxedCycleOutcome, RelaxedCycles
from kailab.engine.relaxing.rules import (
    Actions,
    DelayGone,
    NodesOpened,
    OthersPreemptible,
    PromisesForgotten,
    QueuesUnprotected,
    Relaxation,
    WaitingWithdrawn,
)
from kailab.engine.report.eviction_blockers import EvictionBlocker, Holder
from kailab.engine.report.serving import serving_positions as in_turn
from kailab.engine.session import Session
from kailab.engine.snapshot.amounts import format_thousandths, moment_text
from kailab.engine.snapshot.records import Status
from kailab.evidence.wording import amount_text, capitalized, count, gpus, some
from kailab.explain.causes.node_facts import NodeFacts
from kailab.explain.causes.queue_limits import queue_ref, quota_words
from kailab.explain.causes.refusal import INTERNAL, Refusal
from kailab.explain.causes.waiting_group import WaitingPodGroup
from kailab.lab.answer import CauseCode, ObjectRef
from kailab.lab.owners import work_title
from kailab.model.times import format_time


def podgroup_ref(group: WaitingPodGroup, podgroup: str) -> ObjectRef:
    """``podgroup``: a UID."""
    record = group.state.records[podgroup]
    return ObjectRef("PodGroup", record.namespace, record.name)


def workload_title(group: WaitingPodGroup, podgroup: str) -> str:
    """The workload of a PodGroup (UID): ``Deployment api``."""
    record = group.state.records.get(podgroup)
    if record is None:
        return "pods of another scheduler"
    return work_title(group.picture, f"{record.namespace}/{record.name}")


class TurnRule(StrEnum):
    """Why other work gets a place first."""

    TAKEN = "taken"  # its turn comes first, and it gets the place
    PROMISED = "promised"  # others were evicted or moved for it
    RESERVED = "reserved"  # the place is kept free for it
    TURN = "turn"  # its turn comes first


@dataclass(frozen=True, kw_only=True)
class EarlierTurn(Refusal):
    """There is a place on ``nodes``, and other work comes first: ``first``, which may be unknown. ``evicts``: others would be evicted for
    the place. ``kept_from``: when the place begins to be kept, if later. ``depth``: how many jobs of a queue are tried; -1: all."""

    FACTS: ClassVar[tuple[str, ...]] = ("first", "nodes")
    code: CauseCode = CauseCode.BEHIND_OTHERS
    first: tuple[str, ...]
    nodes: tuple[str, ...]
    queue: str
    rule: TurnRule
    evicts: bool
    kept_from: float | None
    depth: int

    @property
    def sentence(self) -> str:
        room = "others would be evicted for it" if self.evicts else f"there would be room for it on {some(self.nodes)}"
        return capitalized(f"{room}, but {self._why}.")

    @property
    def _why(self) -> str:
        who = some(list(dict.fromkeys(self.first)))
        come = "comes" if len(self.first) == 1 else "come"
        match self.rule:
            case TurnRule.PROMISED:
                return f"the place is promised to {who}, for which others were evicted, or which was itself moved for other work"
            case TurnRule.RESERVED:
                since = f" from {moment_text(self.kept_from)} on" if self.kept_from is not None else ""
                return f"it is kept free{since} for {who}, which comes first"
            case TurnRule.TAKEN:
                return f"{who} {come} first and gets the place"
        if not self.first:
            return "others come first"
        tried = (
            f", and the scheduler tries {count(self.depth, 'job')} of each queue in a cycle" if self.depth >= 0 else ""
        )
        return f"{who} of queue {self.queue} {come} first{tried}"


@dataclass(frozen=True, kw_only=True)
class WorkInFront(Refusal):
    """Without the waiting work ``first``, this work would get a place on ``nodes``, for which ``victims`` would be evicted. ``wanted``: what
    each of ``first`` requests, in milli-GPU. ``podgroups``: its PodGroups (UIDs), ``in_front`` their number. ``is_before``: its turn comes
    before that of this work."""

    FACTS: ClassVar[tuple[str, ...]] = ("first", "nodes", "in_front")
    code: CauseCode = CauseCode.BEHIND_OTHERS
    first: tuple[str, ...]
    in_front: int
    wanted: tuple[int, ...]
    queues: tuple[str, ...]
    is_before: bool
    nodes: tuple[str, ...]
    victims: tuple[str, ...]
    podgroups: tuple[str, ...] = field(metadata=INTERNAL)

    @property
    def holds(self) -> bool:
        return bool(self.podgroups and self.nodes)

    @property
    def sentence(self) -> str:
        titles = [
            f"{title} ({gpus(wanted)})" if wanted else title
            for title, wanted in zip(self.first, self.wanted, strict=True)
        ]
        where = f"in queue {self.queues[0]}" if len(self.queues) == 1 else f"in queues {some(self.queues)}"
        line = (
            f"{some(titles)} {'waits' if len(titles) == 1 else 'wait'} {'before it ' if self.is_before else ''}{where}"
        )
        if self.victims:
            return capitalized(
                f"{some(self.victims)} would be evicted for it, but {line}: the scheduler ranks a queue by the first job of its line, so "
                "what is evicted would get its place back before this work has its turn. If "
                f"{self.first[0] if len(self.first) == 1 else f'these {len(self.first)}'} did not wait, this work would get the room."
            )
        return f"There would be room for it on {some(self.nodes)}, but {line}, and the scheduler ranks the queue by that work."

    def lifted(self) -> tuple[Relaxation, ...]:
        return (WaitingWithdrawn(self.podgroups),)


def _until_text(now: float, until: float) -> str:
    """``until 12:00:00 (for another 90 s)``."""
    return f"until {format_time(until)} (for another {max(0.0, until - now):.4g} s)"


@dataclass(frozen=True, kw_only=True)
class OwnDelay(Refusal):
    """The preemption delay of the work has not ended at ``now``; then ``victims`` would make room. Seconds."""

    FACTS: ClassVar[tuple[str, ...]] = ("until", "delay")
    code: CauseCode = CauseCode.PREEMPTION_DELAY
    delay: float
    until: float
    now: float = field(metadata=INTERNAL)
    victims: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return self.now < self.until

    @property
    def sentence(self) -> str:
        whom = f"; then {some(self.victims)} would make room" if self.victims else ""
        return (
            f"There is no free room for it, and its preemption delay of {format_thousandths(self.delay)} s keeps it from evicting other "
            f"work {_until_text(self.now, self.until)}{whom}."
        )

    def lifted(self) -> tuple[Relaxation, ...]:
        return (DelayGone(),)


class QueueClaim(NamedTuple):
    """A claim on what a queue holds. ``own``: it is the queue of the work itself, where priority decides. ``rule``: by which the queue may
    lose what it holds beyond its ``quota`` or ``fair share``."""

    queue: str
    own: bool
    resource: str
    rule: str
    held: int
    quota: int
    fair_share: float

    def text(self) -> str:
        """``queue team-a holds beyond its quota (12 GPUs, with a quota of 8 GPUs)``."""
        if self.own:
            return f"work of lower priority in its own queue {self.queue} holds"
        is_share = self.rule == "fair share"
        bounds = quota_words(self.resource, self.quota)
        if is_share:
            bounds += f" and a fair share of {amount_text(self.resource, self.fair_share)}"
        # Another resource, or a queue below this one, may be the one that exceeds.
        beyond = f" beyond its {self.rule}" if 0 <= (self.fair_share if is_share else self.quota) < self.held else ""
        return f"queue {self.queue} holds{beyond} ({amount_text(self.resource, self.held)}, with {bounds})"


@dataclass(frozen=True, kw_only=True)
class BlockedVictims(Refusal):
    """The work has ``claims`` on what ``queues`` hold, and ``victims`` would be evicted for it if nothing protected them. Without claims they
    would only be moved."""

    FACTS: ClassVar[tuple[str, ...]] = ("queues",)
    queues: tuple[str, ...]
    claims: tuple[QueueClaim, ...]
    victims: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return bool(self.victims)

    def _text(self, why: str) -> str:
        if not self.claims:
            return f"There would be room for it if {some(self.victims)} moved to other nodes, but that is {why}."
        claims = " and ".join(claim.text() for claim in self.claims)
        return f"It has a claim on what {claims}, but what would be evicted for it ({some(self.victims)}) is {why}."


@dataclass(frozen=True, kw_only=True)
class VictimsProtected(BlockedVictims):
    """A minimum runtime protects the victims: one ends at ``first``, the last at ``until``."""

    FACTS: ClassVar[tuple[str, ...]] = ("queues", "until", "first")
    code: CauseCode = CauseCode.VICTIMS_PROTECTED
    first: float
    until: float
    now: float = field(metadata=INTERNAL)

    @property
    def holds(self) -> bool:
        return super().holds and self.now < self.until

    @property
    def sentence(self) -> str:
        last = f", the last {_until_text(self.now, self.until)}" if self.until > self.first else ""
        return self._text(f"protected by a minimum runtime {_until_text(self.now, self.first)}{last}")

    def lifted(self) -> tuple[Relaxation, ...]:
        return (QueuesUnprotected(),)


@dataclass(frozen=True, kw_only=True)
class VictimsNonPreemptible(BlockedVictims):
    """The victims are non-preemptible."""

    code: CauseCode = CauseCode.VICTIMS_NON_PREEMPTIBLE

    @property
    def sentence(self) -> str:
        return self._text(f"non-preemptible: nobody may {'take' if self.claims else 'move'} it")

    def lifted(self) -> tuple[Relaxation, ...]:
        return (OthersPreemptible(),)


def find_earlier_turns(group: WaitingPodGroup) -> Iterable[Refusal]:
    """It would be placed if its turn came first, but is not in the present serving order."""
    if group.relaxed_cycles is None:
        return
    alone = group.relaxed_cycles()
    if not alone.further:
        return
    # Free room alone is enough to see who gets the place, and costs much less than a victim search for everyone.
    everyone = group.relaxed_cycles(Actions(("allocate",)), everyone=True)
    turns: Iterable[ServingPosition] = group.picture.turns.values()
    if everyone.further:
        # It would be first in the next cycle, which begins once a victim has left; until then its ordinary turn counts.
        everyone, turns = (
            group.relaxed_cycles(PromisesForgotten(), Actions(("allocate",)), everyone=True),
            _ordinary(group.relaxed_cycles),
        )
    if everyone.further:
        return  # its turn comes
    first, rule, since = _taking(everyone.decisions, alone), TurnRule.TAKEN, None
    numbers = group.entry.numbers if group.entry is not None and group.entry.reason == Reason.RESERVED else None
    if promised := [uid for uid in first if uid in group.moment.config.promised]:
        first, rule = promised, TurnRule.PROMISED
    elif not first and numbers is not None:
        first, rule, since = [numbers["kept_for"]], TurnRule.RESERVED, numbers["kept_from"]
    elif not first:
        first, rule = _ahead(group, turns), TurnRule.TURN
    yield EarlierTurn(
        first=tuple(workload_title(group, uid) for uid in first),
        nodes=tuple(sorted(alone.nodes)),
        queue=group.queue,
        rule=rule,
        evicts=not alone.binds,
        kept_from=since if since is not None and since > group.moment.now else None,
        depth=group.moment.config.queue_depth.get("allocate", -1),
        objects=(*(podgroup_ref(group, uid) for uid in first), queue_ref(group.queue)),
    )


def _ordinary(relaxed_cycles: RelaxedCycles) -> tuple[ServingPosition, ...]:
    """The serving order without the promises of the last cycle."""
    session = Session(relaxed_cycles.working, relaxed_cycles.config, relaxed_cycles.now)
    try:
        return in_turn(session, ())
    finally:
        session.close()


def _ahead(group: WaitingPodGroup, turns: Iterable[ServingPosition]) -> list[str]:
    """PodGroups (UIDs) of its queue whose turn is earlier. It has no turn itself if the queue depth ends before it."""
    mine = [turn for turn in turns if turn.queue == group.queue]
    uid = "" if group.record is None else group.record.uid
    own = next((turn.place for turn in mine if turn.podgroup == uid), None)
    return [turn.podgroup for turn in mine if own is None or turn.place < own]


def _taking(decisions: Decisions, alone: RelaxedCycleOutcome) -> list[str]:
    """PodGroups (UIDs) that get, or are promised, places on the nodes that it would have used."""
    podgroups = [bind.podgroup for bind in decisions.binds if bind.node in alone.nodes]
    podgroups += [pipeline.podgroup for pipeline in decisions.pipelines if pipeline.node in alone.nodes]
    return [uid for uid in dict.fromkeys(podgroups) if uid not in alone.subject]


_ROOM = (Reason.POD_SCHEDULING_ERRORS, Reason.PREEMPTION_DELAY, Reason.UNSCHEDULABLE)


def lacks_room_or_claim(facts: NodeFacts) -> bool:
    """True if it gets nothing even when it is served first and no queue rule refuses it: it lacks room, and has no claim on what others hold.
    False if it would not start on empty nodes, where neither would help."""
    outcome = facts.relaxed_cycles()
    return (
        not outcome.further
        and any(pending.code in _ROOM for pending in outcome.pending)
        and not refusing_rules(facts.relaxed_cycles)
        and not facts.fits_nowhere
    )


def has_room_on_closed_nodes(relaxed_cycles: RelaxedCycles) -> bool:
    """True if nodes that are cordoned or not ready have free room for it, which no other waiting work takes before it."""
    return bool(relaxed_cycles(NodesOpened()).binds and relaxed_cycles(NodesOpened(), everyone=True).binds)


def without_own_delay(relaxed_cycles: RelaxedCycles) -> tuple[Relaxation, ...]:
    """The relaxation of its own preemption delay, if that applies now."""
    delayed = any(pending.code == Reason.PREEMPTION_DELAY for pending in relaxed_cycles().pending)
    return (DelayGone(),) if delayed else ()


def find_own_delay(group: WaitingPodGroup) -> Iterable[Refusal]:
    """Its preemption delay keeps it from evicting others, alone or together with rules of its queue."""
    relaxed_cycles, record = group.relaxed_cycles, group.record
    if relaxed_cycles is None or record is None or not without_own_delay(relaxed_cycles):
        return
    allowed = tuple(rule.lifted() for rule in refusing_rules(relaxed_cycles))
    outcome = relaxed_cycles(DelayGone(), *allowed)
    if not outcome.further or (allowed and relaxed_cycles(*allowed).further):
        return
    until = next(
        pending.numbers["until"] for pending in relaxed_cycles().pending if pending.code == Reason.PREEMPTION_DELAY
    )
    yield OwnDelay(
        delay=record.preemption_delay,
        until=until,
        now=group.moment.now,
        # With a rule of its queue in force the end of the delay is not enough for evictions.
        victims=() if allowed else _titles(group, outcome.evicted_podgroups),
        objects=(podgroup_ref(group, record.uid),),
    )


def find_blocked_victims(group: WaitingPodGroup) -> Iterable[Refusal]:
    """Find causes for work that could reclaim or preempt, but whose victims are protected by a minimum runtime or non-preemptible."""
    relaxed_cycles, record, facts = group.relaxed_cycles, group.record, group.node_facts
    if relaxed_cycles is None or record is None or facts is None:
        return
    refusing = refusing_rules(relaxed_cycles)
    # Victims of its own queue would also make room below a limit.
    if (
        relaxed_cycles(DelayGone(), *(rule.lifted() for rule in refusing)).further
        if refusing
        else not lacks_room_or_claim(facts)
    ):
        return
    before = without_own_delay(relaxed_cycles)
    if before and relaxed_cycles(*before).further:
        return
    both = (QueuesUnprotected(), OthersPreemptible())
    # Asked first, because in most cases nothing that it could evict is protected, or not even both help.
    if not _some_blocked(relaxed_cycles, record.uid) or not relaxed_cycles(*before, *both).further:
        return
    for changes in ((QueuesUnprotected(),), (OthersPreemptible(),), both):
        outcome = relaxed_cycles(*before, *changes)
        # Also where they would only be moved: what holds the room keeps it waiting, whether or not it gets another place.
        if not (outcome.further and outcome.evictions):
            continue
        # If other work would take what the victims leave, a closed node that would be its own keeps it waiting.
        if has_room_on_closed_nodes(relaxed_cycles) and not relaxed_cycles(*before, *changes, everyone=True).further:
            return
        reach = relaxed_cycles.reach(record.uid)
        holders = {holder.podgroup: holder for holder in (reach.holders if reach is not None else ())}
        # Work that would only be moved counts too: it holds the room, and what is evicted for it elsewhere does not.
        displaced = dict.fromkeys(eviction.podgroup for eviction in outcome.evictions)
        blocking = [holders[uid] for uid in displaced if uid in holders]
        protected = [holder for holder in blocking if holder.until is not None]
        firm = [holder for holder in blocking if not group.state.records[holder.podgroup].preemptible]
        if protected and QueuesUnprotected() in changes:
            ends = sorted(holder.until for holder in protected if holder.until is not None)
            yield VictimsProtected(
                **_blocked(group, outcome, protected), first=ends[0], until=ends[-1], now=group.moment.now
            )
        if firm and OthersPreemptible() in changes:
            yield VictimsNonPreemptible(**_blocked(group, outcome, firm))
        return


def _some_blocked(relaxed_cycles: RelaxedCycles, podgroup: str) -> bool:
    """Whether only a minimum runtime or non-preemptibility keeps a PodGroup (UID) from evicting some other."""
    reach = relaxed_cycles.reach(podgroup)
    return reach is None or any(
        holder.keeps in (EvictionBlocker.PROTECTED, EvictionBlocker.NON_PREEMPTIBLE) for holder in reach.holders
    )


def _blocked(group: WaitingPodGroup, outcome: RelaxedCycleOutcome, holders: Sequence[Holder]) -> dict[str, Any]:
    """The fields of a refusal by these holders."""
    names = sorted({holder.beside for holder in holders})
    podgroups = [holder.podgroup for holder in holders]
    # Who is only moved loses nothing, so nobody needs a claim for it.
    claimed = names if outcome.evicted_podgroups else []
    return {
        "queues": tuple(names),
        "claims": tuple(_claim(group, outcome, name, holders) for name in claimed),
        "victims": _titles(group, podgroups),
        "objects": (*map(queue_ref, names), *(podgroup_ref(group, uid) for uid in podgroups)),
    }


def _claim(group: WaitingPodGroup, outcome: RelaxedCycleOutcome, queue: str, holders: Sequence[Holder]) -> QueueClaim:
    """The claim on what a queue holds, by the rule that the engine gave for an eviction there."""
    own = any(holder.queue == group.queue for holder in holders if holder.beside == queue)
    grounds = (eviction.ground for eviction in outcome.evictions)
    ground = next((ground for ground in grounds if ground is not None and ground.queue == queue), None)
    resource = "gpu" if ground is None or ground.resource is None else ground.resource.lower()
    rule = "quota" if ground is None or ground.rule not in ("fair share", "quota") else ground.rule
    share = outcome.share(queue, resource)
    return QueueClaim(queue, own, resource, rule, share.allocated, share.quota, share.fair_share)


IN_FRONT = "inFront"
"""The fact that marks a ``WorkInFront``."""

ONE_BY_ONE = 8
"""Up to this number each PodGroup is checked by itself."""


def find_work_in_front(group: WaitingPodGroup) -> Iterable[Refusal]:
    """It would be placed, in free room or by evictions, if some of the waiting work did not exist."""
    relaxed_cycles, facts = group.relaxed_cycles, group.node_facts
    # Nothing that others do gives it a place in a topology that does not exist, and the searches for victims in vain are long.
    if relaxed_cycles is None or facts is None or facts.topology_missing or not lacks_room_or_claim(facts):
        return
    before = without_own_delay(relaxed_cycles)
    if before and relaxed_cycles(*before).further:
        return
    first = _in_the_way(group, relaxed_cycles, before)
    if not first:
        return
    outcome = relaxed_cycles(*before, WaitingWithdrawn(first))
    places = {turn.podgroup: turn.place for turn in group.picture.turns.values()}
    own = places.get(group.record.uid) if group.record is not None else None
    queues = sorted({group.state.records[uid].queue for uid in first})
    yield WorkInFront(
        first=_titles(group, first),
        in_front=len(first),
        wanted=_wanted(group, first),
        queues=tuple(queues),
        is_before=own is not None and all(places.get(uid, own) < own for uid in first),
        nodes=tuple(sorted(outcome.nodes)),
        victims=_titles(group, outcome.evicted_podgroups),
        podgroups=first,
        objects=(*(podgroup_ref(group, uid) for uid in first), *map(queue_ref, queues)),
    )


def _in_the_way(
    group: WaitingPodGroup, relaxed_cycles: RelaxedCycles, before: tuple[Relaxation, ...]
) -> tuple[str, ...]:
    """The fewest PodGroups (UIDs) without which it gets something, although all others have their turns before it. Its own queue comes
    first, then the queues beside it, and so on up the tree."""

    def served_first(gone: Sequence[str]) -> bool:
        return relaxed_cycles.further(*before, WaitingWithdrawn(tuple(gone)))

    def in_its_turn(gone: Sequence[str]) -> bool:
        return served_first(gone) and relaxed_cycles.further(*before, WaitingWithdrawn(tuple(gone)), ahead=True)

    line: list[str] = []
    for groups in _lines(group, relaxed_cycles):
        if not groups:
            continue
        line += groups
        if in_its_turn(line):
            # A cycle with all that comes before it costs much more than its own turn, whose answer nearly always is the same.
            fewest = _fewest(served_first, line)
            return fewest if in_its_turn(fewest) else _fewest(in_its_turn, line)
    return ()


def _fewest(is_placed_without: Callable[[Sequence[str]], bool], line: Sequence[str]) -> tuple[str, ...]:
    low, high = 1, len(line)
    while low < high:
        middle = (low + high) // 2
        if is_placed_without(line[:middle]):
            high = middle
        else:
            low = middle + 1
    needed = list(line[:low])
    for uid in list(needed) if 1 < len(needed) <= ONE_BY_ONE else ():
        fewer = [other for other in needed if other != uid]
        if fewer and is_placed_without(fewer):
            needed = fewer
    return tuple(needed)


def _lines(group: WaitingPodGroup, relaxed_cycles: RelaxedCycles) -> Iterable[list[str]]:
    """Waiting PodGroups (UIDs) in the serving order: those of its queue; then, if it has a claim now, those below each queue above it,
    and all others. Without a claim these would only leave it a larger share."""
    own = group.workload_podgroups
    waiting = {task.podgroup: "" for task in relaxed_cycles.snapshot.tasks if task.status == Status.PENDING}
    records = group.state.records
    queues = {uid: records[uid].queue for uid in waiting if uid in records and uid not in own}
    places = {turn.podgroup: turn.place for turn in group.picture.turns.values()}
    order = sorted(queues, key=lambda uid: (places.get(uid, len(places) + 1), uid))
    yield [uid for uid in order if queues[uid] == group.queue]
    if not _has_claim(group, relaxed_cycles):
        return
    draft = relaxed_cycles.draft()
    below = {name: {queue.name for queue in draft.way(name)} for name in {*queues.values()}}
    listed = {uid for uid in order if queues[uid] == group.queue}
    for level in [queue.name for queue in draft.way(group.queue)][1:]:
        podgroups = [uid for uid in order if level in below[queues[uid]] and uid not in listed]
        listed.update(podgroups)
        yield podgroups
    yield [uid for uid in order if uid not in listed]


def _has_claim(group: WaitingPodGroup, relaxed_cycles: RelaxedCycles) -> bool:
    reach = None if group.record is None else relaxed_cycles.reach(group.record.uid)
    return reach is not None and any(
        holder.keeps == EvictionBlocker.NOTHING and holder.queue != group.queue for holder in reach.holders
    )


def _titles(group: WaitingPodGroup, podgroups: Iterable[str]) -> tuple[str, ...]:
    """The workloads of PodGroups (UIDs), each once."""
    return tuple(dict.fromkeys(workload_title(group, uid) for uid in podgroups))


def _wanted(group: WaitingPodGroup, podgroups: Sequence[str]) -> tuple[int, ...]:
    """What the waiting pods of each workload request, in milli-GPU, in the order of ``_titles``."""
    wanted: dict[str, int] = {}
    for uid in podgroups:
        record = group.state.records[uid]
        rows = group.picture.by_group.get(f"{record.namespace}/{record.name}", ())
        title = workload_title(group, uid)
        wanted[title] = wanted.get(title, 0) + sum(row.milli_gpus for row in rows if not row.node)
    return tuple(wanted.values())
