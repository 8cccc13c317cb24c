"""Work that gets nothing at its own turn because of what waits beside it: a queue is ranked by the first job of its line.

When victims are searched for, the job and its victims are placed again in the order of their queues. A large gang at the head of the
job's queue puts the queue behind those of the victims, which then take their places back before the job has its turn. Source: KAI's
GetJobsToAllocate and its queue order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kailab.engine.relaxing.relaxed_cycles import RelaxedCycleOutcome, RelaxedCycles
from kailab.engine.relaxing.rules import Relaxation, WaitingWithdrawn
from kailab.engine.report.eviction_blockers import EvictionBlocker
from kailab.engine.snapshot.records import Status
from kailab.explain.cause import Cause, Code
from kailab.explain.causes.case import Case
from kailab.explain.causes.queue_victims import context, stands_still, victims_of
from kailab.explain.causes.queue_words import podgroup_ref, queue_ref, workload_title, workload_titles
from kailab.lab.picture import group_of
from kailab.lab.wording import capitalized, gpus, some

IN_FRONT = "inFront"
"""The fact that tells such a cause from others of its code: how many PodGroups, without which it gets something."""

ONE_BY_ONE = 8
"""PodGroups up to which each is asked about by itself: whether it stands in the way at all."""


def in_line(case: Case) -> Iterable[Cause]:
    """It would get something, by others' going or in free room, if some of the work that waits were not there."""
    trials = case.trials
    if trials is None or not stands_still(trials):
        return
    before = context(trials)
    if before and trials(*before).further:
        return
    found = _in_the_way(case, trials, before)
    if found:
        yield _cause(case, trials(*before, WaitingWithdrawn(found)), found)


def _in_the_way(case: Case, trials: RelaxedCycles, before: tuple[Relaxation, ...]) -> tuple[str, ...]:
    """PodGroups (UIDs), as few as are enough, without which it gets something though all others have their turns before it. Those of its
    own queue are looked at first, then those of the queues beside it, and so on up."""
    line: list[str] = []
    for groups in _lines(case, trials):
        if not groups:
            continue
        line += groups
        if _gets_on(trials, before, line):
            return _fewest(trials, before, line)
    return ()


def _gets_on(trials: RelaxedCycles, before: tuple[Relaxation, ...], gone: Sequence[str]) -> bool:
    withdrawn = WaitingWithdrawn(tuple(gone))
    # Its own turn is asked first, which costs much less than that of all who come before it.
    return all(trials.further(*before, withdrawn, before=others) for others in (False, True))


def _fewest(trials: RelaxedCycles, before: tuple[Relaxation, ...], line: Sequence[str]) -> tuple[str, ...]:
    low, high = 1, len(line)
    while low < high:
        middle = (low + high) // 2
        if _gets_on(trials, before, line[:middle]):
            high = middle
        else:
            low = middle + 1
    found = list(line[:low])
    for one in list(found) if len(found) <= ONE_BY_ONE else ():
        rest = [other for other in found if other != one]
        if rest and _gets_on(trials, before, rest):
            found = rest
    return tuple(found)


def _lines(case: Case, trials: RelaxedCycles) -> Iterable[list[str]]:
    """PodGroups (UIDs) that wait, those served first at the head: of its queue; then of the rest below each queue above it, and of all
    others, where it has a claim as things stand. Without a claim these would only leave it a larger share."""
    own = _own(case)
    waiting = {task.podgroup: "" for task in trials.snapshot.tasks if task.status == Status.PENDING}
    records = case.standing.records
    queues = {uid: records[uid].queue for uid in waiting if uid in records and uid not in own}
    places = {turn.podgroup: turn.place for turn in case.picture.turns.values()}
    order = sorted(queues, key=lambda uid: (places.get(uid, len(places) + 1), uid))
    yield [uid for uid in order if queues[uid] == case.queue]
    if not _has_claim(case, trials):
        return
    draft = trials.draft()
    below = {name: {one.name for one in draft.way(name)} for name in {*queues.values()}}
    told = {uid for uid in order if queues[uid] == case.queue}
    for level in [one.name for one in draft.way(case.queue)][1:]:
        found = [uid for uid in order if level in below[queues[uid]] and uid not in told]
        told.update(found)
        yield found
    yield [uid for uid in order if uid not in told]


def _own(case: Case) -> set[str]:
    """The PodGroups of what is asked about: its other replicas are no other work. Of a queue each of its workloads is other work."""
    rows = case.pods if case.subject.kind == "Queue" else [*case.standing.pods, *case.pods]
    groups = {group_of(row) for row in rows if row.podgroup} | {case.group}
    return {
        group["metadata"]["uid"]
        for (namespace, name), group in case.picture.podgroups.items()
        if f"{namespace}/{name}" in groups
    }


def _has_claim(case: Case, trials: RelaxedCycles) -> bool:
    reach = None if case.record is None else trials.reach(case.record.uid)
    return reach is not None and any(
        one.keeps == EvictionBlocker.NOTHING and one.queue != case.queue for one in reach.holders
    )


def _cause(case: Case, outcome: RelaxedCycleOutcome, first: Sequence[str]) -> Cause:
    titles = _with_sizes(case, first)
    verb = "waits" if len(titles) == 1 else "wait"
    queues = sorted({case.standing.records[uid].queue for uid in first})
    where = f"in queue {queues[0]}" if len(queues) == 1 else f"in queues {some(queues)}"
    if all(_is_before(case, uid) for uid in first):
        where = f"before it {where}"
    line = f"{some(titles)} {verb} {where}"
    gone = victims_of(outcome)
    if gone:
        text = (
            f"{workload_titles(case, gone)} would be evicted for it, but {line}: the scheduler ranks a queue by the first job of its "
            "line, so what is evicted gets its place back before it has its turn."
        )
    else:
        text = f"there would be room for it on {some(sorted(outcome.nodes))}, but {line}, and by that the scheduler ranks the queue."
    return Cause(
        Code.BEHIND_OTHERS,
        capitalized(text),
        (*(podgroup_ref(case, uid) for uid in first), *map(queue_ref, queues)),
        {
            "first": list(dict.fromkeys(workload_title(case, uid) for uid in first)),
            "nodes": sorted(outcome.nodes),
            IN_FRONT: len(first),
        },
    )


def _is_before(case: Case, podgroup: str) -> bool:
    places = {turn.podgroup: turn.place for turn in case.picture.turns.values()}
    own = None if case.record is None else places.get(case.record.uid)
    return own is not None and places.get(podgroup, own) < own


def _with_sizes(case: Case, podgroups: Sequence[str]) -> list[str]:
    """``PyTorchJob moe (48 GPUs)``: with what of each waits."""
    asked: dict[str, int] = {}
    for uid in podgroups:
        record = case.standing.records[uid]
        rows = case.picture.by_group.get(f"{record.namespace}/{record.name}", ())
        title = workload_title(case, uid)
        asked[title] = asked.get(title, 0) + sum(row.milli_gpus for row in rows if not row.node)
    return [f"{title} ({gpus(amount)})" if amount else title for title, amount in asked.items()]
