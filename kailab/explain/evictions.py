"""Work that was evicted, has failed, or runs and may be evicted: the causes, as records, and further lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, ClassVar

from msgspec import structs

from kailab.cluster.protocol import Object
from kailab.engine.decisions import EvictionGround, beyond_quota
from kailab.evidence.entries import PodEvicted
from kailab.evidence.shares import QueueAmounts, queue_ancestry
from kailab.evidence.wording import amount_text, count, gpus, some
from kailab.explain.causes.refusal import INTERNAL, PlainRefusal, Refusal
from kailab.explain.kai_faults import decided_by
from kailab.explain.queues import RESOURCES, borrowing_lines, shares_in, unused_words
from kailab.explain.subject import PodsAtMoment, min_member
from kailab.lab.answer import Cause, CauseCode, ObjectRef
from kailab.lab.lab import Lab
from kailab.lab.owners import top_of
from kailab.lab.picture import Picture
from kailab.model.labels import STALE_SINCE
from kailab.model.objects import annotations_of, spec_of
from kailab.model.times import format_time, parse_time
from kailab.scheduler.reading.podgroups import staleness_grace

STALE = "stalegangeviction"


@dataclass(frozen=True, kw_only=True)
class Evicted(Refusal):
    """Pods that were evicted together. ``workload``: whom they were evicted for, in words."""

    FACTS: ClassVar[tuple[str, ...]] = ("time", "action", "beneficiary", "beneficiary_queue", "pods")
    code: CauseCode = CauseCode.EVICTED
    entries: tuple[PodEvicted, ...] = field(metadata=INTERNAL)
    workload: str = field(metadata=INTERNAL)
    time: str = field(metadata=INTERNAL)
    action: str = field(metadata=INTERNAL)
    beneficiary: str = field(metadata=INTERNAL)
    beneficiary_queue: str = field(metadata=INTERNAL)
    pods: tuple[str, ...] = field(metadata=INTERNAL)

    @property
    def holds(self) -> bool:
        return bool(self.pods)

    @property
    def sentence(self) -> str:
        last, names = self.entries[-1], [pod.partition("/")[2] for pod in self.pods]
        what = f"Pod {names[0]} was" if len(names) == 1 else f"{len(names)} pods of it ({some(names)}) were"
        verb = "moved" if last.is_move else "evicted"
        why = " ".join((*ground_sentences(_joined(self.entries)), *decided_by(last.imitated)))
        return f"{what} {verb} at {self.time} by {_by(last)}{self.workload}. {why}".rstrip()


def eviction_cause(state: PodsAtMoment) -> Cause:
    """Why its pods were evicted last. Expects at least one eviction."""
    return eviction_cause_of(state.evictions, partial(podgroup_workload, state))


def eviction_cause_of(entries: Sequence[PodEvicted], whose: Callable[[str], str]) -> Cause:
    """Why these pods were evicted last. ``whose``: the workload of a PodGroup, in words."""
    last = entries[-1]
    same = [entry for entry in entries if entry.t == last.t and whose(entry.beneficiary) == whose(last.beneficiary)]
    cause = Evicted(
        entries=tuple(same),
        workload=_for(last, whose),
        time=last.time,
        action=last.action,
        beneficiary=last.beneficiary,
        beneficiary_queue=last.beneficiary_queue,
        pods=tuple(entry.pod for entry in same),
        objects=tuple(ObjectRef("Pod", *entry.pod.split("/", 1)) for entry in same),
    ).cause()
    assert cause is not None  # the last eviction is one of them
    return cause


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
    return tuple(cause for refusal in (*_stale(state), *_borrowing(state)) if (cause := refusal.cause()) is not None)


def failure_cause(state: PodsAtMoment) -> Cause:
    """Why it has failed, by its own status."""
    subject = state.subject
    kind = subject.kind if state.object is None else state.object["kind"]
    cause = PlainRefusal.of(
        CauseCode.FAILED,
        f"{kind} {subject.name} has failed: {state.failure.rstrip('.')}.",
        (ObjectRef(kind, subject.namespace, subject.name),),
        {"failure": state.failure},
    ).cause()
    assert cause is not None
    return cause


def _groups(state: PodsAtMoment) -> Iterator[tuple[str, Object]]:
    names = dict.fromkeys((row.name.partition("/")[0], row.podgroup) for row in state.running if row.podgroup)
    for name in names:
        group = state.picture.podgroups.get(name)
        if group is not None:
            yield "/".join(name), group


@dataclass(frozen=True, kw_only=True)
class StaleGang(Refusal):
    """A gang that lacks pods. ``since``: when it began to. ``grace``: seconds after which all of it is evicted; negative: never.
    ``seconds``: that are left of them, until ``ends``."""

    FACTS: ClassVar[tuple[str, ...]] = ("min_member", "running", "since", "grace", "seconds")
    code: CauseCode = CauseCode.STALE_GANG
    podgroup: str = field(metadata=INTERNAL)
    subgroups: bool = field(metadata=INTERNAL)
    ends: float = field(metadata=INTERNAL)
    min_member: int
    running: int
    since: str
    grace: float
    seconds: float

    @property
    def holds(self) -> bool:
        return self.running < self.min_member or self.subgroups

    @property
    def sentence(self) -> str:
        then = "its grace does not end"
        if self.grace >= 0:
            then = (
                f"unless it is whole again, all of it is evicted in {self.seconds:.4g} s, at {format_time(self.ends)}"
            )
        if self.running >= self.min_member:
            return f"A subgroup of PodGroup {self.podgroup} lacks pods since {self.since}: {then}."
        return f"{self.min_member} pods of PodGroup {self.podgroup} must run together, and {self.running} run since {self.since}: {then}."


def _stale(state: PodsAtMoment) -> Iterable[Refusal]:
    return islice(stale_gangs(state.lab, state.picture, _groups(state)), 1)


def stale_gangs(lab: Lab, picture: Picture, groups: Iterable[tuple[str, Object]]) -> Iterator[StaleGang]:
    """The gangs that run below their minimum. ``groups``: ``namespace/name`` and PodGroup."""
    for full, group in groups:
        since = annotations_of(group).get(STALE_SINCE)
        if not since:
            continue
        least = min_member(group)
        rows = picture.by_group.get(full, ())
        running = sum(bool(row.node) for row in rows if row.phase in ("Pending", "Running"))
        # The PodGroup's own grace overrides the configured one, as in the engine.
        own = staleness_grace(group)
        grace = lab.config.staleness_grace if own is None else own
        ends = parse_time(since) + grace
        yield StaleGang(
            podgroup=full,
            subgroups=bool(spec_of(group).get("subGroups")),
            ends=ends,
            min_member=least,
            running=running,
            since=since,
            grace=grace,
            seconds=max(0.0, ends - picture.now),
            objects=(ObjectRef("PodGroup", *full.split("/", 1)),),
        )


@dataclass(frozen=True, kw_only=True)
class Borrowing(Refusal):
    """A queue that holds more than its quota. Amounts in milli-GPU. ``title``: the queue in words. ``unused_in_words``: which quota beside it
    is unused."""

    code: CauseCode = CauseCode.BORROWING
    title: str = field(metadata=INTERNAL)
    unused_in_words: str = field(metadata=INTERNAL)
    queue: str
    allocated: float
    quota: float
    borrowed: float
    lenders: tuple[tuple[str, float], ...]
    unused: tuple[tuple[str, float], ...]

    @property
    def holds(self) -> bool:
        return self.borrowed > 0 and self.allocated > self.quota

    @property
    def sentence(self) -> str:
        return (
            f"{self.title} holds {gpus(self.allocated)}, {gpus(self.borrowed)} beyond its quota of {gpus(self.quota)}, "
            f"{self.unused_in_words}; a queue that is owed more may take that back."
        )

    @property
    def facts(self) -> Mapping[str, Any]:
        return {
            "queue": self.queue, "borrowed": self.borrowed, "from": dict(self.lenders), "unused": dict(self.unused),
        }  # fmt: skip


def _borrowing(state: PodsAtMoment) -> Iterable[Refusal]:
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


def _borrowed(state: PodsAtMoment, queue: QueueAmounts) -> Borrowing:
    shares = state.picture.shares
    unused = tuple(shares.unused_beside(queue.name))
    assert queue.borrowed is not None
    return Borrowing(
        title="It" if state.subject.kind == "Queue" else f"Its queue {queue.name}",
        unused_in_words=unused_words(shares, queue.name),
        queue=queue.name,
        allocated=queue.allocated,
        quota=queue.quota,
        borrowed=queue.borrowed,
        lenders=tuple(shares.lenders(queue.name)),
        unused=unused,
        objects=tuple(ObjectRef("Queue", "", name) for name in (queue.name, *(name for name, _ in unused))),
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
