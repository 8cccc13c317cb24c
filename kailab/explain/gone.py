"""What became of pods that were evicted: when, by which action, for whom, and what decided it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from msgspec import structs

from kailab.engine.decisions import EvictionGround
from kailab.evidence.entries import PodEvicted
from kailab.explain.cause import Cause, Code, Ref
from kailab.explain.subject import Standing
from kailab.lab.owners import top_of
from kailab.lab.wording import amount_text, count, gpus, some

STALE = "stalegangeviction"


def evicted(standing: Standing) -> Cause:
    """Why its pods were evicted; the last evictions tell. There is at least one."""
    return evicted_for(standing.evictions, partial(workload_of, standing))


def evicted_for(entries: Sequence[PodEvicted], whose: Callable[[str], str]) -> Cause:
    """Why these pods were evicted; the last entries tell. ``whose``: the workload of a PodGroup, in words."""
    last = entries[-1]
    same = [one for one in entries if one.t == last.t and whose(one.beneficiary) == whose(last.beneficiary)]
    names = [one.pod.partition("/")[2] for one in same]
    what = f"Pod {names[0]} was" if len(same) == 1 else f"{len(same)} pods of it ({some(names)}) were"
    verb = "moved" if last.is_move else "evicted"
    return Cause(
        Code.EVICTED,
        f"{what} {verb} at {last.time} by {_by(last)}{_for(last, whose)}. {' '.join(grounds(_joined(same)))}".rstrip(),
        tuple(Ref("Pod", *one.pod.split("/", 1)) for one in same),
        {
            "time": last.time,
            "action": last.action,
            "beneficiary": last.beneficiary,
            "beneficiaryQueue": last.beneficiary_queue,
            "pods": [one.pod for one in same],
        },
    )


def _joined(entries: Sequence[PodEvicted]) -> EvictionGround | None:
    """What let these be taken together: what was held before the first of them and after the last."""
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


def workload_of(standing: Standing, podgroup: str) -> str:
    """Whose PodGroup it is, as ``Kind namespace/name``; the PodGroup itself where that is gone."""
    namespace, _, name = podgroup.partition("/")
    group = standing.picture.podgroups.get((namespace, name))
    if group is None:
        return f"PodGroup {podgroup}"
    top = top_of(standing.lab, group)
    return f"{top['kind']} {namespace}/{top['metadata']['name']}"


def grounds(ground: EvictionGround | None) -> Iterable[str]:
    """What let the pod be taken, with the numbers before and after."""
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
    """One eviction in full."""
    lines = [
        f"Pod {entry.pod} was {'moved' if entry.is_move else 'evicted'} at {entry.time} (cycle {entry.cycle}) from {entry.node} by {_by(entry)}."
    ]
    if entry.beneficiary:
        lines.append(f"In favour of {entry.beneficiary} of queue {entry.beneficiary_queue}.")
    if entry.reason:
        lines.append(" ".join(entry.reason.split()))
    lines += grounds(entry.ground)
    for queue, moment in entry.shares.items():
        before, after = moment.before, moment.after
        lines.append(
            f"{queue}: {gpus(before.allocated)} -> {gpus(after.allocated)} "
            f"(quota {gpus(before.quota)}, fair share {gpus(before.fair_share)})."
        )
    return lines


def evictions_told(entries: Sequence[PodEvicted], whose: Callable[[str], str]) -> list[str]:
    """All evictions, in short, the latest first. ``whose``: as in ``evicted_for``."""
    groups: dict[tuple[str, str, str, str], int] = {}
    for one in reversed(entries):
        verb = "Moved" if one.is_move else "Evicted"
        key = (verb, one.time, _by(one), whose(one.beneficiary) if one.beneficiary else "")
        groups[key] = groups.get(key, 0) + 1
    return [
        f"{verb} at {time}: {count(number, 'pod')} by {by}{f' for {beneficiary}' if beneficiary else ''}."
        for (verb, time, by, beneficiary), number in groups.items()
    ]
