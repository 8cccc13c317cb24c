"""How queues stood over time, as the scheduler itself has it: what each held, against its fair share and its quota."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
from msgspec import structs

from kailab.engine.decisions import QueueState
from kailab.replay.job import HOUR, WHOLE
from kailab.scheduler.cycle_record import CycleRecord
from kailab.scheduler.observers import Observer


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


class Standings(Observer):
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
        return Fairness(jain=jain([held / fair for held, fair, _ in self._sums.values() if fair > 0]), queues=queues)


def rounded(exact: Fairness) -> Fairness:
    """As it is told: to a thousandth."""
    queues = [
        structs.replace(one, held=round(one.held, 3), fair=round(one.fair, 3), short=round(one.short, 3))
        for one in exact.queues
    ]
    return structs.replace(exact, queues=queues)


def jain(parts: Sequence[float]) -> float | None:
    """Jain's index of fairness. Source: Jain, Chiu, Hawe, "A Quantitative Measure of Fairness", DEC-TR-301, 1984.

    >>> jain([1, 1, 1]), jain([3, 0, 0]), jain([])
    (1.0, 0.3333, None)
    """
    squares = sum(part * part for part in parts)
    return round(sum(parts) ** 2 / (len(parts) * squares), 4) if squares else None
