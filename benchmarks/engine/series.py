"""Series of set-ups at several sizes, and the exponent of the growth of their times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import log

from benchmarks.engine import setups
from benchmarks.engine.cluster import GPUS_PER_NODE
from benchmarks.engine.measure import measure
from benchmarks.engine.published import Figures
from benchmarks.engine.setups import CycleOutcome, Setup

Point = tuple[float, float]
"""A size and the milliseconds it took."""


@dataclass(frozen=True, slots=True)
class BenchmarkSeries:
    """``make(size)``: the set-up of a size. ``kai``: name of a set-up with a published time of KAI -> its size here."""

    key: str
    title: str
    axis: str
    sizes: tuple[int, ...]
    make: Callable[[int], Setup]
    kai: dict[str, int]


@dataclass(frozen=True, slots=True)
class Growth:
    """``ours``, ``kai``: measured points; ``capped``: sizes at which KAI did not end within the cap."""

    series: BenchmarkSeries
    ours: tuple[Point, ...]
    kai: tuple[Point, ...]
    capped: tuple[Point, ...]


def exponent(points: Sequence[Point]) -> float | None:
    """Of time = c * size**e: the slope of the least-squares line through the logarithms. None for less than three points.

    >>> round(exponent([(1, 5.0), (10, 500.0), (100, 50_000.0)]), 3)
    2.0
    """
    if len(points) < 3:
        return None
    xs, ys = [log(size) for size, _ in points], [log(time) for _, time in points]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - mean_x) ** 2 for x in xs)
    return sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / spread


def grow(series: BenchmarkSeries, figures: Figures) -> Growth:
    """Measure all sizes. Raises WrongOutcome."""
    ours = tuple((float(size), 1000 * measure(series.make(size)).actions) for size in series.sizes)
    kai, capped = [], []
    for name, size in series.kai.items():
        milliseconds = figures.by_setup[name].milliseconds
        if milliseconds is None:
            capped.append((float(size), figures.cap))
        else:
            kai.append((float(size), milliseconds))
    return Growth(series, ours, tuple(kai), tuple(capped))


NODES = (10, 20, 50, 100, 200, 500, 1000)
KAI_NODES = (10, 50, 100, 200, 500)

_CLUSTER = 125  # nodes where the number of queues varies: 1,000 GPUs, a job for each
_VICTIMS = 500  # nodes where the number of victims varies


def _filled(jobs: int) -> Setup:
    return setups.allocate(jobs // GPUS_PER_NODE, jobs)


def _queues(number: int) -> Setup:
    jobs = _CLUSTER * GPUS_PER_NODE
    build = partial(setups.idle, _CLUSTER, jobs, number, min(number, 5))
    return setups.cycle(f"queues-{number}", build, CycleOutcome(bound=jobs), "allocate")


def _victims(number: int) -> Setup:
    return setups.reclaim_gang(_VICTIMS, number // GPUS_PER_NODE)


SERIES = (
    BenchmarkSeries(
        "unschedulable",
        "F: a gang that reclaim can't help",
        "nodes",
        (*NODES, 2000),
        setups.hopeless,
        {f"F-{n}": n for n in (*KAI_NODES, 1000)},
    ),
    BenchmarkSeries(
        "gang",
        "H: a gang reclaims half of the cluster",
        "nodes",
        NODES,
        setups.reclaim_gang,
        {f"H-{n}": n for n in (*KAI_NODES, 1000)},
    ),
    BenchmarkSeries(
        "many",
        "I: one-GPU jobs reclaim all of it",
        "nodes",
        NODES,
        setups.reclaim_single,
        {f"I-{n}": n for n in KAI_NODES},
    ),
    BenchmarkSeries(
        "jobs",
        "A: one-GPU jobs fill a cluster",
        "jobs",
        (80, 400, 800, 4_000, 16_000, 40_000),
        _filled,
        {"A-10": 50, "A-50": 200, "A-100": 500},
    ),
    BenchmarkSeries(
        "queues",
        "1,000 jobs, 125 nodes, more queues",
        "queues",
        (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
        _queues,
        {},
    ),
    BenchmarkSeries(
        "victims",
        "H on 500 nodes: a larger gang",
        "victims",
        (8, 16, 40, 80, 160, 400, 800, 2_000, 4_000),
        _victims,
        {},
    ),
)
