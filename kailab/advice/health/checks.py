"""The checks of health: evictions in the decision log that alternate between the same work, and the scheduler's process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kailab.advice.health.report import Evictions, Loop, Served
from kailab.evidence.entries import PodEvicted
from kailab.undertest.programs import fetch_url

TURNS = 4
"""Alternating evictions of a loop: A for B, B for A, A for B, B for A. Two may be due to the order in which the work came."""

Workload = Callable[[str], str]


def workloads(evictions: Iterable[PodEvicted], otherwise: Workload = str) -> Workload:
    """A function from a PodGroup (``namespace/name``) to its workload, as ``namespace/Kind/name``, because new pods of a controller have
    PodGroups with new names. ``otherwise`` is used for PodGroups without an evicted pod."""
    owners = {
        entry.podgroup: f"{entry.podgroup.partition('/')[0]}/{entry.owner}"
        for entry in evictions
        if entry.podgroup and entry.owner
    }
    return lambda podgroup: owners.get(podgroup) or otherwise(podgroup)


def summarize_evictions(evictions: Sequence[PodEvicted], now: float, seconds: float, workload: Workload) -> Evictions:
    """The evictions of the last ``seconds`` before ``now`` (both in the time of the entries' ``t``), or since the lab began."""
    seconds = min(seconds, now) if now > 0 else seconds
    recent = [entry for entry in evictions if entry.t >= now - seconds]
    served = Counter(
        (workload(entry.beneficiary) if entry.beneficiary else "", entry.beneficiary_queue, entry.action)
        for entry in recent
    )
    order = sorted(served.items(), key=lambda one: (-one[1], one[0]))
    return Evictions(seconds, len(recent), tuple(Served(*whom, pods) for whom, pods in order))


def loops(evictions: Sequence[PodEvicted], now: float, seconds: float, workload: Workload) -> tuple[Loop, ...]:
    """Pairs of workloads that were evicted for each other in turn, at least ``TURNS`` times, the last time within the last ``seconds``."""
    pairs: dict[tuple[str, str], list[PodEvicted]] = {}
    for entry in evictions:
        if entry.beneficiary:
            gone, served = workload(entry.podgroup), workload(entry.beneficiary)
            # A workload whose new pods evict its old ones is no loop.
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


_COUNTED = {
    "kai_e2e_scheduling_latency_milliseconds": "last_cycle_milliseconds",
    "kailab_cycle_seconds_count": "cycles",
    "kailab_cycle_seconds_sum": "cycle_seconds",
    "kailab_turn_failures_total": "failed_turns",
    "leader_election_master_status": "leads",
}
_REFUSED = "kailab_decisions_not_carried_out_total"


class ProcessAnswer(NamedTuple):
    """``metrics``: by kailab's names, summed over labels; ``refused_VERB``: decisions that were not carried out. ``troubles``: why the
    process is not healthy."""

    metrics: dict[str, float]
    troubles: tuple[str, ...]


def ask(url: str) -> ProcessAnswer:
    """Ask a scheduler that serves its health and metrics at ``url``."""
    troubles = [
        trouble for path in ("livez", "readyz") if (trouble := fetch_url(f"{url.rstrip('/')}/{path}")[1]) is not None
    ]
    text, trouble = fetch_url(f"{url.rstrip('/')}/metrics")
    if trouble is not None:
        troubles.append(trouble)
    # If nothing answers, all three have the same text.
    return ProcessAnswer(_read(text), tuple(dict.fromkeys(troubles)))


def _read(text: str) -> dict[str, float]:
    from prometheus_client.parser import text_string_to_metric_families

    result: dict[str, float] = {}
    for name, labels, value in _samples(text_string_to_metric_families(text)):
        key = _COUNTED.get(name) or (f"refused_{labels.get('decision', '')}" if name == _REFUSED else "")
        if key:
            result[key] = result.get(key, 0.0) + value
    return result


def _samples(families: Iterable[object]) -> Iterable[tuple[str, dict[str, str], float]]:
    for family in families:
        for sample in family.samples:  # type: ignore[attr-defined]
            yield sample.name, sample.labels, sample.value
