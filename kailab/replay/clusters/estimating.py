"""When there would be room for a job in a cluster, by what runs and waits there and the run times that jobs tell.

An estimate: jobs begin in the order in which they came, none overtakes another, and the GPUs are one heap without nodes, quotas and evictions."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable
from math import inf

from kailab.replay.job import TraceJob
from kailab.replay.work import Accounts, Work

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


def running(accounts: Accounts, models: Collection[str], now: int) -> list[tuple[float, int]]:
    """What holds GPUs of these models (any where empty): seconds until its end, and milli-GPU."""
    return [
        (_left(work, life.index, life.begun, now, accounts.endless), work.milli)
        for work, life in accounts.live()
        if not models or life.model in models
    ]


def before(
    accounts: Accounts, models: Collection[str], in_vain: Collection[str], until: Work | None = None
) -> list[Wanted]:
    """What waits for GPUs of these models, in the order in which it came, up to ``until``; without the jobs that wait ``in_vain``."""
    found: list[Wanted] = []
    for work in accounts.unfinished.values():
        if work is until:
            break
        missing = work.pods - work.done - len(work.lives)
        if missing and work.name not in in_vain and may_take(work.job, models):
            found.append((missing * work.milli, inf if accounts.endless else work.job.seconds))
    return found


def may_take(job: TraceJob, models: Collection[str]) -> bool:
    """Whether it may run where somebody else wants to: on one of ``models``, any where empty."""
    return not models or not job.models or any(model in models for model in job.models)


def _left(work: Work, index: int, begun: int | None, now: int, endless: bool) -> float:
    if endless:
        return inf
    todo = work.job.seconds - work.saved.get(index, 0)
    return todo if begun is None else max(0, begun + todo - now)
