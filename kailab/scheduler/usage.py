"""Past usage of the cluster by each queue, for time-based fairness.

A queue's usage is its allocation over a window of time as a part of the cluster's capacity in that time, both with decaying weights:
u = sum 0.5^((now-t)/half-life) * allocated(t) / sum 0.5^((now-t)/half-life) * capacity(t). KAI sums samples that Prometheus takes once a
minute. kailab knows that allocations are constant between changes and integrates each interval exactly. As in KAI, the figure is renewed
once per fetch interval (one minute), on the minute.

A ConfigMap holds the history, so a resumed lab continues it. Source: KAI docs/time-based-fairshare, usagedb/prometheus.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from kailab.cluster.protocol import Cluster
from kailab.engine.decisions import QueueState
from kailab.errors import ApiError, NotFound
from kailab.model import decoding
from kailab.model.times import DAY

if TYPE_CHECKING:
    from kailab.model.cron import Cron

NAMESPACE = "kai-scheduler"
CONFIG_MAP = "kailab-queue-usage"
RESOURCES = ("gpu", "cpu", "memory")
MOST_INTERVALS = 512
"""One ConfigMap, which holds 1 MiB at most, has all of them."""

Amounts = tuple[float, float, float]
"""gpu, cpu, memory in engine units."""

Usage = dict[str, dict[str, float]]
"""Queue -> resource -> part of the cluster (0..1)."""


class UsageParams(msgspec.Struct, frozen=True, kw_only=True):
    """All times are in seconds. ``half_life`` None: no decay. A tumbling window starts every ``window`` seconds, counted from
    ``tumbling_start``; a cron window starts at the times of ``cron`` (kailab.model.cron). Source: KAI usagedb UsageParams."""

    window: float = 7 * DAY
    half_life: float | None = None
    window_type: Literal["sliding", "tumbling", "cron"] = "sliding"
    tumbling_start: float = 0.0
    cron: str = ""
    fetch_interval: float = 60.0


class UsageInterval(msgspec.Struct, frozen=True):
    """From ``start`` until the next interval: the cluster's capacity and the allocation of each queue. Queues without any are left out."""

    start: float
    capacity: Amounts
    queues: dict[str, Amounts]


class _Stored(msgspec.Struct):
    pieces: list[UsageInterval]


class UsageHistory:
    """Intervals of constant allocation, oldest first."""

    def __init__(self, cluster: Cluster, params: UsageParams, intervals: Iterable[UsageInterval] = ()) -> None:
        self._cluster = cluster
        self._params = params
        self._cron = _moments(params) if params.window_type == "cron" else None
        self._intervals = list(intervals)
        self._fetched_at: float | None = None
        self._shares: Usage = {}

    @classmethod
    def load(cls, cluster: Cluster, params: UsageParams) -> UsageHistory:
        """Load the history from the ConfigMap; empty if there is none or it can't be read."""
        try:
            stored = cluster.get("ConfigMap", CONFIG_MAP, NAMESPACE)
            intervals = decoding.decode_json((stored.get("data") or {}).get("history", ""), _Stored).pieces
        # A lost history is no reason to stop scheduling.
        except (NotFound, msgspec.DecodeError):
            intervals = []
        return cls(cluster, params, intervals)

    def carry_on(self, other: UsageHistory) -> None:
        """Take over the state of another history."""
        self._intervals = list(other._intervals)
        self._fetched_at, self._shares = other._fetched_at, other._shares

    @property
    def next_refresh(self) -> float | None:
        """When usage is next computed."""
        return None if self._fetched_at is None else self._fetched_at + self._params.fetch_interval

    @property
    def latest(self) -> Usage:
        """The last result of ``shares``."""
        return self._shares

    def shares(self, now: float) -> Usage:
        """Usage of each queue at the end of the last full fetch interval. Schedules the next refresh."""
        self._shares = self.shares_at(now)
        self._fetched_at = self._interval_of(now)
        return self._shares

    def shares_at(self, now: float) -> Usage:
        """As ``shares``, without scheduling the next refresh."""
        fetched_at = self._interval_of(now)
        return self._shares if fetched_at == self._fetched_at else self.compute(fetched_at)

    def _interval_of(self, now: float) -> float:
        interval = self._params.fetch_interval
        # On the minute, so that the figures do not depend on when the process started.
        return math.floor(now / interval) * interval

    def compute(self, now: float) -> Usage:
        """Usage of each queue at ``now``. Time before the first interval counts neither as usage nor as capacity."""
        begin = self._window_start(now)
        capacity = [0.0, 0.0, 0.0]
        allocated: dict[str, list[float]] = {}
        for index, interval in enumerate(self._intervals):
            # The last interval has not ended yet.
            following = self._intervals[index + 1].start if index + 1 < len(self._intervals) else now
            start, end = max(begin, interval.start), min(now, following)
            if end <= start:
                continue
            weight = self._weight(start, end, now)
            for resource in range(3):
                capacity[resource] += weight * interval.capacity[resource]
            for queue, amounts in interval.queues.items():
                sums = allocated.setdefault(queue, [0.0, 0.0, 0.0])
                for resource in range(3):
                    sums[resource] += weight * amounts[resource]
        return {
            queue: {
                name: sums[resource] / capacity[resource] if capacity[resource] else 0.0
                for resource, name in enumerate(RESOURCES)
            }
            for queue, sums in sorted(allocated.items())
        }

    def observe(self, now: float, queues: Iterable[QueueState], capacity: Mapping[str, int]) -> bool:
        """Record the allocation from ``now`` on. Returns whether it differs from the last one and was saved."""
        total = (float(capacity["gpu"]), float(capacity["cpu"]), float(capacity["memory"]))
        allocated: dict[str, Amounts] = {}
        for queue in queues:
            amounts = (float(queue.gpu.allocated), float(queue.cpu.allocated), float(queue.memory.allocated))
            if any(amounts):
                allocated[queue.name] = amounts
        last = self._intervals[-1] if self._intervals else None
        if last is not None and last.capacity == total and last.queues == allocated:
            return False
        interval = UsageInterval(now, total, dict(sorted(allocated.items())))
        # Of several cycles at one time only the last one has a duration.
        if last is not None and last.start == now:
            self._intervals[-1] = interval
        else:
            self._intervals.append(interval)
        self._prune(now)
        self._save()
        return True

    def _window_start(self, now: float) -> float:
        params = self._params
        if params.window_type == "sliding":
            return now - params.window
        if self._cron is not None:
            return self._cron.latest(now)
        if now <= params.tumbling_start:
            return now
        return params.tumbling_start + math.floor((now - params.tumbling_start) / params.window) * params.window

    def _weight(self, start: float, end: float, now: float) -> float:
        """The integral of the decay from ``start`` to ``end``."""
        half_life = self._params.half_life
        if not half_life:
            return end - start
        # The factor cancels out of the ratios; with it a weight is in seconds.
        return half_life / math.log(2) * (0.5 ** ((now - end) / half_life) - 0.5 ** ((now - start) / half_life))

    def _prune(self, now: float) -> None:
        """Drop intervals before the window; join old intervals in pairs if there are too many."""
        begin = self._window_start(now)
        # The interval in which the window begins stays.
        while len(self._intervals) > 1 and self._intervals[1].start <= begin:
            del self._intervals[0]
        if len(self._intervals) > MOST_INTERVALS:
            # Only the older half, which weighs least.
            old, recent = self._intervals[: MOST_INTERVALS // 2], self._intervals[MOST_INTERVALS // 2 :]
            ends = [interval.start for interval in old[1:]] + [recent[0].start]
            joined = [
                _join(old[i], ends[i], old[i + 1], ends[i + 1]) if i + 1 < len(old) else old[i]
                for i in range(0, len(old), 2)
            ]
            self._intervals = joined + recent

    def _save(self) -> None:
        data = {"history": msgspec.json.encode(_Stored(self._intervals)).decode()}
        try:
            self._cluster.patch("ConfigMap", CONFIG_MAP, NAMESPACE, {"data": data})
        except NotFound:
            metadata = {"name": CONFIG_MAP, "namespace": NAMESPACE}
            try:
                self._cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
            except ApiError:
                return  # the next change saves it
        except ApiError:
            return


def _moments(params: UsageParams) -> Cron:
    from kailab.model.cron import Cron  # imports time zones, which most commands do not need

    return Cron(params.cron)


def _join(first: UsageInterval, first_end: float, second: UsageInterval, second_end: float) -> UsageInterval:
    """One interval with the sum of both allocations over time."""
    whole = second_end - first.start
    if whole <= 0:
        return second
    a, b = (first_end - first.start) / whole, (second_end - second.start) / whole
    nothing = (0.0, 0.0, 0.0)

    def mean(x: Amounts, y: Amounts) -> Amounts:
        return (a * x[0] + b * y[0], a * x[1] + b * y[1], a * x[2] + b * y[2])

    names = sorted({*first.queues, *second.queues})
    queues = {name: mean(first.queues.get(name, nothing), second.queues.get(name, nothing)) for name in names}
    return UsageInterval(first.start, mean(first.capacity, second.capacity), queues)
