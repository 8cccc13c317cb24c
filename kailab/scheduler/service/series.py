"""Two kinds of metrics that the client library lacks."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Gauge


class UnsuffixedCounter:
    """A counter whose name does not end in ``_total``. KAI has such counters; the client library can't write them."""

    def __init__(self, name: str, help: str, label: str = "") -> None:
        self._head = f"# HELP {name} {help}\n# TYPE {name} counter\n"
        self._name = name
        self._label = label
        self._counts: Counter[str] = Counter() if label else Counter({"": 0})
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
