"""OpenMetrics text: of one look, as an endpoint tells it, and of a run, each sample with its time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from kailab.errors import InputError
from kailab.evidence.metrics.families import FAMILIES, Family
from kailab.evidence.metrics.look import Look
from kailab.evidence.metrics.series import Series

CONTENT_TYPE = CONTENT_TYPE_LATEST
MOST_SAMPLES = 11_000
"""Samples of one series; more than Prometheus itself answers with."""


class _Metrics(Collector):
    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return iter(self._metrics)


def of_look(look: Look) -> str:
    """Without times: as things are."""
    metrics = []
    for family in FAMILIES:
        metric = _metric(family)
        for labels, value in family.values(look):
            metric.add_metric(labels, value)
        if metric.samples:
            metrics.append(metric)
    return _text(metrics)


def of_series(series: Series, opened: float, every: float) -> str:
    """As if it had been scraped every so many seconds since the lab opened (``opened``: since the epoch), and once at its end. Raises
    InputError for an interval at which there would be too much."""
    if every <= 0:
        raise InputError(f"the time between samples must be above 0, not {every:g} s")
    if series.end / every > MOST_SAMPLES:
        raise InputError(
            f"{series.end:g} s with a sample every {every:g} s: more than {MOST_SAMPLES:,} samples of each series; "
            f"expected at least {series.end / MOST_SAMPLES:.0f} s between them"
        )
    times = scraped(series.end, every)
    metrics = []
    for family, several in series.families():
        metric = _metric(family)
        for one in several:
            place, value = 0, None
            for t in times:
                while place < len(one.points) and one.points[place][0] <= t:
                    value, place = one.points[place][1], place + 1
                if value is not None:
                    metric.add_metric(list(one.labels.values()), value, timestamp=round(opened + t, 3))
        if metric.samples:
            metrics.append(metric)
    return _text(metrics)


def scraped(end: float, every: float) -> list[float]:
    """When samples are taken.

    >>> scraped(100, 30)
    [0.0, 30.0, 60.0, 90.0, 100]
    """
    times = [place * every for place in range(int(end // every) + 1)]
    return times if times[-1] == end else [*times, end]


def _metric(family: Family) -> GaugeMetricFamily | CounterMetricFamily:
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    return kind(family.name, family.told, labels=list(family.labels))


def _text(metrics: Sequence[Metric]) -> str:
    text: bytes = generate_latest(_Metrics(metrics))
    return text.decode()
