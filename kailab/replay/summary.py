"""The figures of a replay: waiting, completion and GPU time, in all, by queue and by job size.

Seconds are lab time. GPU-hours and shares are rounded for output. No figure depends on the machine, so equal inputs
give equal text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf, isfinite

import msgspec

from kailab.evidence.metrics.families import percentile
from kailab.model.multimap import multimap
from kailab.replay import sampling
from kailab.replay.accounts import GpuTimeBalance, ReplayedJob, UnstartedJobs
from kailab.replay.costs import ReplayCost, replay_cost, rounded_cost
from kailab.replay.job import HOUR, WHOLE
from kailab.replay.run import CompletedReplay
from kailab.replay.sampling import Fairness, Fragmentation
from kailab.replay.services import ServedReplicas
from kailab.replay.trace import Trace

LEAST_SECONDS = 10
"""Lower bound of the run time in the bounded slowdown (Feitelson and Rudolph)."""
_INTERVALS = {"1m": 60, "10m": 600, "30m": 1800, "1h": 3600, "6h": 21_600}
_BOUNDS = (0, 1, 2, 4, 8, 16, 32, 64)


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles use the nearest rank, so each is one of the numbers."""

    mean: float
    p50: float
    p99: float
    most: float


class WaitTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Waiting times of all jobs that arrived, in seconds. A job that never began waits forever; that is None here."""

    mean: float | None
    p50: float | None
    p99: float | None
    most: float | None


class SummaryRow(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of one group of jobs.

    ``waited``: seconds from arrival until all pods ran, of jobs that began; ``waits``: the same including jobs that
    never began. ``took``: seconds from arrival to end, of jobs that ended; ``slowdown``: that divided by the run time,
    bounded. ``asked`` and ``lost``: GPU-hours.
    """

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
    """All figures of a replay.

    ``balance``: in milli-GPU-seconds. ``allocated``: mean part of the fleet's GPUs that was bound, over all time;
    ``allocated_arriving``: until the last arrival. ``in_trace``: jobs of the trace, including those that did not arrive
    before a cut-off. ``left_out``: trace lines without a job, by reason. ``goodput``: part of the GPU time held that is
    work that counts. ``lost_with_checkpoints``: GPU-hours that evictions would have lost with that checkpoint interval,
    all else being equal. ``costs``: None without a price file. ``failed_nodes``: failures of nodes, which
    ended ``failed_pods`` of the evicted pods. ``attempts``: pods that ended with an attempt that was not their job's last.
    ``services``: that ran beside the jobs. ``faults``: why the figures are invalid.
    """

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
    services: list[ServedReplicas] = []
    failed_nodes: int = 0
    failed_pods: int = 0
    attempts: int = 0
    faults: list[str] = []

    @property
    def cost(self) -> float | None:
        return None if self.costs is None else self.costs.cost

    @property
    def kwh(self) -> float | None:
        return None if self.costs is None else self.costs.kwh


def summarise(replayed: CompletedReplay) -> Summary:
    """Compute the figures of a replay."""
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
        services=list(replayed.served),
        goodput=round(replayed.balance.done / replayed.balance.held, 4) if replayed.balance.held else 1.0,
        lost_with_checkpoints={
            name: gpu_hours(replayed.accounts.lost_with(seconds)) for name, seconds in _INTERVALS.items()
        },
        fairness=sampling.rounded_fairness(replayed.fairness),
        fragmentation=replayed.fragmentation,
        costs=None if (costs := costs_of(replayed)) is None else rounded_cost(costs),
        unbegun=list(replayed.unbegun),
        failed_nodes=replayed.accounts.failed_nodes,
        failed_pods=replayed.accounts.failed_pods,
        attempts=replayed.accounts.attempts,
        faults=replayed.faults,
    )


def left_out(trace: Trace) -> dict[str, int]:
    """Map each reason to the number of trace lines left out for it."""
    counts: dict[str, int] = {}
    for skipped in trace.left_out:
        reason = "can't be read" if skipped.broken else skipped.reason
        counts[reason] = counts.get(reason, 0) + 1
    return counts


def costs_of(replayed: CompletedReplay) -> ReplayCost | None:
    """The cost without rounding; None without prices."""
    plan, ended = replayed.plan, replayed.ended
    if plan.prices is None:
        return None
    span = ended - replayed.began
    return replay_cost(plan.prices, plan.fleet, replayed.accounts, ended, span, replayed.balance.done)


def allocated(replayed: CompletedReplay, until: int) -> float:
    """The mean part of the fleet's GPUs that was bound, from the first arrival until ``until``."""
    timeline = replayed.accounts.timeline
    total = 0
    ends = [entry[0] for entry in timeline[1:]] + [replayed.ended]
    for (at, held, _, _), end in zip(timeline, ends, strict=True):
        total += held * max(0, min(end, until) - at)
    span = (until - replayed.began) * replayed.gpus * WHOLE
    return round(total / span, 4) if span > 0 else 0.0


def size(work: ReplayedJob) -> str:
    """The size class of a job by GPUs."""
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
    """One row for each value of ``key``, sorted by name."""
    grouped = multimap((key(work), work) for work in works)
    return [row_of(name, grouped[name]) for name in sorted(grouped)]


def rows_by_size(works: Sequence[ReplayedJob]) -> list[SummaryRow]:
    """One row for each size class that occurs, sorted by size."""
    return [row for name in _sizes() if (row := row_of(name, [work for work in works if size(work) == name])).jobs]


def row_of(name: str, works: Iterable[ReplayedJob]) -> SummaryRow:
    """The figures of a group of jobs."""
    works = list(works)
    ended = [work for work in works if work.ended is not None]
    return SummaryRow(
        name=name,
        jobs=len(works),
        began=sum(1 for work in works if work.began is not None),
        ended=len(ended),
        waited=distribution([work.began - work.arrived for work in works if work.began is not None]),
        waits=_waits(works),
        took=distribution([_took(work) for work in ended]),
        slowdown=distribution([max(1.0, _took(work) / max(LEAST_SECONDS, work.job.seconds)) for work in ended]),
        evictions=sum(work.evictions for work in works),
        asked=gpu_hours(sum(work.job.demand for work in works)),
        lost=gpu_hours(sum(work.lost for work in works)),
    )


def _waits(works: Sequence[ReplayedJob]) -> WaitTimes | None:
    waits = distribution([inf if work.began is None else work.began - work.arrived for work in works])
    if waits is None:
        return None
    return WaitTimes(
        **{
            name: value if isfinite(value) else None
            for name in WaitTimes.__struct_fields__
            for value in (getattr(waits, name),)
        }
    )


def _took(work: ReplayedJob) -> int:
    assert work.ended is not None
    return work.ended - work.arrived


def gpu_hours(milli_seconds: int) -> float:
    """Convert milli-GPU-seconds to GPU-hours, rounded for output."""
    return round(milli_seconds / WHOLE / HOUR, 3)


def distribution(numbers: Sequence[float]) -> Distribution | None:
    """The distribution; None for no numbers."""
    if not numbers:
        return None
    ordered = sorted(numbers)
    return Distribution(
        mean=round(sum(ordered) / len(ordered), 3),
        p50=round(percentile(ordered, 50), 3),
        p99=round(percentile(ordered, 99), 3),
        most=round(ordered[-1], 3),
    )
