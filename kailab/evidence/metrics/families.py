"""The metrics of a lab: the name, meaning and source of each, and their series over time.

A ``MetricsSnapshot`` is the state of a lab at one moment, from whatever source. Each ``MetricFamily`` reads its values from a snapshot. KAI's metrics keep KAI's names
and labels. Those of ``DOCUMENTED_FAMILIES`` have the names that documents about KAI use, although KAI itself has no such metric; where a document leaves a definition
open, the metric's help text says it. kailab's own names begin with ``kailab_``. GPUs are whole devices, times are seconds, -1 is unlimited. ``SeriesCollector``
turns snapshots into steps: a value holds until the next one, and None ends a series.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import msgspec

from kailab.evidence.entries import PodEvicted
from kailab.evidence.shares import UNLIMITED, QueueAmounts, QueueTreeShares

MOST_SAMPLES = 11_000
"""Most samples of a series; Prometheus returns no more than this in one query."""


class MetricGroup(NamedTuple):
    """A PodGroup. ``name``: ``namespace/name``; ``priority``: its priority class; ``least``: pods that start together."""

    name: str
    queue: str = ""
    priority: str = ""
    least: int = 1

    @property
    def gang(self) -> bool:
        return self.least > 1


class WaitingGroup(NamedTuple):
    """A PodGroup of which pods wait. ``reason``: the code; ``since``: seconds since the lab opened."""

    group: MetricGroup
    reason: str
    since: float
    pods: int
    milli_gpus: int = 0


class FleetUse(NamedTuple):
    """GPUs in milli-GPU: of all nodes, in use, and the most that are free on one node."""

    gpus: int
    used: int
    largest_free: int


@dataclass
class EventTally:
    """What has happened since the lab opened. A count that nobody kept is None.

    ``evictions``: pods by (action, queue, whose work took the place, priority class of the victim); ``evicted``: pods of each
    PodGroup that is still there, by action. ``waits``: by priority class, the seconds that each
    PodGroup waited before a start at which none of its pods ran. ``gangs_started``: by priority
    class. ``completions``: of each gang whose pods have all ended, by queue, seconds from its creation."""

    binds: int | None = None
    promises: int | None = None
    left_waiting: int | None = None
    refused: int | None = None
    evictions: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    evicted: dict[str, Counter[str]] = field(default_factory=dict)
    waits: dict[str, list[float]] = field(default_factory=dict)
    gangs_started: Counter[str] = field(default_factory=Counter)
    completions: dict[str, list[float]] = field(default_factory=dict)

    @classmethod
    def begun(cls) -> EventTally:
        """From the opening on: all is counted."""
        return cls(binds=0, promises=0, left_waiting=0, refused=0)

    def evict(self, entry: PodEvicted, priority: str) -> None:
        """``priority``: the class of the PodGroup that lost the pod."""
        self.evictions[entry.action, entry.queue, entry.beneficiary_queue, priority] += 1
        self.evicted.setdefault(entry.podgroup, Counter())[entry.action] += 1

    def start(self, priority: str, waited: float) -> None:
        # In order, so that percentiles cost next to nothing at each of many readings.
        insort(self.waits.setdefault(priority, []), waited)


@dataclass(frozen=True)
class MetricsSnapshot:
    """``t``: seconds since the lab opened. ``shares``: by resource (``gpu``, ``cpu``, ``memory``), as far as known. ``display``: display
    names of queues that have one. ``pods``: by (queue, phase). ``fleet``: None before the first node was seen."""

    t: float
    shares: Mapping[str, QueueTreeShares]
    display: Mapping[str, str]
    waiting: tuple[WaitingGroup, ...]
    pods: Mapping[tuple[str, str], int]
    fleet: FleetUse | None
    tally: EventTally


Labels = tuple[str, ...]
Values = Iterable[tuple[Labels, float]]
Of = Callable[[MetricsSnapshot], Values]

QUEUE = ("queue_name", "queue_metadata_name", "queue_display_name")
GPU = 1000
_GB = 1_000_000_000
_UNITS = {"gpu": GPU, "cpu": 1000, "memory": 1}


class MetricFamily(NamedTuple):
    """``name``: without the ``_total`` of a counter. ``help``: its help text. ``labels``: their names."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    labels: Labels
    values: Of


def _of_queues(resource: str, value: Callable[[QueueAmounts], float | None], *, use_display_name: bool = False) -> Of:
    """``use_display_name``: KAI's scheduler calls a queue by its display name, its queue controller by its name."""

    def values(snapshot: MetricsSnapshot) -> Iterator[tuple[Labels, float]]:
        shares = snapshot.shares.get(resource)
        for name, queue in sorted(shares.queues.items()) if shares is not None else ():
            display = snapshot.display.get(name, "")
            if (amount := value(queue)) is not None:
                yield ((display or name) if use_display_name else name, name, display), amount

    return values


def _by_queue(value: Callable[[QueueAmounts], float | None]) -> Of:
    of = _of_queues("gpu", value)
    return lambda snapshot: (((labels[1],), found) for labels, found in of(snapshot))


def _amount(milli: float, unit: float = GPU) -> float:
    return -1 if milli == UNLIMITED else milli / unit


def _quota(resource: str) -> Of:
    return _of_queues(resource, lambda queue: _amount(queue.quota, _UNITS[resource]))


def _allocated(resource: str) -> Of:
    return _of_queues(resource, lambda queue: queue.allocated / _UNITS[resource])


def _fair(resource: str, unit: float) -> Of:
    def share(queue: QueueAmounts) -> float | None:
        return None if queue.fair_share is None else _amount(queue.fair_share, unit)

    return _of_queues(resource, share, use_display_name=True)


def _used_part(queue: QueueAmounts) -> float | None:
    """The held GPUs as a fraction of the quota; above 1 if the queue borrows. None for a queue without a quota."""
    return queue.allocated / queue.quota if queue.quota > 0 else None


def _evicted_groups(snapshot: MetricsSnapshot) -> Values:
    for group, actions in sorted(snapshot.tally.evicted.items()):
        namespace, _, name = group.rpartition("/")
        for action, pods in sorted(actions.items()):
            yield (name, namespace, "", "", action), pods


def _depth(snapshot: MetricsSnapshot) -> Values:
    return [
        ((priority,), groups)
        for priority, groups in sorted(Counter(waiting.group.priority for waiting in snapshot.waiting).items())
    ]


def _estimate(snapshot: MetricsSnapshot) -> Values:
    for priority, waits in sorted(snapshot.tally.waits.items()):
        yield (priority,), percentile(waits, 50)


def _worst_wait(snapshot: MetricsSnapshot) -> Values:
    waits = [wait for of in snapshot.tally.waits.values() for wait in of] + [
        snapshot.t - waiting.since for waiting in snapshot.waiting
    ]
    if waits:
        yield (), percentile(waits, 99)


def _gang_success(snapshot: MetricsSnapshot) -> Values:
    waiting = Counter(group.group.priority for group in snapshot.waiting if group.group.gang)
    for priority in sorted({*snapshot.tally.gangs_started, *waiting}):
        started = snapshot.tally.gangs_started[priority]
        yield (priority,), started / (started + waiting[priority])


def _completion(snapshot: MetricsSnapshot) -> Values:
    for queue, seconds in sorted(snapshot.tally.completions.items()):
        yield (queue,), sum(seconds) / len(seconds)


def _accepted(snapshot: MetricsSnapshot) -> Values:
    tally = snapshot.tally
    counts = {"accept": tally.binds, "queue": tally.left_waiting, "reject": tally.refused}
    return [((decision,), count) for decision, count in counts.items() if count is not None]


def _decided(snapshot: MetricsSnapshot) -> Values:
    tally = snapshot.tally
    counts = {"bind": tally.binds, "pipeline": tally.promises, "pending": tally.left_waiting, "failure": tally.refused}
    counts["evict"] = sum(tally.evictions.values())
    return [((decision,), count) for decision, count in sorted(counts.items()) if count is not None]


def _evictions(snapshot: MetricsSnapshot) -> Values:
    return _summed(
        ((action, queue, whose), pods) for (action, queue, whose, _), pods in snapshot.tally.evictions.items()
    )


def _preemptions(snapshot: MetricsSnapshot) -> Values:
    return _summed(((priority,), pods) for (_, _, _, priority), pods in snapshot.tally.evictions.items())


def _summed(counts: Iterable[tuple[Labels, int]]) -> Values:
    sums: Counter[Labels] = Counter()
    for labels, count in counts:
        sums[labels] += count
    return sorted(sums.items())


def _pending(snapshot: MetricsSnapshot) -> Values:
    return sorted(Counter((waiting.group.queue, waiting.reason) for waiting in snapshot.waiting).items())


def _longest(snapshot: MetricsSnapshot) -> Values:
    longest: dict[str, float] = {}
    for waiting in snapshot.waiting:
        longest[waiting.group.queue] = max(longest.get(waiting.group.queue, 0.0), snapshot.t - waiting.since)
    return [((queue,), seconds) for queue, seconds in sorted(longest.items())]


def _utilisation(snapshot: MetricsSnapshot) -> Values:
    total = snapshot.fleet.gpus if snapshot.fleet is not None else 0
    return _by_queue(lambda queue: queue.allocated / total)(snapshot) if total else ()


def _gpus(snapshot: MetricsSnapshot) -> Values:
    if snapshot.fleet is None:
        return ()
    gpus, used, largest = snapshot.fleet
    amounts = {"all": gpus, "used": used, "free": gpus - used, "largest_free": largest}
    return [((state,), milli / GPU) for state, milli in amounts.items()]


def _starved(queue: QueueAmounts) -> float:
    return max(0.0, queue.due - queue.allocated) / GPU


KAI_FAMILIES = (
    MetricFamily("kai_queue_info", "gauge", "Queues info", QUEUE, _of_queues("gpu", lambda _: 1)),
    MetricFamily("kai_queue_deserved_gpus", "gauge", "Queue deserved GPUs", QUEUE, _quota("gpu")),
    MetricFamily("kai_queue_quota_cpu_cores", "gauge", "Queue quota CPU", QUEUE, _quota("cpu")),
    MetricFamily("kai_queue_quota_memory_bytes", "gauge", "Queue quota memory", QUEUE, _quota("memory")),
    MetricFamily("kai_queue_allocated_gpus", "gauge", "Queue allocated GPUs", QUEUE, _allocated("gpu")),
    MetricFamily("kai_queue_allocated_cpu_cores", "gauge", "Queue allocated CPUs", QUEUE, _allocated("cpu")),
    MetricFamily("kai_queue_allocated_memory_bytes", "gauge", "Queue allocated memory", QUEUE, _allocated("memory")),
    MetricFamily("kai_queue_fair_share_gpu", "gauge", "GPU fair share of queue", QUEUE, _fair("gpu", GPU)),
    MetricFamily(
        "kai_queue_fair_share_cpu_cores", "gauge", "CPU fair share of queue, in cores", QUEUE, _fair("cpu", 1000)
    ),
    MetricFamily(
        "kai_queue_fair_share_memory_gb", "gauge", "Memory fair share of queue, in GB", QUEUE, _fair("memory", _GB)
    ),
    MetricFamily(
        "kai_pod_group_evicted_pods",
        "counter",
        "Pods evicted per pod group that is there",
        ("podgroup", "namespace", "uid", "nodepool", "action"),
        _evicted_groups,
    ),
)

DOCUMENTED_FAMILIES = (
    MetricFamily("kai_queue_depth", "gauge", "PodGroups that wait, by priority class", ("priority",), _depth),
    MetricFamily(
        "kai_queue_depth_total", "gauge", "PodGroups that wait", (), lambda snapshot: [((), len(snapshot.waiting))]
    ),
    MetricFamily(
        "kai_queue_wait_time_estimate",
        "gauge",
        "Half of the PodGroups of this priority class that started so far had waited no longer, in seconds",
        ("priority",),
        _estimate,
    ),
    MetricFamily(
        "kai_queue_wait_time_p99_seconds",
        "gauge",
        "99 of 100 PodGroups, started or waiting, have waited no longer",
        (),
        _worst_wait,
    ),
    MetricFamily(
        "kai_quota_usage_percent",
        "gauge",
        "GPUs that the queue holds, in percent of its quota",
        ("team",),
        _by_queue(lambda queue: None if (part := _used_part(queue)) is None else 100 * part),
    ),
    MetricFamily(
        "kai_fairshare_quota_usage",
        "gauge",
        "GPUs that the queue holds, as a part of its quota",
        ("team",),
        _by_queue(_used_part),
    ),
    MetricFamily(
        "kai_scheduling_decisions",
        "counter",
        "Decisions: accept, a pod was bound; queue, a PodGroup was left waiting for a new reason; reject, the cluster refused one",
        ("decision",),
        _accepted,
    ),
    MetricFamily(
        "kai_gang_job_completion_time_seconds",
        "gauge",
        "Mean time of the queue's gangs from their creation to the end of their last pod",
        ("team",),
        _completion,
    ),
    MetricFamily(
        "kai_gang_scheduling_success_rate",
        "gauge",
        "Gangs that started, as a part of those that started or wait",
        ("priority",),
        _gang_success,
    ),
    MetricFamily(
        "kai_preemptions", "counter", "Pods that were evicted, by their priority class", ("priority",), _preemptions
    ),
)

KAILAB_FAMILIES = (
    MetricFamily("kailab_queue_limit_gpus", "gauge", "Limit of the queue", ("queue",), _by_queue(lambda queue: _amount(queue.limit))),
    MetricFamily(
        "kailab_queue_requested_gpus",
        "gauge",
        "GPUs that the queue's work holds or waits for",
        ("queue",),
        _by_queue(lambda queue: queue.requested / GPU),
    ),
    MetricFamily(
        "kailab_queue_borrowed_gpus",
        "gauge",
        "GPUs that the queue holds beyond its quota",
        ("queue",),
        _by_queue(lambda queue: queue.borrowed / GPU),
    ),
    MetricFamily(
        "kailab_queue_starved_gpus",
        "gauge",
        "GPUs that the queue is due, asks for and does not hold",
        ("queue",),
        _by_queue(_starved),
    ),
    MetricFamily(
        "kailab_gpu_utilisation_ratio",
        "gauge",
        "GPUs that the queue holds, as a part of the fleet",
        ("queue",),
        _utilisation,
    ),
    MetricFamily("kailab_gpus", "gauge", "GPUs of the fleet: all, used, free, and the most that are free on one node", ("state",), _gpus),
    MetricFamily(
        "kailab_pods", "gauge", "Pods by queue and phase", ("queue", "phase"), lambda snapshot: sorted(snapshot.pods.items())
    ),
    MetricFamily("kailab_pending_podgroups", "gauge", "PodGroups that wait", ("queue", "reason"), _pending),
    MetricFamily("kailab_longest_wait_seconds", "gauge", "How long the longest waits, of those that wait", ("queue",), _longest),
    MetricFamily("kailab_decisions", "counter", "Decisions by kind", ("decision",), _decided),
    MetricFamily(
        "kailab_evictions", "counter", "Pods that were evicted", ("action", "queue", "for_queue"), _evictions
    ),
)  # fmt: skip

FAMILIES = (*KAI_FAMILIES, *DOCUMENTED_FAMILIES, *KAILAB_FAMILIES)


def percentile(values: Iterable[float], part: int) -> float:
    """The smallest of the values that ``part`` percent of them do not exceed.

    >>> percentile([10, 20, 30, 40], 50), percentile([10, 20, 30, 40], 99)
    (20, 40)
    """
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * part // 100) - 1)]


Point = tuple[float, float | None]


class MetricSeries(msgspec.Struct, frozen=True, kw_only=True):
    """``points``: (seconds since the lab opened, value), each where the value changed."""

    name: str
    labels: dict[str, str]
    points: list[Point]

    def at(self, t: float) -> float | None:
        """The value at a time; None if the series does not exist then."""
        return next(self.sampled((t,)))

    def sampled(self, times: Iterable[float]) -> Iterator[float | None]:
        """Yield ``at`` for sorted times in one pass over the points."""
        points = iter(self.points)
        value, following = None, next(points, None)
        for t in times:
            while following is not None and following[0] <= t:
                value, following = following[1], next(points, None)
            yield value


class SeriesCollector:
    """Collects series from snapshots in the order of time."""

    def __init__(self) -> None:
        self._points: dict[tuple[str, Labels], list[Point]] = {}
        self._there: set[tuple[str, Labels]] = set()
        self.end = 0.0

    def add_snapshot(self, snapshot: MetricsSnapshot) -> None:
        now: set[tuple[str, Labels]] = set()
        for family in FAMILIES:
            for labels, value in family.values(snapshot):
                key = (family.name, labels)
                now.add(key)
                self._put(key, snapshot.t, float(value))
        for ended in self._there - now:
            self._put(ended, snapshot.t, None)
        self._there, self.end = now, max(self.end, snapshot.t)

    def _put(self, key: tuple[str, Labels], t: float, value: float | None) -> None:
        points = self._points.setdefault(key, [])
        if points and points[-1][0] == t:
            points.pop()
        if not points or points[-1][1] != value:
            points.append((t, value))

    def families(self) -> Iterator[tuple[MetricFamily, list[MetricSeries]]]:
        """Yield each family with series, in the order of ``FAMILIES``, with its series by labels."""
        for family in FAMILIES:
            series = [
                MetricSeries(
                    name=sample_name(family), labels=dict(zip(family.labels, labels, strict=True)), points=points
                )
                for (name, labels), points in sorted(self._points.items())
                if name == family.name
            ]
            if series:
                yield family, series

    def every(self) -> list[MetricSeries]:
        """All series, in the order of ``families``."""
        return [series for _, several in self.families() for series in several]


def sample_name(family: MetricFamily) -> str:
    return f"{family.name}_total" if family.kind == "counter" else family.name


def collect_series(snapshots: Iterable[MetricsSnapshot]) -> SeriesCollector:
    series = SeriesCollector()
    for snapshot in snapshots:
        series.add_snapshot(snapshot)
    return series
