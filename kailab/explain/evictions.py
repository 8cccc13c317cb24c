"""Sentences about work that was evicted, has failed, or runs and may be evicted."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from kailab.cluster.protocol import Object
from kailab.engine.decisions import EvictionGround, beyond_quota
from kailab.evidence.entries import PodEvicted
from kailab.evidence.shares import QueueAmounts, queue_ancestry
from kailab.evidence.wording import amount_text, count, gpus, some
from kailab.explain.kai_faults import decided_by
from kailab.explain.queues import RESOURCES, borrowing_lines, shares_in, unused_words
from kailab.explain.subject import PodsAtMoment, min_member
from kailab.lab.answer import Cause, CauseCode, ObjectRef
from kailab.lab.owners import top_of
from kailab.lab.picture import Picture
from kailab.model.labels import STALE_SINCE
from kailab.model.objects import spec_of
from kailab.model.times import format_time, parse_time

if TYPE_CHECKING:
    from kailab.lab.lab import Lab


STALE = "stalegangeviction"


def eviction_cause(state: PodsAtMoment) -> Cause:
    """Why its pods were evicted last. Expects at least one eviction."""
    return eviction_cause_of(state.evictions, partial(podgroup_workload, state))


def eviction_cause_of(entries: Sequence[PodEvicted], whose: Callable[[str], str]) -> Cause:
    """Why these pods were evicted last. ``whose``: the workload of a PodGroup, in words."""
    last = entries[-1]
    same = [entry for entry in entries if entry.t == last.t and whose(entry.beneficiary) == whose(last.beneficiary)]
    names = [entry.pod.partition("/")[2] for entry in same]
    what = f"Pod {names[0]} was" if len(same) == 1 else f"{len(same)} pods of it ({some(names)}) were"
    verb = "moved" if last.is_move else "evicted"
    return Cause(
        CauseCode.EVICTED,
        f"{what} {verb} at {last.time} by {_by(last)}{_for(last, whose)}. "
        f"{' '.join((*ground_sentences(_joined(same)), *decided_by(last.imitated)))}".rstrip(),
        tuple(ObjectRef("Pod", *entry.pod.split("/", 1)) for entry in same),
        {
            "time": last.time,
            "action": last.action,
            "beneficiary": last.beneficiary,
            "beneficiaryQueue": last.beneficiary_queue,
            "pods": [entry.pod for entry in same],
        },
    )


def _joined(entries: Sequence[PodEvicted]) -> EvictionGround | None:
    """The common ground of several evictions: amounts before the first and after the last."""
    first, last = entries[0].ground, entries[-1].ground
    if first is None or last is None or (first.queue, first.resource) != (last.queue, last.resource):
        return last
    return structs.replace(last, before=first.before)


def _by(entry: PodEvicted) -> str:
    return f"the stale gang eviction ({entry.action})" if entry.action == STALE else entry.action


def _for(entry: PodEvicted, whose: Callable[[str], str]) -> str:
    if entry.beneficiary:
        return f" for {whose(entry.beneficiary)} of queue {entry.beneficiary_queue}"
    if entry.action == STALE:
        return f" from {entry.node}: fewer pods of its gang ran than must run together, for longer than its grace"
    return ""


def podgroup_workload(state: PodsAtMoment, podgroup: str) -> str:
    """The workload of a PodGroup as ``Kind namespace/name``; the PodGroup itself if it was deleted."""
    namespace, _, name = podgroup.partition("/")
    group = state.picture.podgroups.get((namespace, name))
    if group is None:
        return f"PodGroup {podgroup}"
    top = top_of(state.lab.cluster, group)
    return f"{top['kind']} {namespace}/{top['metadata']['name']}"


def ground_sentences(ground: EvictionGround | None) -> Iterable[str]:
    """The rule by which the pod could be evicted, with the amounts before and after."""
    if ground is None:
        return
    if ground.priorities:
        victim, beneficiary = ground.priorities
        yield f"Priority decided in queue {ground.queue}: {beneficiary} over {victim}."
    if ground.resource:
        held, bound, left = (
            amount_text(ground.resource, amount) for amount in (ground.before, ground.bound, ground.after)
        )
        yield (
            f"It was decided between the queues {ground.queue} and {ground.beside}: {ground.queue} held {held}, beyond its "
            f"{ground.rule} of {bound}, and {left} after it."
        )


def eviction_lines(entry: PodEvicted) -> list[str]:
    """All lines about one eviction."""
    lines = [
        f"Pod {entry.pod} was {'moved' if entry.is_move else 'evicted'} at {entry.time} (cycle {entry.cycle}) from {entry.node} by {_by(entry)}."
    ]
    if entry.beneficiary:
        lines.append(f"In favour of {entry.beneficiary} of queue {entry.beneficiary_queue}.")
    if entry.reason:
        lines.append(" ".join(entry.reason.split()))
    lines += ground_sentences(entry.ground)
    lines += decided_by(entry.imitated)
    for queue, moment in entry.shares.items():
        before, after = moment.before, moment.after
        lines.append(
            f"{queue}: {gpus(before.allocated)} -> {gpus(after.allocated)} "
            f"(quota {gpus(before.quota)}, fair share {gpus(before.fair_share)})."
        )
    return lines


def eviction_summary(entries: Sequence[PodEvicted], whose: Callable[[str], str]) -> list[str]:
    """One line for each group of equal evictions, the latest first. ``whose``: as in ``eviction_cause_of``."""
    groups: dict[tuple[str, str, str, str], int] = {}
    for entry in reversed(entries):
        verb = "Moved" if entry.is_move else "Evicted"
        key = (verb, entry.time, _by(entry), whose(entry.beneficiary) if entry.beneficiary else "")
        groups[key] = groups.get(key, 0) + 1
    return [
        f"{verb} at {time}: {count(number, 'pod')} by {by}{f' for {beneficiary}' if beneficiary else ''}."
        for (verb, time, by, beneficiary), number in groups.items()
    ]


def running_causes(state: PodsAtMoment) -> tuple[Cause, ...]:
    """What threatens running work: the end of its gang's grace, or queues that could reclaim what it borrows."""
    return (*_stale(state), *_borrowing(state))


def failure_cause(state: PodsAtMoment) -> Cause:
    """Why it has failed, by its own status."""
    subject = state.subject
    kind = subject.kind if state.object is None else state.object["kind"]
    return Cause(
        CauseCode.FAILED,
        f"{kind} {subject.name} has failed: {state.failure.rstrip('.')}.",
        (ObjectRef(kind, subject.namespace, subject.name),),
        {"failure": state.failure},
    )


def _groups(state: PodsAtMoment) -> Iterator[tuple[str, Object]]:
    names = dict.fromkeys((row.name.partition("/")[0], row.podgroup) for row in state.running if row.podgroup)
    for name in names:
        group = state.picture.podgroups.get(name)
        if group is not None:
            yield "/".join(name), group


def _stale(state: PodsAtMoment) -> Iterable[Cause]:
    for full, group in _groups(state):
        since = (group["metadata"].get("annotations") or {}).get(STALE_SINCE)
        if not since:
            continue
        least = min_member(group)
        running = sum(bool(row.node) for row in state.picture.by_group[full] if row.phase in ("Pending", "Running"))
        record = state.records.get(group["metadata"]["uid"])
        # The PodGroup's own grace overrides the configured one, as in the engine.
        own = None if record is None else record.staleness_grace
        grace = state.lab.config.staleness_grace if own is None else own
        ends = parse_time(since) + grace
        seconds = max(0.0, ends - state.picture.now)
        then = (
            "its grace does not end"
            if grace < 0
            else f"unless it is whole again, all of it is evicted in {seconds:.4g} s, at {format_time(ends)}"
        )
        yield Cause(
            CauseCode.STALE_GANG,
            f"{least} pods of PodGroup {full} must run together, and {running} run since {since}: {then}.",
            (ObjectRef("PodGroup", *full.split("/", 1)),),
            {"minMember": least, "running": running, "since": since, "grace": grace, "seconds": seconds},
        )
        return


def _borrowing(state: PodsAtMoment) -> Iterable[Cause]:
    """The lowest of its queues that holds more than its quota."""
    picture = state.picture
    if not picture.scheduler.knows_queues:
        return
    shares = picture.shares
    parents = {amounts.name: amounts.parent for amounts in shares.queues.values()}
    for name in _queues(state):
        for level in queue_ancestry(name, parents):
            queue = shares[level]
            if queue.borrowed and queue.borrowed > 0:
                yield _borrowed(state, queue)
                return


def _queues(state: PodsAtMoment) -> list[str]:
    """The queues of its running preemptible work."""
    if state.subject.kind == "Queue":
        return [state.subject.name]
    firm = {
        group["metadata"]["uid"] for _, group in _groups(state) if not state.is_preemptible(group["metadata"]["uid"])
    }
    names = [spec_of(group).get("queue", "") for _, group in _groups(state) if group["metadata"]["uid"] not in firm]
    return list(dict.fromkeys(name for name in names if name in state.picture.shares))


def _borrowed(state: PodsAtMoment, queue: QueueAmounts) -> Cause:
    lenders = state.picture.shares.lenders(queue.name)
    unused = state.picture.shares.unused_beside(queue.name)
    return Cause(
        CauseCode.BORROWING,
        f"{'It' if state.subject.kind == 'Queue' else f'Its queue {queue.name}'} holds {gpus(queue.allocated)}, {gpus(queue.borrowed)} beyond its quota of "
        f"{gpus(queue.quota)}, {unused_words(state.picture.shares, queue.name)}; a queue that is owed more may take that back.",
        tuple(ObjectRef("Queue", "", name) for name in (queue.name, *(name for name, _ in unused))),
        {"queue": queue.name, "borrowed": queue.borrowed, "from": dict(lenders), "unused": dict(unused)},
    )


def running_lines(state: PodsAtMoment) -> Iterator[str]:
    """Whose quota covers it and which queues could reclaim it."""
    picture = state.picture
    if state.subject.kind == "Queue" or not picture.scheduler.knows_queues:
        return
    names = _queues(state)
    if not names:
        yield from _non_preemptible_lines(state)
    for name in names:
        queue = picture.shares[name]
        beyond = _beyond(picture, name)
        if not queue.borrowed and not beyond:
            yield f"Its queue {name} holds {gpus(queue.allocated)} of its quota of {gpus(queue.quota)}: no other queue may take that."
        elif not queue.borrowed:
            yield (
                f"Its queue {name} holds {gpus(queue.allocated)} of its quota of {gpus(queue.quota)}, but {some(beyond)}: a queue that is "
                "owed more may take that back."
            )
        yield from borrowing_lines(picture, picture.shares, queue)


def _non_preemptible_lines(state: PodsAtMoment) -> Iterator[str]:
    """Whether quotas cover running work that is non-preemptible, by queue."""
    picture = state.picture
    groups = [group for _, group in _groups(state)]
    for name in dict.fromkeys(str(spec_of(group).get("queue") or "") for group in groups):
        own = [group for group in groups if spec_of(group).get("queue") == name]
        firm = not any(state.is_preemptible(group["metadata"]["uid"]) for group in own)
        if name not in picture.shares:
            firmly = "It can't be taken away, as it is non-preemptible, but its" if firm else "Its"
            yield f"{firmly} queue {name or '(none)'} does not exist: no quota covers it."
            continue
        parents = {amounts.name: amounts.parent for amounts in picture.shares.queues.values()}
        above = [
            f"{level} holds {amount_text(resource, queue.non_preemptible)} of such work with a quota of "
            f"{amount_text(resource, queue.quota)}"
            for level in queue_ancestry(name, parents)
            for resource in RESOURCES
            if beyond_quota((queue := shares_in(picture, resource)[level]).non_preemptible, queue.quota)
        ]
        queue = picture.shares[name]
        covered = (
            f"beyond quotas: {some(above)}"
            if above
            else (
                f"inside quotas: its queue {name} holds {gpus(queue.non_preemptible)} of such work with a quota of {gpus(queue.quota)}"
            )
        )
        yield f"It can't be taken away: it is non-preemptible, {covered}."


def _beyond(picture: Picture, name: str) -> list[str]:
    """What a queue, or one above it, holds beyond its quota, in any resource."""
    parents = {amounts.name: amounts.parent for amounts in picture.shares.queues.values()}
    return [
        f"{level} holds {amount_text(resource, queue.borrowed)}{' of memory' if resource == 'Memory' else ''} beyond its quota of {amount_text(resource, queue.quota)}"
        for level in queue_ancestry(name, parents)
        for resource in RESOURCES
        if (queue := shares_in(picture, resource)[level]).borrowed
    ]


def latest_event(lab: Lab, uids: Container[str], reason: str = "") -> Object | None:
    """The latest event of these objects. ``reason``: only events with it. An event outlives its cause: ask the objects what holds now."""
    events = [
        event
        for event in lab.cluster.list("Event")
        if (event.get("involvedObject") or {}).get("uid") in uids and reason in ("", event.get("reason"))
    ]
    return max(events, key=lambda event: str(event.get("lastTimestamp") or ""), default=None)
