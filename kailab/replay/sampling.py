"""Samples of a running replay: metrics, fragmentation of free GPUs, and fairness between queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil, isfinite

import msgspec
from msgspec import structs

from kailab.engine.decisions import QueueState
from kailab.engine.policies.node_scores import device_room, label_texts
from kailab.engine.working.layout import CPU, GPUS
from kailab.evidence.metrics.families import MOST_SAMPLES, SeriesCollector
from kailab.lab import Lab
from kailab.lab.metric_samples import sample_metrics
from kailab.model.labels import GPU_PRODUCT
from kailab.policies.fragmentation import TypicalWorkload, fragments
from kailab.replay.job import HOUR, WHOLE
from kailab.scheduler.cycle_record import CycleRecord
from kailab.scheduler.observers import DecidingScheduler, Observer


class SamplePoints:
    """Points in time ``interval`` seconds apart, starting with the first query."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._next: float | None = None

    def points(self, now: float, until: float) -> int:
        """The number of points in [``now``, ``until``). If ``until`` is infinite, only the next point counts.

        >>> sampling = SamplePoints(10)
        >>> sampling.points(0, 1), sampling.points(1, 9), sampling.points(9, 35), sampling.points(35, float("inf"))
        (1, 0, 3, 1)
        """
        if self._next is None:
            self._next = now
        if self._next >= until:
            return 0
        number = ceil((until - self._next) / self._interval) if isfinite(until) else 1
        self._next += number * self._interval
        return number


class MetricsSampler:
    """Samples the metrics of a lab so that the series is valid at every ``interval`` seconds of lab time."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self.series = SeriesCollector()
        self._sampling = SamplePoints(interval)

    @property
    def every(self) -> float:
        """Seconds between two samples in the output; longer than the interval if there would be too many samples."""
        return max(self._interval, self.series.end / MOST_SAMPLES)

    def sample_if_due(self, lab: Lab, until: float) -> None:
        """Take a sample if one is due before ``until``, when the state may change."""
        if self._sampling.points(lab.now, until):
            self.sample(lab)

    def sample(self, lab: Lab) -> None:
        """Take a sample unconditionally."""
        self.series.add_snapshot(sample_metrics(lab))


class Fragmentation(msgspec.Struct, frozen=True, kw_only=True):
    """Expected fragmentation (FGD's measure) as a part of all GPUs and of the free GPUs: the mean over equally spaced
    samples, and the last."""

    samples: int
    of_all: float
    of_free: float
    last_of_all: float
    last_of_free: float


class FragmentationSampler(Observer):
    """Samples how much of the free GPUs the trace's typical pods could not use (FGD's measure), every ``interval``
    seconds."""

    def __init__(self, workload: Sequence[TypicalWorkload], interval: int, gpus: int) -> None:
        self._workload = workload
        self._sampling = SamplePoints(interval)
        self._total = gpus * WHOLE
        self._scheduler: DecidingScheduler | None = None
        self._samples: list[tuple[float, float, int]] = []
        self._seen: tuple[int, bytes] | None = None  # the nodes of the last sample, if no device was shared

    def on_begin(self, scheduler: DecidingScheduler) -> None:
        self._scheduler = scheduler

    def sample_if_due(self, now: float, until: float) -> None:
        """Take a sample if one is due before ``until``, when the state may change."""
        if points := self._sampling.points(now, until):
            self.sample(points)

    def sample(self, points: int = 0) -> None:
        """Take a sample unconditionally; it counts for ``points`` samples."""
        if self._scheduler is None or not self._total:
            return
        # What the latest cycle bound is in the cluster, and not yet in the scheduler's records.
        self._scheduler.mirror.update()
        working = self._scheduler.mirror.working
        table = working.table
        seen = None if table.shares.nodes else (working.table_version, table.idle[[CPU, GPUS]].tobytes())
        # Most changes of a full cluster leave every node as full as it was.
        if seen is not None and seen == self._seen:
            self._samples.append((*self._samples[-1][:2], points))
            return
        self._seen = seen
        devices = device_room(table)
        lost = fragments(devices, table.idle[CPU], label_texts(table, GPU_PRODUCT), self._workload)
        self._samples.append((float(lost.sum()), float(devices.sum()), points))

    def summary(self) -> Fragmentation | None:
        """None if nothing was sampled."""
        if not self._samples:
            return None
        parts = [(lost / self._total, lost / free if free else 0.0) for lost, free, _ in self._samples]
        counts = [points for _, _, points in self._samples]
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


class QueueFairness(msgspec.Struct, frozen=True, kw_only=True):
    """GPU-hours that a queue ``held``, and the integral of its ``fair`` share. ``short``: GPUs that it asked for within
    its quota and did not hold, the mean over the time in which it asked for GPUs."""

    name: str
    held: float
    fair: float
    short: float


class Fairness(msgspec.Struct, frozen=True, kw_only=True):
    """``jain``: Jain's index of GPU time held per fair share, over queues with a fair share: 1 if all got the same, 1/n
    if one got everything, None without such queues."""

    jain: float | None
    queues: list[QueueFairness]


class FairnessSampler(Observer):
    """Integrates the scheduler's view of each queue: requests and fair shares at the beginning of a cycle and holdings
    at its end are valid until the next cycle. An evicted pod holds its GPUs until it is gone."""

    def __init__(self) -> None:
        self._last: tuple[float, Sequence[tuple[QueueState, float]]] | None = None
        self._sums: dict[str, list[float]] = {}

    def on_cycle(self, record: CycleRecord) -> None:
        self.until(record.now)
        decisions = record.decisions
        parents = {child.parent for child in decisions.queues}
        gained: Counter[str] = Counter()
        for bind in decisions.binds:
            gained[bind.queue] += bind.amounts.gpu
        self._last = (
            record.now,
            [
                (queue, queue.gpu.allocated + gained[queue.name])
                for queue in decisions.queues
                if queue.name not in parents
            ],
        )

    def until(self, now: float) -> None:
        """Integrate up to ``now``."""
        if self._last is None:
            return
        since, queues = self._last
        elapsed = now - since
        for queue, holds in queues:
            gpu = queue.gpu
            sums = self._sums.setdefault(queue.name, [0.0, 0.0, 0.0])
            sums[0] += gpu.fair_share * elapsed
            if gpu.requested:
                wanted = 0 if gpu.quota < 0 else min(gpu.quota, gpu.requested)
                sums[1] += max(0, wanted - holds) * elapsed
                sums[2] += elapsed
        self._last = now, queues

    def fairness(self, now: float, used: Mapping[str, int]) -> Fairness:
        """The result up to ``now``, not rounded. ``used``: the milli-GPU-seconds that each queue held."""
        self.until(now)
        queues = [
            QueueFairness(
                name=name,
                held=used.get(name, 0) / WHOLE / HOUR,
                fair=fair / WHOLE / HOUR,
                short=short / WHOLE / asking if asking else 0.0,
            )
            for name, (fair, short, asking) in sorted(self._sums.items())
        ]
        return Fairness(jain=jain_index([queue.held / queue.fair for queue in queues if queue.fair > 0]), queues=queues)


def rounded_fairness(exact: Fairness) -> Fairness:
    """Round to thousandths for output."""
    queues = [
        structs.replace(queue, held=round(queue.held, 3), fair=round(queue.fair, 3), short=round(queue.short, 3))
        for queue in exact.queues
    ]
    return structs.replace(exact, queues=queues)


def jain_index(parts: Sequence[float]) -> float | None:
    """Jain's index of fairness. Source: Jain, Chiu, Hawe, "A Quantitative Measure of Fairness", DEC-TR-301, 1984.

    >>> jain_index([1, 1, 1]), jain_index([3, 0, 0]), jain_index([])
    (1.0, 0.3333, None)
    """
    squares = sum(part * part for part in parts)
    return round(sum(parts) ** 2 / (len(parts) * squares), 4) if squares else None
