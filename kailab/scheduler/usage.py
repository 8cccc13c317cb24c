"""Past use of the cluster by each queue, for time-based fairness.

A queue's usage is what it held over a window of time, older use weighing less (half-life), as a part of what the
cluster offered in that time, weighed likewise: u = sum 0.5^((now-t)/half-life) * allocated(t) / sum
0.5^((now-t)/half-life) * capacity(t). KAI sums samples that Prometheus took once a minute; here allocations are
known to be constant between changes, so each piece is integrated exactly. Like KAI's, the figure is renewed once per
fetch interval (one minute), on the minute.

The history lives in a ConfigMap, so a lab that is resumed carries on. Source: KAI docs/time-based-fairshare,
usagedb/prometheus.
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

if TYPE_CHECKING:
    from kailab.model.cron import Cron

NAMESPACE = "kai-scheduler"
CONFIG_MAP = "kailab-queue-usage"
RESOURCES = ("gpu", "cpu", "memory")
# All of them go into one ConfigMap, which holds 1 MiB.
MOST_PIECES = 512

Amounts = tuple[float, float, float]
"""gpu, cpu, memory in engine units."""

Usage = dict[str, dict[str, float]]
"""Queue -> resource -> part of the cluster (0..1)."""


class UsageParams(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds throughout. ``half_life`` None: no decay. A tumbling window starts anew every ``window`` seconds,
    counted from ``tumbling_start``; a cron window at the moments that ``cron`` names (kailab.model.cron). Source: KAI usagedb UsageParams and its defaults."""

    window: float = 7 * 86_400.0
    half_life: float | None = None
    window_type: Literal["sliding", "tumbling", "cron"] = "sliding"
    tumbling_start: float = 0.0
    cron: str = ""
    fetch_interval: float = 60.0


class UsageInterval(msgspec.Struct, frozen=True):
    """From ``start`` until the next piece: what the cluster offered and what each queue held (nothing: left out)."""

    start: float
    capacity: Amounts
    queues: dict[str, Amounts]


class _Stored(msgspec.Struct):
    pieces: list[UsageInterval]


class UsageHistory:
    """Pieces of constant allocation, oldest first."""

    def __init__(self, cluster: Cluster, params: UsageParams, pieces: Iterable[UsageInterval] = ()) -> None:
        self._cluster = cluster
        self._params = params
        self._cron = _moments(params) if params.window_type == "cron" else None
        self._pieces = list(pieces)
        self._fetched_at: float | None = None
        self._shares: Usage = {}

    @classmethod
    def load(cls, cluster: Cluster, params: UsageParams) -> UsageHistory:
        """Carry on from the ConfigMap, if there is one that can be read."""
        try:
            stored = cluster.get("ConfigMap", CONFIG_MAP, NAMESPACE)
            pieces = decoding.decode_json((stored.get("data") or {}).get("history", ""), _Stored).pieces
        # A history that can't be read is lost use, not a reason to stop scheduling.
        except (NotFound, msgspec.DecodeError):
            pieces = []
        return cls(cluster, params, pieces)

    def carry_on(self, other: UsageHistory) -> None:
        """Remember what another remembers."""
        self._pieces = list(other._pieces)
        self._fetched_at, self._shares = other._fetched_at, other._shares

    @property
    def next_refresh(self) -> float | None:
        """When usage is next reckoned anew."""
        return None if self._fetched_at is None else self._fetched_at + self._params.fetch_interval

    @property
    def latest(self) -> Usage:
        """As ``shares`` gave it last."""
        return self._shares

    def shares(self, now: float) -> Usage:
        """Usage of each queue as of the last full fetch interval."""
        self._shares = self.shares_at(now)
        self._fetched_at = self._interval_of(now)
        return self._shares

    def shares_at(self, now: float) -> Usage:
        """The same for whoever only looks: it does not put off the next refresh."""
        fetched_at = self._interval_of(now)
        return self._shares if fetched_at == self._fetched_at else self.reckon(fetched_at)

    def _interval_of(self, now: float) -> float:
        interval = self._params.fetch_interval
        # On the minute and not a minute after the last time: whoever starts when reckons with the same figures.
        return math.floor(now / interval) * interval

    def reckon(self, now: float) -> Usage:
        """Usage of each queue at ``now``. Time before the first piece counts neither as use nor as offered."""
        begin = self._window_start(now)
        offered = [0.0, 0.0, 0.0]
        held: dict[str, list[float]] = {}
        for index, piece in enumerate(self._pieces):
            # A piece holds until the next begins; the last one holds still.
            following = self._pieces[index + 1].start if index + 1 < len(self._pieces) else now
            start, end = max(begin, piece.start), min(now, following)
            if end <= start:
                continue
            weight = self._weight(start, end, now)
            for resource in range(3):
                offered[resource] += weight * piece.capacity[resource]
            for queue, amounts in piece.queues.items():
                sums = held.setdefault(queue, [0.0, 0.0, 0.0])
                for resource in range(3):
                    sums[resource] += weight * amounts[resource]
        return {
            queue: {
                name: sums[resource] / offered[resource] if offered[resource] else 0.0
                for resource, name in enumerate(RESOURCES)
            }
            for queue, sums in sorted(held.items())
        }

    def observe(self, now: float, queues: Iterable[QueueState], capacity: Mapping[str, int]) -> bool:
        """Note what is held from ``now`` on. True if it differs from before, and was written down."""
        offered = (float(capacity["gpu"]), float(capacity["cpu"]), float(capacity["memory"]))
        held: dict[str, Amounts] = {}
        for queue in queues:
            amounts = (float(queue.gpu.allocated), float(queue.cpu.allocated), float(queue.memory.allocated))
            if any(amounts):
                held[queue.name] = amounts
        last = self._pieces[-1] if self._pieces else None
        if last is not None and last.capacity == offered and last.queues == held:
            return False
        piece = UsageInterval(now, offered, dict(sorted(held.items())))
        # Several cycles at one instant: only what stands at its end lasts for any time.
        if last is not None and last.start == now:
            self._pieces[-1] = piece
        else:
            self._pieces.append(piece)
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
        # The common factor of all pieces could be left out, since shares are ratios; with it a weight is a number of
        # seconds.
        return half_life / math.log(2) * (0.5 ** ((now - end) / half_life) - 0.5 ** ((now - start) / half_life))

    def _prune(self, now: float) -> None:
        """Drop what no window reaches any more; join old pieces in pairs when there are too many."""
        begin = self._window_start(now)
        # The piece in which the window begins is still needed.
        while len(self._pieces) > 1 and self._pieces[1].start <= begin:
            del self._pieces[0]
        if len(self._pieces) > MOST_PIECES:
            # Only the older half, which weighs least where use decays.
            old, recent = self._pieces[: MOST_PIECES // 2], self._pieces[MOST_PIECES // 2 :]
            ends = [piece.start for piece in old[1:]] + [recent[0].start]
            joined = [
                _join(old[i], ends[i], old[i + 1], ends[i + 1]) if i + 1 < len(old) else old[i]
                for i in range(0, len(old), 2)
            ]
            self._pieces = joined + recent

    def _save(self) -> None:
        data = {"history": msgspec.json.encode(_Stored(self._pieces)).decode()}
        try:
            self._cluster.patch("ConfigMap", CONFIG_MAP, NAMESPACE, {"data": data})
        except NotFound:
            metadata = {"name": CONFIG_MAP, "namespace": NAMESPACE}
            try:
                self._cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
            except ApiError:
                return  # kept in memory; the next change writes it all
        except ApiError:
            return


def _moments(params: UsageParams) -> Cron:
    from kailab.model.cron import Cron  # and time zones, of which a command that only looks has no need

    return Cron(params.cron)


def _join(first: UsageInterval, first_end: float, second: UsageInterval, second_end: float) -> UsageInterval:
    """One piece that holds as much in all as the two did."""
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
