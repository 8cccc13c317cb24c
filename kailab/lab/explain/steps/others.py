"""Room made by others: workloads that are scaled down or go. Named, and the last thing to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kailab.cluster.protocol import Object
from kailab.evidence.entries import PodRow
from kailab.lab.explain.steps.proposal import Change, Disturbance, Proposal, Way, delete, patch
from kailab.lab.explain.steps.setting import Setting, named
from kailab.lab.wording import count, gpus, some
from kailab.model.kinds import KINDS, kind_key

SINGLE = 6
"""Workloads that are tried each by itself."""
LEVELS = 64
"""Numbers of pods by which a workload is scaled down that are tried."""


def make_room(setting: Setting) -> Iterator[Way]:
    """One workload scaled down or deleted, the least that is enough; else several."""
    workloads = sorted(setting.others.values(), key=lambda one: _order(setting, one))
    for obj, rows in workloads[:SINGLE]:
        yield Way(tuple(_less_of(obj, rows)), grows=True)
    if len(workloads) > 1:
        several = [_gone(workloads[:number]) for number in range(2, min(len(workloads), 64) + 1)]
        yield Way(tuple(several), grows=True, last=True)


def send_away_who_waits(setting: Setting) -> Iterator[Way]:
    """Delete what is served before it and waits, and what was evicted for."""
    for obj in setting.ahead[:SINGLE]:
        yield Way((Proposal(f"Delete {named(obj)}, which is served before it", (delete(obj),), Disturbance.OTHERS),))


def _order(setting: Setting, one: tuple[Object, list[PodRow]]) -> tuple[bool, bool, int, str]:
    """Whatever it was evicted for first, then who holds something where it may run, or in its queue; of those who holds least, but
    enough."""
    obj, rows = one
    held = sum(row.milli_gpus for row in rows)
    enough = held >= setting.asked.gpu
    groups = {row.podgroup for row in rows}
    near = bool(groups & setting.holders) or any(row.queue in setting.line for row in rows)
    beneficiary = obj["metadata"]["name"] in setting.beneficiaries
    return not beneficiary, not near, held if enough else 10**12 - held, named(obj)


def _less_of(obj: Object, rows: Sequence[PodRow]) -> Iterator[Proposal]:
    known = KINDS.get(kind_key(obj))
    replicas = obj.get("spec", {}).get("replicas")
    if known is not None and known.scalable and isinstance(replicas, int) and replicas > 1:
        apart = -(-replicas // LEVELS)
        for fewer in range(1, replicas, apart):
            left = replicas - fewer
            do = f"Scale {named(obj)} down from {replicas} to {left}, which ends {count(fewer, 'pod')} of it"
            yield Proposal(do, (patch(obj, {"spec": {"replicas": left}}),), Disturbance.OTHERS)
    held = gpus(sum(row.milli_gpus for row in rows))
    yield Proposal(f"Delete {named(obj)}, which holds {held}", (delete(obj),), Disturbance.OTHERS)


def _gone(workloads: Sequence[tuple[Object, list[PodRow]]]) -> Proposal:
    changes: list[Change] = [delete(obj) for obj, _ in workloads]
    names = some([named(obj) for obj, _ in workloads])
    return Proposal(f"Delete {names}", tuple(changes), Disturbance.OTHERS)
