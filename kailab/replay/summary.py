"""What a replay is told by: waiting, completion and GPU time, over all, by queue and by size of job.

Seconds are the lab's; GPU-hours and shares are rounded for telling only. Nothing in it depends on the machine, so the same trace gives the same text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf, isfinite
from typing import Any

import msgspec

from kailab.evidence.metrics.families import percentile
from kailab.replay import sampling
from kailab.replay.accounts import GpuTimeBalance, ReplayedJob, UnstartedJobs
from kailab.replay.costs import ReplayCost, replay_cost, rounded_cost
from kailab.replay.job import HOUR, WHOLE
from kailab.replay.run import CompletedReplay
from kailab.replay.sampling import Fairness, Fragmentation
from kailab.replay.trace import Trace

LEAST_SECONDS = 10
"""Of the bounded slowdown: shorter jobs count as if they ran so long (Feitelson and Rudolph)."""
_INTERVALS = {"1m": 60, "10m": 600, "30m": 1800, "1h": 3600, "6h": 21_600}
_BOUNDS = (0, 1, 2, 4, 8, 16, 32, 64)


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """Of some numbers: percentiles are those of the nearest rank, so each is a number that there was."""

    mean: float
    p50: float
    p99: float
    most: float


class WaitTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Of all jobs that arrived, in seconds: one that never began waits without end, which is None here."""

    mean: float | None
    p50: float | None
    p99: float | None
    most: float | None


class SummaryRow(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs of one sort. ``waited``: seconds from arrival until all pods ran, of those that began; None where none did; ``waits``: that with those that never did. ``took``: seconds from arrival to end, and ``slowdown``: that by the
    run time in the trace, bounded; of those that ended. ``asked`` and ``lost``: GPU-hours."""

    name: str
    jobs: int
    began: int
    ended: int
    waited: Distribution | None
    waits: WaitTimes | None
    took: Distribution | None
    slowdown: Distribution | None
    evictions: int
    asked: float
    lost: float


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """``balance``: in milli-GPU-seconds. ``allocated``: the mean part of the fleet's GPUs that was bound, over all time and until the last
    arrival. ``in_trace``: jobs that there are; with a replay that was cut off not all arrived. ``left_out``: lines of the trace that gave no job,
    by their reason. ``goodput``: the part of the GPU time held that is work that counts. ``lost_with_checkpoints``: GPU-hours that evictions would have
    lost, had pods saved their work so often and all else gone the same way. ``costs``: None without a price file."""

    trace: str
    form: str
    fleet: str
    gpus: int
    seconds: int
    cycles: int
    allocated: float
    allocated_arriving: float
    in_trace: int
    broken_lines: int
    left_out: dict[str, int]
    total: SummaryRow
    queues: list[SummaryRow]
    sizes: list[SummaryRow]
    balance: GpuTimeBalance
    goodput: float
    lost_with_checkpoints: dict[str, float]
    fairness: Fairness
    fragmentation: Fragmentation | None
    costs: ReplayCost | None
    unbegun: list[UnstartedJobs] = []

    @property
    def cost(self) -> float | None:
        return None if self.costs is None else self.costs.cost

    @property
    def kwh(self) -> float | None:
        return None if self.costs is None else self.costs.kwh


def summarise(replayed: CompletedReplay) -> Summary:
    """The figures of a replay."""
    works = list(replayed.accounts.works.values())
    trace = replayed.plan.trace
    return Summary(
        trace=trace.file,
        form=trace.form,
        fleet=replayed.plan.fleet.name,
        gpus=replayed.gpus,
        seconds=replayed.ended - replayed.began,
        cycles=replayed.cycles,
        allocated=allocated(replayed, replayed.ended),
        allocated_arriving=allocated(replayed, min(replayed.last_arrival, replayed.ended)),
        in_trace=len(trace.jobs),
        broken_lines=len(trace.broken),
        left_out=left_out(trace),
        total=row_of("all", works),
        queues=rows_by(works, lambda work: work.queue),
        sizes=rows_by_size(works),
        balance=replayed.balance,
        goodput=round(replayed.balance.done / replayed.balance.held, 4) if replayed.balance.held else 1.0,
        lost_with_checkpoints={
            name: gpu_hours(replayed.accounts.lost_with(seconds)) for name, seconds in _INTERVALS.items()
        },
        fairness=sampling.rounded_fairness(replayed.fairness),
        fragmentation=replayed.fragmentation,
        costs=None if (costs := costs_of(replayed)) is None else rounded_cost(costs),
        unbegun=list(replayed.unbegun),
    )


def left_out(trace: Trace) -> dict[str, int]:
    """Reason -> how many lines gave no job for it."""
    found: dict[str, int] = {}
    for one in trace.left_out:
        reason = "can't be read" if one.broken else one.reason
        found[reason] = found.get(reason, 0) + 1
    return found


def costs_of(replayed: CompletedReplay) -> ReplayCost | None:
    """Not rounded; None without prices."""
    plan, ended = replayed.plan, replayed.ended
    if plan.prices is None:
        return None
    span = ended - replayed.began
    return replay_cost(plan.prices, plan.fleet, replayed.accounts, ended, span, replayed.balance.done)


def allocated(replayed: CompletedReplay, until: int) -> float:
    """The mean part of the fleet's GPUs that was bound from the first arrival until a moment."""
    timeline = replayed.accounts.timeline
    total = 0
    ends = [entry[0] for entry in timeline[1:]] + [replayed.ended]
    for (at, held, _, _), end in zip(timeline, ends, strict=True):
        total += held * max(0, min(end, until) - at)
    span = (until - replayed.began) * replayed.gpus * WHOLE
    return round(total / span, 4) if span > 0 else 0.0


def size(work: ReplayedJob) -> str:
    """The name of its class by GPUs."""
    milli = work.job.milli
    if not milli:
        return "no GPU"
    if milli < WHOLE:
        return "part of a GPU"
    gpus = -(-milli // WHOLE)
    return _class(next((low for low in reversed(_BOUNDS) if gpus > low), 0))


def _class(low: int) -> str:
    index = _BOUNDS.index(low)
    if index == len(_BOUNDS) - 1:
        return f"more than {low} GPUs"
    high = _BOUNDS[index + 1]
    return f"{high} GPU{'s' if high > 1 else ''}" if high - low == 1 else f"{low + 1}-{high} GPUs"


def _sizes() -> list[str]:
    return ["no GPU", "part of a GPU", *(_class(low) for low in _BOUNDS)]


def rows_by(works: Sequence[ReplayedJob], key: Callable[[ReplayedJob], str]) -> list[SummaryRow]:
    """Of each sort, in the order of their names."""
    grouped: dict[str, list[ReplayedJob]] = {}
    for work in works:
        grouped.setdefault(key(work), []).append(work)
    return [row_of(name, grouped[name]) for name in sorted(grouped)]


def rows_by_size(works: Sequence[ReplayedJob]) -> list[SummaryRow]:
    """Of each size that there is, in the order of their sizes."""
    return [row for name in _sizes() if (row := row_of(name, [work for work in works if size(work) == name])).jobs]


def row_of(name: str, works: Iterable[ReplayedJob]) -> SummaryRow:
    """Of these jobs."""
    works = list(works)
    ended = [work for work in works if work.ended is not None]
    return SummaryRow(
        name=name,
        jobs=len(works),
        began=sum(1 for work in works if work.began is not None),
        ended=len(ended),
        waited=spread([work.began - work.arrived for work in works if work.began is not None]),
        waits=_waits(works),
        took=spread([_took(work) for work in ended]),
        slowdown=spread([max(1.0, _took(work) / max(LEAST_SECONDS, work.job.seconds)) for work in ended]),
        evictions=sum(work.evictions for work in works),
        asked=gpu_hours(sum(work.job.demand for work in works)),
        lost=gpu_hours(sum(work.lost for work in works)),
    )


def _waits(works: Sequence[ReplayedJob]) -> WaitTimes | None:
    found = spread([inf if work.began is None else work.began - work.arrived for work in works])
    if found is None:
        return None
    return WaitTimes(
        **{
            name: value if isfinite(value) else None
            for name in WaitTimes.__struct_fields__
            for value in (getattr(found, name),)
        }
    )


def _took(work: ReplayedJob) -> int:
    assert work.ended is not None
    return work.ended - work.arrived


def gpu_hours(milli_seconds: int) -> float:
    """Milli-GPU-seconds as GPU-hours, for telling."""
    return round(milli_seconds / WHOLE / HOUR, 3)


def spread(numbers: Sequence[float]) -> Distribution | None:
    """None of no numbers."""
    if not numbers:
        return None
    ordered = sorted(numbers)
    return Distribution(
        mean=round(sum(ordered) / len(ordered), 3),
        p50=round(percentile(ordered, 50), 3),
        p99=round(percentile(ordered, 99), 3),
        most=round(ordered[-1], 3),
    )


def as_json(found: Summary) -> dict[str, Any]:
    """Plain values."""
    data: dict[str, Any] = msgspec.to_builtins(found)
    return data
