"""How fragmented the free GPUs are over time, by FGD's measure: to the pods that the trace has, which part of what is free is of no use."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kailab.engine.policies.scoring import device_room, label_texts
from kailab.engine.working.layout import CPU
from kailab.model.labels import GPU_PRODUCT
from kailab.policies.fragmentation import TypicalWorkload, fragments
from kailab.replay.job import WHOLE
from kailab.replay.sampling import Sampling
from kailab.scheduler.observers import Deciding, Observer


class Fragmentation(msgspec.Struct, frozen=True, kw_only=True):
    """Expected fragments as parts of all GPUs of the fleet, and of the free ones: the mean over ``samples``, which are as far apart in time, and the last."""

    samples: int
    of_all: float
    of_free: float
    last_of_all: float
    last_of_free: float


class FragmentSamples(Observer):
    """Looks at the nodes so often that what it tells holds every ``interval`` seconds."""

    def __init__(self, workload: Sequence[TypicalWorkload], interval: int, gpus: int) -> None:
        self._workload = workload
        self._sampling = Sampling(interval)
        self._total = gpus * WHOLE
        self._scheduler: Deciding | None = None
        self._found: list[tuple[float, float, int]] = []

    def on_begin(self, scheduler: Deciding) -> None:
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
