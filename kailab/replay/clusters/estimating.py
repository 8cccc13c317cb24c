"""When there would be room for a job in a cluster, by what runs and waits there and the run times that jobs tell.

An estimate: jobs begin in the order in which they came, none overtakes another, and the GPUs are one heap without nodes, quotas and evictions."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable
from math import inf

from kailab.replay.job import TraceJob
from kailab.replay.work import Accounts, Life, Work

Wanted = tuple[int, float]
"""Milli-GPU, and for how many seconds."""


def room_in(free: int, running: Iterable[tuple[float, int]], before: Iterable[Wanted], wanted: int) -> float:
    """Seconds until ``wanted`` milli-GPU are free; who wants none waits for nobody. ``running``: (seconds until its end, milli-GPU) of what holds some; ``before``: who begins first.

    >>> room_in(1000, [(60, 1000), (90, 2000)], [(2000, 100)], 1000)
    90.0
    """
    if not wanted:
        return 0.0
    ends = list(running)
    heapq.heapify(ends)
    at = 0.0
    for milli, seconds in (*before, (wanted, inf)):
        while free < milli:
            if not ends:
                return inf
            end, freed = heapq.heappop(ends)
            at = max(at, end)
            free += freed
        free -= milli
        heapq.heappush(ends, (at + seconds, milli))
    return float(at)


def may_take(job: TraceJob, models: Collection[str]) -> bool:
    """Whether it may run where somebody else wants to: on one of ``models``, any where empty."""
    return not models or not job.models or any(model in models for model in job.models)


def left(accounts: Accounts, work: Work, life: Life, now: int) -> float:
    """Seconds until a pod that is bound ends."""
    if accounts.endless:
        return inf
    return work.job.seconds - work.saved.get(life.index, 0) - accounts.ran(work, life, now)
