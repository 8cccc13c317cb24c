"""Evictions as the decision log has them: how many, for whom, and who is evicted for each other for ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from kailab.advice.health.report import Evictions, Loop, Served
from kailab.evidence.entries import PodEvicted

TURNS = 4
"""To and fro twice: A for B, B for A, A for B, B for A. Once may be the order in which two of them came."""

Workload = Callable[[str], str]


def workloads(evictions: Iterable[PodEvicted], otherwise: Workload = str) -> Workload:
    """What a PodGroup (``namespace/name``) belongs to, as ``namespace/Kind/name``: new pods of a controller have PodGroups of new
    names. Known of those of which a pod was evicted; of all others ``otherwise`` tells."""
    owners = {
        entry.podgroup: f"{entry.podgroup.partition('/')[0]}/{entry.owner}"
        for entry in evictions
        if entry.podgroup and entry.owner
    }
    return lambda podgroup: owners.get(podgroup) or otherwise(podgroup)


def told(evictions: Sequence[PodEvicted], now: float, seconds: float, workload: Workload) -> Evictions:
    """Of the last ``seconds`` before ``now``; both as the entries' ``t`` has it. A younger lab is looked at from its begin."""
    seconds = min(seconds, now) if now > 0 else seconds
    recent = [entry for entry in evictions if entry.t >= now - seconds]
    served = Counter(
        (workload(entry.beneficiary) if entry.beneficiary else "", entry.beneficiary_queue, entry.action)
        for entry in recent
    )
    order = sorted(served.items(), key=lambda one: (-one[1], one[0]))
    return Evictions(seconds, len(recent), tuple(Served(*whom, pods) for whom, pods in order))


def loops(evictions: Sequence[PodEvicted], now: float, seconds: float, workload: Workload) -> tuple[Loop, ...]:
    """Pairs of which each was evicted for the other, in turn, at least twice, the last time within the last ``seconds``."""
    pairs: dict[tuple[str, str], list[PodEvicted]] = {}
    for entry in evictions:
        if entry.beneficiary:
            gone, served = workload(entry.podgroup), workload(entry.beneficiary)
            # A workload that makes room for itself (by new pods) is no loop of two.
            if gone != served:
                pairs.setdefault((min(gone, served), max(gone, served)), []).append(entry)
    found = []
    for (one, other), entries in sorted(pairs.items()):
        turns: list[PodEvicted] = []
        for entry in sorted(entries, key=lambda entry: (entry.t, entry.cycle)):
            # Several pods of one eviction are one turn.
            if not turns or workload(turns[-1].podgroup) != workload(entry.podgroup):
                turns.append(entry)
        if len(turns) >= TURNS and turns[-1].t >= now - seconds:
            every = (turns[-1].t - turns[0].t) / (len(turns) - 1)
            found.append(Loop(one, other, len(turns), round(every, 3), len(entries)))
    return tuple(found)
