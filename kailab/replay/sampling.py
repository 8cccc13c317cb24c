"""When to look at what holds from one moment to the next, so that it is seen as of every so many seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil, isfinite

import msgspec
from msgspec import structs

from kailab.engine.decisions import QueueState
from kailab.engine.policies.scoring import device_room, label_texts
from kailab.engine.working.layout import CPU
from kailab.evidence.metrics.families import SeriesCollector
from kailab.evidence.metrics.openmetrics import MOST_SAMPLES
from kailab.lab import Lab
from kailab.lab.metric_samples import sample_metrics
from kailab.model.labels import GPU_PRODUCT
from kailab.policies.fragmentation import TypicalWorkload, fragments
from kailab.replay.job import HOUR, WHOLE
from kailab.scheduler.cycle_record import CycleRecord
from kailab.scheduler.observers import DecidingScheduler, Observer


class SamplePoints:
    """Points of time ``interval`` seconds apart, from the first look on."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._next: float | None = None

    def points(self, now: float, until: float) -> int:
        """How many of them are in the time that begins ``now`` and goes to ``until``, infinite where nothing is to happen any more: there the next one alone counts.

        >>> sampling = Sampling(10)
        >>> sampling.points(0, 1), sampling.points(1, 9), sampling.points(9, 35), sampling.points(35, float("inf"))
        (1, 0, 3, 1)
        """
        if self._next is None:
            self._next = now
        if self._next >= until:
            return 0
        found = ceil((until - self._next) / self._interval) if isfinite(until) else 1
        self._next += found * self._interval
        return found


# What metrics tell of a replay over time, as they would of any lab.


class MetricsSampler:
    """Looks at a lab so often that what it tells holds every ``interval`` seconds of its time."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self.series = SeriesCollector()
        self._sampling = SamplePoints(interval)

    @property
    def every(self) -> float:
        """Seconds between two samples of what was seen: longer than the interval where these would be too many."""
        return max(self._interval, self.series.end / MOST_SAMPLES)

    def look(self, lab: Lab, until: float) -> None:
        """Where it is time for it before ``until``, when something may be otherwise."""
        if self._sampling.points(lab.now, until):
            self.take(lab)

    def take(self, lab: Lab) -> None:
        """Look in any case."""
        self.series.take(sample_metrics(lab))


# How fragmented the free GPUs are over time, by FGD's measure: to the pods that the trace has, which part of what is free is of no use.


class Fragmentation(msgspec.Struct, frozen=True, kw_only=True):
    """Expected fragments as parts of all GPUs of the fleet, and of the free ones: the mean over ``samples``, which are as far apart in time, and the last."""

    samples: int
    of_all: float
    of_free: float
    last_of_all: float
    last_of_free: float


class FragmentationSampler(Observer):
    """Looks at the nodes so often that what it tells holds every ``interval`` seconds."""

    def __init__(self, workload: Sequence[TypicalWorkload], interval: int, gpus: int) -> None:
        self._workload = workload
        self._sampling = SamplePoints(interval)
        self._total = gpus * WHOLE
        self._scheduler: DecidingScheduler | None = None
        self._found: list[tuple[float, float, int]] = []

    def on_begin(self, scheduler: DecidingScheduler) -> None:
        self._scheduler = scheduler

    def look(self, now: float, until: float) -> None:
        """Where it is time for it before ``until``, when something may be otherwise."""
        if points := self._sampling.points(now, until):
            self.take(points)

    def take(self, points: int = 0) -> None:
        """Look in any case; it counts for so many samples."""
        if self._scheduler is None or not self._total:
            return
        table = self._scheduler.mirror.working.table
        devices = device_room(table)
        lost = fragments(devices, table.idle[CPU], label_texts(table, GPU_PRODUCT), self._workload)
        self._found.append((float(lost.sum()), float(devices.sum()), points))

    def summary(self) -> Fragmentation | None:
        """None where there was nothing to look at."""
        if not self._found:
            return None
        parts = [(lost / self._total, lost / free if free else 0.0) for lost, free, _ in self._found]
        counts = [points for _, _, points in self._found]
        samples = sum(counts)
        return Fragmentation(
            samples=samples,
            of_all=round(
                sum(part * count for (part, _), count in zip(parts, counts, strict=True)) / max(1, samples), 4
            ),
            of_free=round(
                sum(part * count for (_, part), count in zip(parts, counts, strict=True)) / max(1, samples), 4
            ),
            last_of_all=round(parts[-1][0], 4),
            last_of_free=round(parts[-1][1], 4),
        )


# How queues stood over time, as the scheduler itself has it: what each held, against its fair share and its quota.


class QueueFairness(msgspec.Struct, frozen=True, kw_only=True):
    """GPU-hours of a queue: ``held``, and ``fair``, what its fair share came to over time. ``short``: GPUs that it had less than its quota while it asked for them, in
    the mean over all time."""

    name: str
    held: float
    fair: float
    short: float


class Fairness(msgspec.Struct, frozen=True, kw_only=True):
    """``jain``: Jain's index of what queues held by their fair share, of those that had one: 1 where all got alike, 1/n where one got all. None without such."""

    jain: float | None
    queues: list[QueueFairness]


class FairnessSampler(Observer):
    """Sums up cycle by cycle: what queues ask for and may have when one begins, and what they hold when it is through, holds until the next begins."""

    def __init__(self) -> None:
        self._last: tuple[float, Sequence[tuple[QueueState, float]]] | None = None
        self._begun: float | None = None
        self._sums: dict[str, list[float]] = {}

    def on_cycle(self, record: CycleRecord) -> None:
        self.until(record.now)
        decisions = record.decisions
        parents = {queue.parent for queue in decisions.queues}
        gained: Counter[str] = Counter()
        for bind in decisions.binds:
            gained[bind.queue] += bind.amounts.gpu
        for eviction in decisions.evictions:
            gained[eviction.queue] -= eviction.amounts.gpu
        self._last = (
            record.now,
            [(one, one.gpu.allocated + gained[one.name]) for one in decisions.queues if one.name not in parents],
        )

    def until(self, now: float) -> None:
        """Time has come to ``now``."""
        if self._begun is None:
            self._begun = now
        if self._last is None:
            return
        since, queues = self._last
        for queue, holds in queues:
            gpu = queue.gpu
            wanted = 0 if gpu.quota < 0 else min(gpu.quota, gpu.requested)
            sums = self._sums.setdefault(queue.name, [0.0, 0.0, 0.0])
            for index, amount in enumerate((holds, gpu.fair_share, max(0, wanted - holds))):
                sums[index] += amount * (now - since)
        self._last = now, queues

    def fairness(self, now: float) -> Fairness:
        """As of ``now``, not rounded."""
        self.until(now)
        span = now - (self._begun or now)
        queues = [
            QueueFairness(
                name=name,
                held=held / WHOLE / HOUR,
                fair=fair / WHOLE / HOUR,
                short=short / WHOLE / span if span else 0.0,
            )
            for name, (held, fair, short) in sorted(self._sums.items())
        ]
        return Fairness(
            jain=jain_index([held / fair for held, fair, _ in self._sums.values() if fair > 0]), queues=queues
        )


def rounded_fairness(exact: Fairness) -> Fairness:
    """As it is told: to a thousandth."""
    queues = [
        structs.replace(one, held=round(one.held, 3), fair=round(one.fair, 3), short=round(one.short, 3))
        for one in exact.queues
    ]
    return structs.replace(exact, queues=queues)


def jain_index(parts: Sequence[float]) -> float | None:
    """Jain's index of fairness. Source: Jain, Chiu, Hawe, "A Quantitative Measure of Fairness", DEC-TR-301, 1984.

    >>> jain([1, 1, 1]), jain([3, 0, 0]), jain([])
    (1.0, 0.3333, None)
    """
    squares = sum(part * part for part in parts)
    return round(sum(parts) ** 2 / (len(parts) * squares), 4) if squares else None
