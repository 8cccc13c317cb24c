"""The Prometheus metrics of the scheduler process: those of KAI's scheduler and queue controller, and kailab's own."""

from __future__ import annotations

import threading
from collections import Counter as Counting
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from kailab.cluster.protocol import Object
from kailab.engine.decisions import Decisions
from kailab.errors import InputError
from kailab.model.objects import name_of, spec_of, status_of
from kailab.model.quantities import parse
from kailab.scheduler.cycle_record import CycleRecord
from kailab.scheduler.observers import DecidingScheduler, Observer
from kailab.scheduler.service.guard import GuardedCluster


class UnsuffixedCounter:
    """A counter whose name does not end in ``_total``. KAI has such counters; the client library can't write them."""

    def __init__(self, name: str, help: str, label: str = "") -> None:
        self._head = f"# HELP {name} {help}\n# TYPE {name} counter\n"
        self._name = name
        self._label = label
        self._counts: Counting[str] = Counting() if label else Counting({"": 0})
        self._lock = threading.Lock()

    def add(self, value: str = "", count: int = 1) -> None:
        with self._lock:
            self._counts[value] += count

    def text(self) -> str:
        """In Prometheus' text format."""
        with self._lock:
            counts = sorted(self._counts.items())
        if not self._label:
            return self._head + "".join(f"{self._name} {count}\n" for _, count in counts)
        return self._head + "".join(f'{self._name}{{{self._label}="{value}"}} {count}\n' for value, count in counts)


class ReplaceableGauge:
    """A gauge whose label values come and go. A scrape during ``replace`` misses no series that stays."""

    def __init__(self, registry: CollectorRegistry, name: str, help: str, labels: Iterable[str]) -> None:
        self._gauge = Gauge(name, help, list(labels), registry=registry)
        self._current: set[tuple[str, ...]] = set()

    def replace(self, values: Mapping[tuple[str, ...], float]) -> None:
        """Set exactly these series."""
        for labels, value in values.items():
            self._gauge.labels(*labels).set(value)
        for labels in self._current - values.keys():
            self._gauge.remove(*labels)
        self._current = set(values)


_LABELS = ("queue_name", "queue_metadata_name", "queue_display_name")
_NOTHING: Mapping[str, Any] = {}
_GB = 1_000_000_000
_UNITS = {"gpu": 1.0, "cpu": 0.001, "memory": 1_000_000.0}  # of quotas: GPUs, millicores, MB
_Values = dict[tuple[str, ...], float]


class QueueMetrics:
    """Metrics of queues. In fair share and usage, KAI's scheduler's metrics, ``queue_name`` is the display name if there is one. In quota and
    allocated amounts, its queue controller's metrics, it is the name."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def series(name: str, help: str) -> ReplaceableGauge:
            return ReplaceableGauge(registry, name, help, _LABELS)

        self._fair = {
            "gpu": series("kai_queue_fair_share_gpu", "GPU fair share of queue. In GPU devices"),
            "cpu": series("kai_queue_fair_share_cpu_cores", "CPU fair share of queue. In cores"),
            "memory": series("kai_queue_fair_share_memory_gb", "Memory fair share of queue. In GB"),
        }
        self._usage = {
            "gpu": series("kai_queue_gpu_usage", "Past GPU usage of queue, as a part of the cluster"),
            "cpu": series("kai_queue_cpu_usage", "Past CPU usage of queue, as a part of the cluster"),
            "memory": series("kai_queue_memory_usage", "Past memory usage of queue, as a part of the cluster"),
        }
        self._info = series("kai_queue_info", "Queues info")
        self._quota = {
            "gpu": series("kai_queue_deserved_gpus", "Queue deserved GPUs"),
            "cpu": series("kai_queue_quota_cpu_cores", "Queue quota CPU"),
            "memory": series("kai_queue_quota_memory_bytes", "Queue quota memory"),
        }
        self._allocated = {
            "gpu": series("kai_queue_allocated_gpus", "Queue allocated GPUs"),
            "cpu": series("kai_queue_allocated_cpu_cores", "Queue allocated CPUs"),
            "memory": series("kai_queue_allocated_memory_bytes", "Queue allocated memory"),
        }
        self._display: dict[str, str] = {}

    def set_shares(self, decisions: Decisions, usage: Mapping[str, Mapping[str, float]] | None) -> None:
        """Set the fair shares of a cycle and the past usage; None if it does not count."""
        fair: dict[str, _Values] = {resource: {} for resource in self._fair}
        past: dict[str, _Values] = {resource: {} for resource in self._usage}
        for queue in decisions.queues:
            # ``set_queues`` is called before the first cycle and after each cycle that writes.
            display_name = self._display.get(queue.name, "")
            labels = (display_name or queue.name, queue.name, display_name)
            fair["gpu"][labels] = queue.gpu.fair_share / 1000
            fair["cpu"][labels] = queue.cpu.fair_share / 1000
            fair["memory"][labels] = queue.memory.fair_share / _GB
            if usage is not None:
                parts = usage.get(queue.name, _NOTHING)
                for resource, values in past.items():
                    values[labels] = parts.get(resource, 0.0)
        for table, values_by_resource in ((self._fair, fair), (self._usage, past)):
            for resource, series in table.items():
                series.replace(values_by_resource[resource])

    def forget(self) -> None:
        """Remove the series of all queues."""
        self._info.replace({})
        for table in (self._fair, self._usage, self._quota, self._allocated):
            for series in table.values():
                series.replace({})

    def set_queues(self, queues: Iterable[Object]) -> None:
        """Set quotas and allocations from all Queue objects."""
        self._display = {}
        info: _Values = {}
        quota: dict[str, _Values] = {resource: {} for resource in self._quota}
        allocations: dict[str, _Values] = {resource: {} for resource in self._allocated}
        for queue in queues:
            name, spec = name_of(queue), spec_of(queue)
            self._display[name] = display_name = spec.get("displayName") or ""
            labels = (name, name, display_name)
            info[labels] = 1
            resources = spec.get("resources") or _NOTHING
            for resource, values in quota.items():
                amount = float((resources.get(resource) or _NOTHING).get("quota") or 0)
                values[labels] = -1 if amount == -1 else amount * _UNITS[resource]
            allocated = status_of(queue).get("allocated") or _NOTHING
            for resource, values in allocations.items():
                values[labels] = _held(allocated, resource)
        self._info.replace(info)
        for table, values_by_resource in ((self._quota, quota), (self._allocated, allocations)):
            for resource, series in table.items():
                series.replace(values_by_resource[resource])


def _held(allocated: Mapping[str, Any], resource: str) -> float:
    """An allocation rounded to four digits, as in KAI."""
    names = [name for name in allocated if name == resource or (resource == "gpu" and name.endswith("/gpu"))]
    return round(sum(_amount(allocated[name]) for name in names), 4)


def _amount(text: Any) -> float:
    try:
        return float(parse(str(text)))
    except InputError:
        return 0.0


IDLE_TURNS = "kailab_idle_turns"
_MILLISECONDS = tuple(5.0 * 2**power for power in range(10))  # KAI's ExponentialBuckets(5, 2, 10)
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class SchedulerMetrics(Observer):
    """All metrics of the process."""

    def __init__(self) -> None:
        # KAI's metrics have no ``_created`` series, as Go's client library has none.
        disable_created_metrics()
        # An own registry, because tests have several instances in one process.
        registry = self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        self._define_kai_metrics(registry)
        self._define_own_metrics(registry)
        self.queues = QueueMetrics(registry)
        self._watching = _ClusterCollector()
        registry.register(self._watching)
        self._evicted_groups: dict[str, list[tuple[str, ...]]] = {}

    def _define_kai_metrics(self, registry: CollectorRegistry) -> None:
        """Metrics with KAI's and client-go's names."""
        self._e2e = _gauge(
            registry,
            "kai_e2e_scheduling_latency_milliseconds",
            "Scheduling cycle in milliseconds, decisions and their carrying out",
        )
        self._open = _gauge(
            registry,
            "kai_open_session_latency_milliseconds",
            "From the cycle's begin to its first action, in milliseconds",
        )
        self._close = _gauge(
            registry, "kai_close_session_latency_milliseconds", "Writing status at the end of a cycle, in milliseconds"
        )
        self._action = _gauge(
            registry, "kai_action_scheduling_latency_milliseconds", "One action in milliseconds", ["action"]
        )
        self._task = Histogram(
            "kai_task_scheduling_latency_milliseconds",
            "From a pod's creation to its binding, in milliseconds",
            buckets=_MILLISECONDS,
            registry=registry,
        )
        self._evicted = Counter(
            "kai_pod_group_evicted_pods",
            "Pods evicted per pod group",
            ["podgroup", "namespace", "uid", "nodepool", "action"],
            registry=registry,
        )
        self._scheduled = UnsuffixedCounter(
            "kai_podgroups_scheduled_by_action", "Count of podgroups scheduled per action", "action"
        )
        self._considered = UnsuffixedCounter(
            "kai_podgroups_acted_on_by_action", "Count of podgroups tried per action", "action"
        )
        self._preemptions = UnsuffixedCounter(
            "kai_total_preemption_attempts", "Total preemption attempts in the cluster till now"
        )
        self._leader = _gauge(
            registry, "leader_election_master_status", "1 if this process holds the lease, 0 if it stands by", ["name"]
        )

    def _define_own_metrics(self, registry: CollectorRegistry) -> None:
        self._terms = Counter("kailab_leader_terms", "How often this process began to lead", registry=registry)
        self._cycle = Histogram("kailab_cycle_seconds", "Whole cycles", buckets=_SECONDS, registry=registry)
        self._phase = Histogram(
            "kailab_cycle_phase_seconds", "Phases of cycles", ["phase"], buckets=_SECONDS, registry=registry
        )
        self._decided = Counter("kailab_decisions", "Decisions by kind", ["decision"], registry=registry)
        self._refused = Counter(
            "kailab_decisions_not_carried_out",
            "Decisions that the cluster refused; they are tried again",
            ["decision"],
            registry=registry,
        )
        self._snapshot = _gauge(registry, "kailab_snapshot_objects", "What the latest cycle decided on", ["kind"])
        self._pending = ReplaceableGauge(
            registry, "kailab_pending_podgroups", "PodGroups that wait after the latest cycle, by reason", ["reason"]
        )
        self._failures = Counter(
            "kailab_turn_failures",
            "Turns of the loop that ended in an error, by its kind",
            ["error"],
            registry=registry,
        )
        self._idle = Counter(
            IDLE_TURNS, "Turns of the leader in which it checked every part and found nothing to do", registry=registry
        )
        self._scheduler: DecidingScheduler | None = None

    def text(self) -> bytes:
        """In Prometheus' text format."""
        plain = "".join(counter.text() for counter in (self._scheduled, self._considered, self._preemptions))
        return generate_latest(self._registry) + plain.encode()

    # --- set by the service --------------------------------------------------------------------------------------

    def add_cluster(self, cluster: GuardedCluster) -> None:
        """Add metrics of this cluster's connection."""
        self._watching.cluster = cluster

    def set_leading(self, name: str, leading: bool) -> None:
        self._leader.labels(name).set(leading)

    def on_begin(self, scheduler: DecidingScheduler) -> None:
        self._scheduler = scheduler
        self._terms.inc()

    def on_end(self) -> None:
        """Remove the series that only a leader has."""
        self._scheduler = None
        self._watching.scheduler = None
        self._pending.replace({})
        self.queues.forget()

    def count_idle_turn(self) -> None:
        self._idle.inc()

    def count_failure(self, error: BaseException) -> None:
        self._failures.labels(type(error).__name__).inc()

    def observe_cycle(self, phases: Mapping[str, float], seconds: float, actions: Iterable[str]) -> None:
        """Record the duration of a cycle and of each of its phases, in seconds."""
        self._e2e.set(_whole_milliseconds(seconds))
        self._cycle.observe(seconds)
        for name, took in phases.items():
            self._phase.labels(name).observe(took)
        actions = tuple(actions)
        for action in actions:
            if action in phases:
                self._action.labels(action).set(_whole_milliseconds(phases[action]))
        self._open.set(_whole_milliseconds(phases.get("update", 0.0) + phases.get("fairshare", 0.0)))
        self._close.set(_whole_milliseconds(phases.get("status", 0.0)))

    def on_cycle(self, record: CycleRecord) -> None:
        """Count the decisions of a cycle and their outcomes."""
        scheduler = self._scheduler
        assert scheduler is not None
        decisions = record.decisions
        failed = {(failure.verb, failure.task) for failure in record.failures}
        for failure in record.failures:
            self._refused.labels(failure.verb).inc()
        self._decided.labels("bind").inc(len(decisions.binds))
        self._decided.labels("pipeline").inc(len(decisions.pipelines))
        self._decided.labels("evict").inc(len(decisions.evictions))
        mirror = scheduler.mirror
        for bind in decisions.binds:
            task = mirror.tasks.get(bind.task)
            if task is not None and ("bind", bind.task) not in failed:
                self._task.observe(_whole_milliseconds(max(0.0, record.now - task.created)))
        # Each PodGroup counts once per action.
        placed = {(bind.action, bind.podgroup) for bind in decisions.binds}
        placed |= {(pipeline.action, pipeline.podgroup) for pipeline in decisions.pipelines if not pipeline.moved}
        for action, _ in placed:
            self._scheduled.add(action)
        tried = {(action, pending.podgroup) for pending in decisions.pending for action, _ in pending.tried}
        served = {(evict.action, evict.beneficiary) for evict in decisions.evictions if evict.beneficiary}
        for action, _ in tried | served:
            self._considered.add(action)
        self._preemptions.add(count=sum(action == "preempt" for action, _ in served))
        for evict in decisions.evictions:
            if ("evict", evict.task) not in failed:
                namespace, _, name = mirror.podgroup_name(evict.podgroup).partition("/")
                labels = (name, namespace, evict.podgroup, mirror.pool, evict.action)
                self._evicted.labels(*labels).inc()
                known = self._evicted_groups.setdefault(evict.podgroup, [])
                if labels not in known:
                    known.append(labels)
        self._forget_groups(mirror.podgroup_objects)
        kinds = (
            ("node", mirror.nodes),
            ("queue", mirror.queues),
            ("podgroup", mirror.podgroups),
            ("task", mirror.tasks),
        )
        for kind, known_objects in kinds:
            self._snapshot.labels(kind).set(len(known_objects))
        self._watching.scheduler = scheduler
        reasons = Counting(str(pending.code) for pending in decisions.pending)
        self._pending.replace({(reason,): count for reason, count in reasons.items()})
        self.queues.set_shares(decisions, scheduler.past_usage)

    def _forget_groups(self, current: Mapping[str, Any]) -> None:
        """Remove the series of PodGroups that are gone."""
        for uid in [uid for uid in self._evicted_groups if uid not in current]:
            for labels in self._evicted_groups.pop(uid):
                self._evicted.remove(*labels)


class _ClusterCollector:
    """Reads metrics from the cluster's connection and the mirror when they are scraped, so that cycles do not pay for them."""

    cluster: GuardedCluster | None = None
    scheduler: DecidingScheduler | None = None

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        if self.scheduler is not None:
            pods = GaugeMetricFamily("kailab_pods", "Pods known, by the scheduler's status of them", None, ["status"])
            tasks = list(self.scheduler.mirror.tasks.values())  # a copy: the scheduler's thread changes it
            for status, count in sorted(Counting(task.status.name.lower() for task in tasks).items()):
                pods.add_metric((status,), count)
            yield pods
        if self.cluster is None:
            return
        writes = CounterMetricFamily(
            "kailab_writes", "Writes by verb and what became of them", None, ["verb", "outcome"]
        )
        for labels, count in sorted(dict(self.cluster.written).items()):
            writes.add_metric(labels, count)
        yield writes
        inner: Any = self.cluster.inner
        transport = getattr(inner, "transport", None)
        if transport is None:
            return
        sent = CounterMetricFamily("kailab_api_requests", "Requests; code 0: no answer", None, ["method", "code"])
        for (method, code), count in sorted(dict(transport.answers.counted).items()):
            sent.add_metric((method, str(code)), count)
        yield sent
        yield GaugeMetricFamily(
            "kailab_api_requests_under_way", "Requests under way", value=transport.pressure.under_way
        )
        yield CounterMetricFamily("kailab_events_dropped", "Events that could not be sent", value=inner.events.dropped)
        watches = CounterMetricFamily("kailab_watches", "Watches begun", None, ["kind"])
        lists = CounterMetricFamily("kailab_watch_restarts", "Lists made anew for a watch", None, ["kind"])
        for informer in sorted(inner.informers(), key=lambda informer: informer.resource.key):
            watches.add_metric((informer.resource.key,), informer.watches)
            lists.add_metric((informer.resource.key,), max(0, informer.restarts))
        yield watches
        yield lists


def _gauge(registry: CollectorRegistry, name: str, help: str, labels: Iterable[str] = ()) -> Gauge:
    return Gauge(name, help, list(labels), registry=registry)


def _whole_milliseconds(seconds: float) -> int:
    """Milliseconds, truncated as in KAI."""
    return int(seconds * 1000)
