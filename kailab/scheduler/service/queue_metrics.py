"""Where queues stand, as KAI's scheduler and its queue controller tell Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry

from kailab.cluster.protocol import Object
from kailab.engine.decisions import Decisions
from kailab.errors import InputError
from kailab.model.quantities import parse
from kailab.scheduler.service.series import Series

_LABELS = ("queue_name", "queue_metadata_name", "queue_display_name")
_NOTHING: Mapping[str, Any] = {}
_GB = 1_000_000_000
_UNITS = {"gpu": 1.0, "cpu": 0.001, "memory": 1_000_000.0}  # of quotas: GPUs, millicores, MB
_Values = dict[tuple[str, ...], float]


class QueueMetrics:
    """Where ``queue_name`` comes from the scheduler it is the display name, if there is one; where it comes from the queue
    controller, the name."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def series(name: str, told: str) -> Series:
            return Series(registry, name, told, _LABELS)

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

    def decided(self, decisions: Decisions, usage: Mapping[str, Mapping[str, float]] | None) -> None:
        """Fair shares of a cycle, and past usage where it counts (None: it does not)."""
        fair: dict[str, _Values] = {resource: {} for resource in self._fair}
        past: dict[str, _Values] = {resource: {} for resource in self._usage}
        for queue in decisions.queues:
            # Known from the queue objects, which are told before the first cycle and after each that writes.
            shown = self._display.get(queue.name, "")
            labels = (shown or queue.name, queue.name, shown)
            fair["gpu"][labels] = queue.gpu.fair_share / 1000
            fair["cpu"][labels] = queue.cpu.fair_share / 1000
            fair["memory"][labels] = queue.memory.fair_share / _GB
            if usage is not None:
                parts = usage.get(queue.name, _NOTHING)
                for resource, values in past.items():
                    values[labels] = parts.get(resource, 0.0)
        for table, found in ((self._fair, fair), (self._usage, past)):
            for resource, series in table.items():
                series.replace(found[resource])

    def forget(self) -> None:
        """Tell of no queue."""
        for series in (self._info, *(one for table in self._tables() for one in table.values())):
            series.replace({})

    def _tables(self) -> tuple[dict[str, Series], ...]:
        return self._fair, self._usage, self._quota, self._allocated

    def objects(self, queues: Iterable[Object]) -> None:
        """Quota and allocation, as the queue objects say."""
        self._display = {}
        info: _Values = {}
        quota: dict[str, _Values] = {resource: {} for resource in self._quota}
        held: dict[str, _Values] = {resource: {} for resource in self._allocated}
        for queue in queues:
            name, spec = queue["metadata"]["name"], queue.get("spec") or _NOTHING
            self._display[name] = shown = spec.get("displayName") or ""
            labels = (name, name, shown)
            info[labels] = 1
            wanted = spec.get("resources") or _NOTHING
            for resource, values in quota.items():
                amount = float((wanted.get(resource) or _NOTHING).get("quota") or 0)
                values[labels] = -1 if amount == -1 else amount * _UNITS[resource]
            allocated = (queue.get("status") or _NOTHING).get("allocated") or _NOTHING
            for resource, values in held.items():
                values[labels] = _held(allocated, resource)
        self._info.replace(info)
        for table, found in ((self._quota, quota), (self._allocated, held)):
            for resource, series in table.items():
                series.replace(found[resource])


def _held(allocated: Mapping[str, Any], resource: str) -> float:
    """To four places, as KAI rounds it."""
    names = [name for name in allocated if name == resource or (resource == "gpu" and name.endswith("/gpu"))]
    return round(sum(_amount(allocated[name]) for name in names), 4)


def _amount(text: Any) -> float:
    try:
        return float(parse(str(text)))
    except InputError:
        return 0.0
