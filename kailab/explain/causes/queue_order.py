"""Causes in the order of serving: work whose turn comes later, and work that can't take what it has a claim on.

A queue is ranked by the first job of its line. When victims are searched for, the job and its victims are placed again in the order of
their queues, so a large gang at the head of the job's queue puts that queue behind those of the victims, which then get their places back.
Source: KAI's GetJobsToAllocate and its queue order.

Its own delay, and the protection or non-preemptibility of the holders, is a cause if the engine, without it, evicts others for the work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kailab.engine.decisions import Decisions, ServingPosition
from kailab.engine.decisions import PendingCode as Reason
from kailab.engine.relaxing.relaxed_cycles import RelaxedCycleOutcome, RelaxedCycles
from kailab.engine.relaxing.rules import (
    Actions,
    DelayGone,
    OthersPreemptible,
    PromisesForgotten,
    QueuesUnprotected,
    Relaxation,
    WaitingWithdrawn,
)
from kailab.engine.report.eviction_blockers import EvictionBlocker, Holder
from kailab.engine.report.serving import serving_positions as in_turn
from kailab.engine.session import Session
from kailab.engine.snapshot.amounts import moment_text, number
from kailab.engine.snapshot.records import Status
from kailab.explain.causes.queue_limits import (
    podgroup_ref,
    queue_ref,
    queue_share,
    quota_words,
    refusing_rules,
    until_text,
    workload_title,
    workload_titles,
)
from kailab.explain.causes.waiting_group import WaitingPodGroup
from kailab.lab.answer import Cause, CauseCode
from kailab.lab.picture import group_of
from kailab.lab.wording import amount_text, capitalized, count, gpus, some


def find_earlier_turns(group: WaitingPodGroup) -> Iterable[Cause]:
    """It would be placed if its turn came first, but is not in the present serving order."""
    if group.trials is None:
        return
    alone = group.trials()
    if not alone.further:
        return
    # Free room alone is enough to see who gets the place, and costs much less than a victim search for everyone.
    everyone = group.trials(Actions(("allocate",)), everyone=True)
    turns: Iterable[ServingPosition] = group.picture.turns.values()
    if everyone.further:
        # It would be first in the next cycle, which begins once a victim has left; until then its ordinary turn counts.
        everyone, turns = (
            group.trials(PromisesForgotten(), Actions(("allocate",)), everyone=True),
            _ordinary(group.trials),
        )
    if everyone.further:
        return  # its turn comes
    places = sorted(alone.nodes)
    room = f"there would be room for it on {some(places)}" if alone.binds else "others would be evicted for it"
    taking = _taking(everyone.decisions, alone)
    depth = group.moment.config.queue_depth
    ahead = _ahead(group, turns)
    first = taking or ahead
    if taking:
        why = f"{workload_titles(group, taking)} {'comes' if len(taking) == 1 else 'come'} first and gets the place"
        promised = [uid for uid in taking if uid in group.moment.config.promised]
        if promised:
            why = f"the place is promised to {workload_titles(group, promised)}, for which others were evicted, or which was itself moved for other work"
    elif group.entry is not None and group.entry.reason == Reason.RESERVED:
        numbers = group.entry.numbers
        first = [numbers["kept_for"]]
        since = f" from {moment_text(numbers['kept_from'])} on" if numbers["kept_from"] > group.moment.now else ""
        why = f"it is kept free{since} for {workload_titles(group, first)}, which comes first"
    elif ahead:
        why = f"{workload_titles(group, ahead)} of queue {group.queue} {'comes' if len(ahead) == 1 else 'come'} first"
        tried = depth.get("allocate", -1)
        if tried >= 0:
            why += f", and the scheduler tries {count(tried, 'job')} of each queue in a cycle"
    else:
        why = "others come first"
    yield Cause(
        CauseCode.BEHIND_OTHERS,
        f"{capitalized(room)}, but {why}.",
        (*(podgroup_ref(group, uid) for uid in first), queue_ref(group.queue)),
        {"first": [workload_title(group, uid) for uid in first], "nodes": places},
    )


def _ordinary(trials: RelaxedCycles) -> tuple[ServingPosition, ...]:
    """The serving order without the promises of the last cycle."""
    session = Session(trials.working, trials.config, trials.now)
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


def lacks_room_or_claim(trials: RelaxedCycles) -> bool:
    """True if it gets nothing even when it is served first and no queue rule refuses it: it lacks room, and has no claim on what others hold."""
    outcome = trials()
    return (
        not outcome.further and any(pending.code in _ROOM for pending in outcome.pending) and not refusing_rules(trials)
    )


def without_own_delay(trials: RelaxedCycles) -> tuple[Relaxation, ...]:
    """The relaxation of its own preemption delay, if that applies now."""
    delayed = any(pending.code == Reason.PREEMPTION_DELAY for pending in trials().pending)
    return (DelayGone(),) if delayed else ()


def find_own_delay(group: WaitingPodGroup) -> Iterable[Cause]:
    """Its preemption delay keeps it from evicting others."""
    trials, record = group.trials, group.record
    if trials is None or record is None or not without_own_delay(trials) or not trials(DelayGone()).further:
        return
    until = next(pending.numbers["until"] for pending in trials().pending if pending.code == Reason.PREEMPTION_DELAY)
    victims = evicted_podgroups(trials(DelayGone()))
    whom = f"; then {workload_titles(group, victims)} would make room" if victims else ""
    yield Cause(
        CauseCode.PREEMPTION_DELAY,
        f"There is no free room for it, and its preemption delay of {number(record.preemption_delay)} s keeps it from evicting other "
        f"work {until_text(group, until)}{whom}.",
        (podgroup_ref(group, record.uid),),
        {"until": until, "delay": record.preemption_delay},
    )


def find_blocked_victims(group: WaitingPodGroup) -> Iterable[Cause]:
    """Find causes for work that could reclaim or preempt, but whose victims are protected by a minimum runtime or non-preemptible."""
    trials, record = group.trials, group.record
    if trials is None or record is None:
        return
    refusing = refusing_rules(trials)
    # Victims of its own queue would also make room below a limit.
    if (
        trials(DelayGone(), *(rule.lifted() for rule in refusing)).further
        if refusing
        else not lacks_room_or_claim(trials)
    ):
        return
    before = without_own_delay(trials)
    if before and trials(*before).further:
        return
    both = (QueuesUnprotected(), OthersPreemptible())
    # Asked first, because in most cases not even both help.
    if not trials(*before, *both).further:
        return
    for changes in ((QueuesUnprotected(),), (OthersPreemptible(),), both):
        outcome = trials(*before, *changes)
        taken = evicted_podgroups(outcome)
        if not taken:
            continue
        holders = {holder.podgroup: holder for holder in _holders(trials, record.uid)}
        blocking = [holders[uid] for uid in taken if uid in holders]
        protected = [holder for holder in blocking if holder.until is not None]
        firm = [holder for holder in blocking if not group.state.records[holder.podgroup].preemptible]
        if protected and QueuesUnprotected() in changes:
            yield _protected(group, outcome, protected)
        if firm and OthersPreemptible() in changes:
            yield _firm(group, outcome, firm)
        return


def evicted_podgroups(outcome: RelaxedCycleOutcome) -> list[str]:
    """PodGroups (UIDs) that are evicted for it and not only moved."""
    if not outcome.further:
        return []
    return list(
        dict.fromkeys(eviction.podgroup for eviction in outcome.evictions if eviction.action in ("reclaim", "preempt"))
    )


def _holders(trials: RelaxedCycles, podgroup: str) -> Sequence[Holder]:
    reach = trials.reach(podgroup)
    return () if reach is None else reach.holders


def _protected(group: WaitingPodGroup, outcome: RelaxedCycleOutcome, holders: Sequence[Holder]) -> Cause:
    ends = sorted(holder.until for holder in holders if holder.until is not None)
    last = ends[-1]
    names = [holder.podgroup for holder in holders]
    until = (
        until_text(group, ends[0])
        if ends[0] == last
        else f"{until_text(group, ends[0])}, the last {until_text(group, last)}"
    )
    return Cause(
        CauseCode.VICTIMS_PROTECTED,
        f"It has a claim on what {_held_by(group, outcome, holders)}, but what would be evicted for it "
        f"({workload_titles(group, names)}) is protected by a minimum runtime {until}.",
        (*(queue_ref(name) for name in _queues(holders)), *(podgroup_ref(group, uid) for uid in names)),
        {"queues": _queues(holders), "until": last, "first": ends[0]},
    )


def _firm(group: WaitingPodGroup, outcome: RelaxedCycleOutcome, holders: Sequence[Holder]) -> Cause:
    names = [holder.podgroup for holder in holders]
    return Cause(
        CauseCode.VICTIMS_NON_PREEMPTIBLE,
        f"It has a claim on what {_held_by(group, outcome, holders)}, but what would be evicted for it "
        f"({workload_titles(group, names)}) is non-preemptible: nobody may take it.",
        (*(queue_ref(name) for name in _queues(holders)), *(podgroup_ref(group, uid) for uid in names)),
        {"queues": _queues(holders)},
    )


def _queues(holders: Sequence[Holder]) -> list[str]:
    return sorted({holder.beside for holder in holders})


def _held_by(group: WaitingPodGroup, outcome: RelaxedCycleOutcome, holders: Sequence[Holder]) -> str:
    """``queue team-a holds beyond its quota (12 GPUs, with a quota of 8 GPUs)``; within its own queue priority decides."""
    clauses: list[str] = []
    for name in _queues(holders):
        same = [holder for holder in holders if holder.beside == name]
        if any(holder.queue == group.queue for holder in same):
            clauses.append(f"work of lower priority in its own queue {name} holds")
            continue
        ground = next(
            (
                eviction.ground
                for eviction in outcome.evictions
                if eviction.ground is not None and eviction.ground.queue == name
            ),
            None,
        )
        resource = "gpu" if ground is None or ground.resource is None else ground.resource.lower()
        state = queue_share(outcome.decisions, name, resource)
        rule = "quota" if ground is None or ground.rule not in ("fair share", "quota") else ground.rule
        bounds = quota_words(resource, state.quota)
        if rule == "fair share":
            bounds += f" and a fair share of {amount_text(resource, state.fair_share)}"
        bound = state.fair_share if rule == "fair share" else state.quota
        # Another resource, or a queue below this one, may be the one that exceeds.
        beyond = f" beyond its {rule}" if 0 <= bound < state.allocated else ""
        clauses.append(f"queue {name} holds{beyond} ({amount_text(resource, state.allocated)}, with {bounds})")
    return " and ".join(clauses)


IN_FRONT = "inFront"
"""The fact that marks causes of ``find_work_in_front``: the number of PodGroups without which it gets something."""

ONE_BY_ONE = 8
"""Up to this number each PodGroup is checked by itself."""


def find_work_in_front(group: WaitingPodGroup) -> Iterable[Cause]:
    """It would be placed, in free room or by evictions, if some of the waiting work did not exist."""
    trials = group.trials
    if trials is None or not lacks_room_or_claim(trials):
        return
    before = without_own_delay(trials)
    if before and trials(*before).further:
        return
    blocking = _in_the_way(group, trials, before)
    if blocking:
        yield _cause(group, trials(*before, WaitingWithdrawn(blocking)), blocking)


def _in_the_way(group: WaitingPodGroup, trials: RelaxedCycles, before: tuple[Relaxation, ...]) -> tuple[str, ...]:
    """The fewest PodGroups (UIDs) without which it gets something, although all others have their turns before it. Its own queue comes
    first, then the queues beside it, and so on up the tree."""
    line: list[str] = []
    for groups in _lines(group, trials):
        if not groups:
            continue
        line += groups
        if _is_placed_without(trials, before, line):
            return _fewest(trials, before, line)
    return ()


def _is_placed_without(trials: RelaxedCycles, before: tuple[Relaxation, ...], gone: Sequence[str]) -> bool:
    withdrawn = WaitingWithdrawn(tuple(gone))
    # Its own turn is asked first, which costs much less than a cycle with all that comes before it.
    return all(trials.further(*before, withdrawn, before=others) for others in (False, True))


def _fewest(trials: RelaxedCycles, before: tuple[Relaxation, ...], line: Sequence[str]) -> tuple[str, ...]:
    low, high = 1, len(line)
    while low < high:
        middle = (low + high) // 2
        if _is_placed_without(trials, before, line[:middle]):
            high = middle
        else:
            low = middle + 1
    needed = list(line[:low])
    for uid in list(needed) if len(needed) <= ONE_BY_ONE else ():
        fewer = [other for other in needed if other != uid]
        if fewer and _is_placed_without(trials, before, fewer):
            needed = fewer
    return tuple(needed)


def _lines(group: WaitingPodGroup, trials: RelaxedCycles) -> Iterable[list[str]]:
    """Waiting PodGroups (UIDs) in the serving order: those of its queue; then, if it has a claim now, those below each queue above it,
    and all others. Without a claim these would only leave it a larger share."""
    own = _own(group)
    waiting = {task.podgroup: "" for task in trials.snapshot.tasks if task.status == Status.PENDING}
    records = group.state.records
    queues = {uid: records[uid].queue for uid in waiting if uid in records and uid not in own}
    places = {turn.podgroup: turn.place for turn in group.picture.turns.values()}
    order = sorted(queues, key=lambda uid: (places.get(uid, len(places) + 1), uid))
    yield [uid for uid in order if queues[uid] == group.queue]
    if not _has_claim(group, trials):
        return
    draft = trials.draft()
    below = {name: {queue.name for queue in draft.way(name)} for name in {*queues.values()}}
    listed = {uid for uid in order if queues[uid] == group.queue}
    for level in [queue.name for queue in draft.way(group.queue)][1:]:
        podgroups = [uid for uid in order if level in below[queues[uid]] and uid not in listed]
        listed.update(podgroups)
        yield podgroups
    yield [uid for uid in order if uid not in listed]


def _own(group: WaitingPodGroup) -> set[str]:
    """The PodGroups (UIDs) of the subject, whose replicas are not other work. Each workload of a queue is other work."""
    rows = group.pods if group.subject.kind == "Queue" else [*group.state.pods, *group.pods]
    groups = {group_of(row) for row in rows if row.podgroup} | {group.name}
    return {
        podgroup["metadata"]["uid"]
        for (namespace, name), podgroup in group.picture.podgroups.items()
        if f"{namespace}/{name}" in groups
    }


def _has_claim(group: WaitingPodGroup, trials: RelaxedCycles) -> bool:
    reach = None if group.record is None else trials.reach(group.record.uid)
    return reach is not None and any(
        holder.keeps == EvictionBlocker.NOTHING and holder.queue != group.queue for holder in reach.holders
    )


def _cause(group: WaitingPodGroup, outcome: RelaxedCycleOutcome, first: Sequence[str]) -> Cause:
    titles = _with_sizes(group, first)
    verb = "waits" if len(titles) == 1 else "wait"
    queues = sorted({group.state.records[uid].queue for uid in first})
    where = f"in queue {queues[0]}" if len(queues) == 1 else f"in queues {some(queues)}"
    if all(_is_before(group, uid) for uid in first):
        where = f"before it {where}"
    line = f"{some(titles)} {verb} {where}"
    victims = evicted_podgroups(outcome)
    if victims:
        text = (
            f"{workload_titles(group, victims)} would be evicted for it, but {line}: the scheduler ranks a queue by the first job of its "
            f"line, so what is evicted would get its place back before this work has its turn. Without {_names(titles)} this work would get "
            "the room."
        )
    else:
        text = f"there would be room for it on {some(sorted(outcome.nodes))}, but {line}, and the scheduler ranks the queue by that work."
    return Cause(
        CauseCode.BEHIND_OTHERS,
        capitalized(text),
        (*(podgroup_ref(group, uid) for uid in first), *map(queue_ref, queues)),
        {
            "first": list(dict.fromkeys(workload_title(group, uid) for uid in first)),
            "nodes": sorted(outcome.nodes),
            IN_FRONT: len(first),
        },
    )


def _names(titles: Sequence[str]) -> str:
    return titles[0].partition(" (")[0] if len(titles) == 1 else f"these {len(titles)}"


def _is_before(group: WaitingPodGroup, podgroup: str) -> bool:
    places = {turn.podgroup: turn.place for turn in group.picture.turns.values()}
    own = None if group.record is None else places.get(group.record.uid)
    return own is not None and places.get(podgroup, own) < own


def _with_sizes(group: WaitingPodGroup, podgroups: Sequence[str]) -> list[str]:
    """``PyTorchJob moe (48 GPUs)``: each with what its waiting pods request."""
    asked: dict[str, int] = {}
    for uid in podgroups:
        record = group.state.records[uid]
        rows = group.picture.by_group.get(f"{record.namespace}/{record.name}", ())
        title = workload_title(group, uid)
        asked[title] = asked.get(title, 0) + sum(row.milli_gpus for row in rows if not row.node)
    return [f"{title} ({gpus(amount)})" if amount else title for title, amount in asked.items()]
