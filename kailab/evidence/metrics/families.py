"""The metrics of a lab: every name, what it says, and how it comes from a look. KAI's keep KAI's names and labels.

Those of the second table are called as documents about KAI call them; KAI itself has none of that name. What such a document leaves open
is said in the metric's own text. kailab's own begin with ``kailab_``. GPUs are whole devices, times seconds, -1 is unlimited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from kailab.evidence.metrics.look import Look
from kailab.evidence.shares import UNLIMITED, QueueStanding

Labels = tuple[str, ...]
Values = Iterable[tuple[Labels, float]]
Of = Callable[[Look], Values]

QUEUE = ("queue_name", "queue_metadata_name", "queue_display_name")
GPU = 1000
_GB = 1_000_000_000
_UNITS = {"gpu": GPU, "cpu": 1000, "memory": 1}


class Family(NamedTuple):
    """``name``: without the ``_total`` of a counter. ``labels``: their names."""

    name: str
    kind: Literal["gauge", "counter"]
    told: str
    labels: Labels
    values: Of


def _of_queues(resource: str, value: Callable[[QueueStanding], float | None], *, shown: bool = False) -> Of:
    """``shown``: KAI's scheduler calls a queue by its display name, its queue controller by its name."""

    def values(look: Look) -> Iterator[tuple[Labels, float]]:
        shares = look.shares.get(resource)
        for name, queue in sorted(shares.queues.items()) if shares is not None else ():
            display = look.display.get(name, "")
            if (found := value(queue)) is not None:
                yield ((display or name) if shown else name, name, display), found

    return values


def _own(value: Callable[[QueueStanding], float | None]) -> Of:
    of = _of_queues("gpu", value)
    return lambda look: (((labels[1],), found) for labels, found in of(look))


def _amount(milli: float, unit: float = GPU) -> float:
    return -1 if milli == UNLIMITED else milli / unit


def _quota(resource: str) -> Of:
    return _of_queues(resource, lambda queue: _amount(queue.quota, _UNITS[resource]))


def _allocated(resource: str) -> Of:
    return _of_queues(resource, lambda queue: queue.allocated / _UNITS[resource])


def _fair(resource: str, unit: float) -> Of:
    def share(queue: QueueStanding) -> float | None:
        return None if queue.fair_share is None else _amount(queue.fair_share, unit)

    return _of_queues(resource, share, shown=True)


def _used_part(queue: QueueStanding) -> float | None:
    """Held, as a part of the quota: above 1 where it borrows. A queue without a quota of its own has no part."""
    return queue.allocated / queue.quota if queue.quota > 0 else None


def _evicted_groups(look: Look) -> Values:
    for group, actions in sorted(look.tally.evicted.items()):
        namespace, _, name = group.rpartition("/")
        for action, pods in sorted(actions.items()):
            yield (name, namespace, "", "", action), pods


def _depth(look: Look) -> Values:
    return [((priority,), groups) for priority, groups in sorted(_by_priority(look).items())]


def _by_priority(look: Look) -> Counter[str]:
    return Counter(one.group.priority for one in look.waiting)


def _estimate(look: Look) -> Values:
    for priority, waits in sorted(look.tally.waits.items()):
        yield (priority,), percentile(waits, 50)


def _worst_wait(look: Look) -> Values:
    waits = [wait for of in look.tally.waits.values() for wait in of] + [look.t - one.since for one in look.waiting]
    if waits:
        yield (), percentile(waits, 99)


def _gang_success(look: Look) -> Values:
    waiting = Counter(one.group.priority for one in look.waiting if one.group.gang)
    for priority in sorted({*look.tally.gangs_started, *waiting}):
        started = look.tally.gangs_started[priority]
        yield (priority,), started / (started + waiting[priority])


def _completion(look: Look) -> Values:
    for queue, seconds in sorted(look.tally.completions.items()):
        yield (queue,), sum(seconds) / len(seconds)


def _accepted(look: Look) -> Values:
    tally = look.tally
    told = {"accept": tally.binds, "queue": tally.left_waiting, "reject": tally.refused}
    return [((decision,), count) for decision, count in told.items() if count is not None]


def _decided(look: Look) -> Values:
    tally = look.tally
    told = {"bind": tally.binds, "pipeline": tally.promises, "pending": tally.left_waiting, "failure": tally.refused}
    told["evict"] = sum(tally.evictions.values())
    return [((decision,), count) for decision, count in sorted(told.items()) if count is not None]


def _evictions(look: Look) -> Values:
    return _summed(((action, queue, whose), pods) for (action, queue, whose, _), pods in look.tally.evictions.items())


def _preemptions(look: Look) -> Values:
    return _summed(((priority,), pods) for (_, _, _, priority), pods in look.tally.evictions.items())


def _summed(counts: Iterable[tuple[Labels, int]]) -> Values:
    found: Counter[Labels] = Counter()
    for labels, count in counts:
        found[labels] += count
    return sorted(found.items())


def _pending(look: Look) -> Values:
    return sorted(Counter((one.group.queue, one.reason) for one in look.waiting).items())


def _longest(look: Look) -> Values:
    longest: dict[str, float] = {}
    for one in look.waiting:
        longest[one.group.queue] = max(longest.get(one.group.queue, 0.0), look.t - one.since)
    return [((queue,), seconds) for queue, seconds in sorted(longest.items())]


def _utilisation(look: Look) -> Values:
    whole = look.fleet.gpus if look.fleet is not None else 0
    return _own(lambda queue: queue.allocated / whole)(look) if whole else ()


def _gpus(look: Look) -> Values:
    if look.fleet is None:
        return ()
    gpus, used, largest = look.fleet
    told = {"all": gpus, "used": used, "free": gpus - used, "largest_free": largest}
    return [((state,), milli / GPU) for state, milli in told.items()]


def _starved(queue: QueueStanding) -> float:
    return max(0.0, queue.due - queue.allocated) / GPU


KAIS = (
    Family("kai_queue_info", "gauge", "Queues info", QUEUE, _of_queues("gpu", lambda _: 1)),
    Family("kai_queue_deserved_gpus", "gauge", "Queue deserved GPUs", QUEUE, _quota("gpu")),
    Family("kai_queue_quota_cpu_cores", "gauge", "Queue quota CPU", QUEUE, _quota("cpu")),
    Family("kai_queue_quota_memory_bytes", "gauge", "Queue quota memory", QUEUE, _quota("memory")),
    Family("kai_queue_allocated_gpus", "gauge", "Queue allocated GPUs", QUEUE, _allocated("gpu")),
    Family("kai_queue_allocated_cpu_cores", "gauge", "Queue allocated CPUs", QUEUE, _allocated("cpu")),
    Family("kai_queue_allocated_memory_bytes", "gauge", "Queue allocated memory", QUEUE, _allocated("memory")),
    Family("kai_queue_fair_share_gpu", "gauge", "GPU fair share of queue", QUEUE, _fair("gpu", GPU)),
    Family("kai_queue_fair_share_cpu_cores", "gauge", "CPU fair share of queue, in cores", QUEUE, _fair("cpu", 1000)),
    Family("kai_queue_fair_share_memory_gb", "gauge", "Memory fair share of queue, in GB", QUEUE, _fair("memory", _GB)),
    Family(
        "kai_pod_group_evicted_pods",
        "counter",
        "Pods evicted per pod group that is there",
        ("podgroup", "namespace", "uid", "nodepool", "action"),
        _evicted_groups,
    ),
)

DOCUMENTS = (
    Family("kai_queue_depth", "gauge", "PodGroups that wait, by priority class", ("priority",), _depth),
    Family("kai_queue_depth_total", "gauge", "PodGroups that wait", (), lambda look: [((), len(look.waiting))]),
    Family(
        "kai_queue_wait_time_estimate",
        "gauge",
        "Half of the PodGroups of this priority class that started so far had waited no longer, in seconds",
        ("priority",),
        _estimate,
    ),
    Family(
        "kai_queue_wait_time_p99_seconds",
        "gauge",
        "99 of 100 PodGroups, started or waiting, have waited no longer",
        (),
        _worst_wait,
    ),
    Family(
        "kai_quota_usage_percent",
        "gauge",
        "GPUs that the queue holds, in percent of its quota",
        ("team",),
        _own(lambda queue: None if (part := _used_part(queue)) is None else 100 * part),
    ),
    Family(
        "kai_fairshare_quota_usage",
        "gauge",
        "GPUs that the queue holds, as a part of its quota",
        ("team",),
        _own(_used_part),
    ),
    Family(
        "kai_scheduling_decisions",
        "counter",
        "Decisions: accept, a pod was bound; queue, a PodGroup was left waiting for a new reason; reject, the cluster refused one",
        ("decision",),
        _accepted,
    ),
    Family(
        "kai_gang_job_completion_time_seconds",
        "gauge",
        "Mean time of the queue's gangs from their creation to the end of their last pod",
        ("team",),
        _completion,
    ),
    Family(
        "kai_gang_scheduling_success_rate",
        "gauge",
        "Gangs that started, as a part of those that started or wait",
        ("priority",),
        _gang_success,
    ),
    Family(
        "kai_preemptions", "counter", "Pods that were evicted, by their priority class", ("priority",), _preemptions
    ),
)

OURS = (
    Family("kailab_queue_limit_gpus", "gauge", "Limit of the queue", ("queue",), _own(lambda queue: _amount(queue.limit))),
    Family(
        "kailab_queue_requested_gpus",
        "gauge",
        "GPUs that the queue's work holds or waits for",
        ("queue",),
        _own(lambda queue: queue.requested / GPU),
    ),
    Family(
        "kailab_queue_borrowed_gpus",
        "gauge",
        "GPUs that the queue holds beyond its quota",
        ("queue",),
        _own(lambda queue: queue.borrowed / GPU),
    ),
    Family(
        "kailab_queue_starved_gpus",
        "gauge",
        "GPUs that the queue is due, asks for and does not hold",
        ("queue",),
        _own(_starved),
    ),
    Family(
        "kailab_gpu_utilisation_ratio",
        "gauge",
        "GPUs that the queue holds, as a part of the fleet",
        ("queue",),
        _utilisation,
    ),
    Family("kailab_gpus", "gauge", "GPUs of the fleet: all, used, free, and the most that are free on one node", ("state",), _gpus),
    Family(
        "kailab_pods", "gauge", "Pods by queue and phase", ("queue", "phase"), lambda look: sorted(look.pods.items())
    ),
    Family("kailab_pending_podgroups", "gauge", "PodGroups that wait", ("queue", "reason"), _pending),
    Family("kailab_longest_wait_seconds", "gauge", "How long the longest waits, of those that wait", ("queue",), _longest),
    Family("kailab_decisions", "counter", "Decisions by kind", ("decision",), _decided),
    Family(
        "kailab_evictions", "counter", "Pods that were evicted", ("action", "queue", "for_queue"), _evictions
    ),
)  # fmt: skip

FAMILIES = (*KAIS, *DOCUMENTS, *OURS)


def percentile(values: Iterable[float], part: int) -> float:
    """The smallest of them that so many in a hundred do not exceed.

    >>> percentile([10, 20, 30, 40], 50), percentile([10, 20, 30, 40], 99)
    (20, 40)
    """
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * part // 100) - 1)]
