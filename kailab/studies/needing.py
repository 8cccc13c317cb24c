"""What quotas each queue would need: the GPUs that its jobs ask for at once, were each begun as it arrives."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kailab.replay.job import WHOLE
from kailab.replay.trace import Trace

PART = 0.99
"""Of the time in which a queue asks for anything: for so much of it the need is enough."""


def needs(trace: Trace, of_team: Mapping[str, str]) -> dict[str, int]:
    """Queue -> whole GPUs that are enough for ``PART`` of its time. ``of_team``: team -> queue."""
    changes: dict[str, dict[int, int]] = {name: {} for name in of_team.values()}
    for job in trace.jobs:
        own = changes[of_team[job.team]]
        own[job.arrival] = own.get(job.arrival, 0) + job.milli
        own[job.arrival + job.seconds] = own.get(job.arrival + job.seconds, 0) - job.milli
    return {name: _enough(own) for name, own in sorted(changes.items())}


def quotas_by_need(needed: Mapping[str, int], gpus: int, first: Collection[str]) -> dict[str, int]:
    """Queue -> whole GPUs, no more than there are in all. The queues ``first`` get what they need, or as much of it as there is; the others
    share the rest in proportion to their need, and have no more than that."""
    own = {name: amount for name, amount in needed.items() if name in first}
    quotas = _shared(own, gpus)
    rest = {name: amount for name, amount in needed.items() if name not in first}
    return {**quotas, **_shared(rest, gpus - sum(quotas.values()))}


def _shared(needed: Mapping[str, int], gpus: int) -> dict[str, int]:
    total = sum(needed.values())
    if total <= gpus:
        return dict(needed)
    return {name: gpus * amount // total for name, amount in needed.items()}


def _enough(changes: Mapping[int, int]) -> int:
    """Rounded up to whole GPUs."""
    lasting: dict[int, int] = {}
    held, since = 0, None
    for at in sorted(changes):
        if since is not None and held:
            lasting[held] = lasting.get(held, 0) + at - since
        held, since = held + changes[at], at
    left = PART * sum(lasting.values())
    for amount in sorted(lasting):
        left -= lasting[amount]
        if left <= 0:
            return -(-amount // WHOLE)
    return 0
