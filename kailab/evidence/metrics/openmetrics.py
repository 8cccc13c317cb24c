"""OpenMetrics text of one snapshot or of a run (each sample with its time), and an HTTP endpoint that Prometheus scrapes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from types import TracebackType
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from kailab.errors import InputError, KailabError
from kailab.evidence.metrics.families import FAMILIES, MOST_SAMPLES, MetricFamily, MetricsSnapshot, SeriesCollector

CONTENT_TYPE = CONTENT_TYPE_LATEST


class _Metrics(Collector):
    """The metrics of one text, in the form that ``generate_latest`` takes."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return iter(self._metrics)


def render_snapshot(snapshot: MetricsSnapshot) -> str:
    """Render a snapshot as OpenMetrics text without times."""
    metrics = []
    for family in FAMILIES:
        metric = _metric(family)
        for labels, value in family.values(snapshot):
            metric.add_metric(labels, value)
        if metric.samples:
            metrics.append(metric)
    return _text(metrics)


def render_series(series: SeriesCollector, opened: float, every: float) -> str:
    """Render series as if they had been scraped every ``every`` seconds since the lab opened (``opened``: seconds since the epoch), and once at the
    end. Raises InputError if there would be too many samples."""
    if every <= 0:
        raise InputError(f"the time between samples must be above 0, not {every:g} s")
    if series.end / every > MOST_SAMPLES:
        raise InputError(
            f"{series.end:g} s with a sample every {every:g} s: more than {MOST_SAMPLES:,} samples of each series; "
            f"expected at least {series.end / MOST_SAMPLES:.0f} s between them"
        )
    times = sample_times(series.end, every)
    metrics = []
    for family, several in series.families():
        metric = _metric(family)
        for item in several:
            for t, value in zip(times, item.sampled(times), strict=True):
                if value is not None:
                    metric.add_metric(list(item.labels.values()), value, timestamp=round(opened + t, 3))
        if metric.samples:
            metrics.append(metric)
    return _text(metrics)


def sample_times(end: float, every: float) -> list[float]:
    """The times of samples.

    >>> sample_times(100, 30)
    [0, 30, 60, 90, 100]
    """
    times = [index * every for index in range(int(end // every) + 1)]
    return times if times[-1] == end else [*times, end]


def _metric(family: MetricFamily) -> GaugeMetricFamily | CounterMetricFamily:
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    return kind(family.name, family.help, labels=list(family.labels))


def _text(metrics: Sequence[Metric]) -> str:
    text: bytes = generate_latest(_Metrics(metrics))
    return text.decode()


METRICS_PATH = "/metrics"
PLAIN = "text/plain; charset=utf-8"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
PATIENCE_SECONDS = 10.0
"""Longest time for a client to send its request."""


class MetricsEndpoint:
    """Serves metrics over HTTP. Raises InputError if it can't listen."""

    def __init__(self, address: str, port: int, take_snapshot: Callable[[], MetricsSnapshot]) -> None:
        """``port``: 0 for any free port. ``take_snapshot``: called for each request, once at a time."""
        lock = Lock()  # takes one snapshot at a time

        class _Server(ThreadingHTTPServer):
            daemon_threads = True
            address_family = socket.AF_INET6 if ":" in address else socket.AF_INET

        class Handler(BaseHTTPRequestHandler):
            timeout = PATIENCE_SECONDS
            server_version, sys_version = "kailab", ""

            def do_GET(self) -> None:
                if not _is_allowed_host(self.headers.get("Host", ""), address):
                    self._answer(403, PLAIN, f"unexpected Host header; expected {address}\n")
                    return
                if self.path.partition("?")[0] != METRICS_PATH:
                    self._answer(404, PLAIN, f"not found; the metrics are at {METRICS_PATH}\n")
                    return
                try:
                    with lock:
                        text = render_snapshot(take_snapshot())
                except KailabError as error:
                    self._answer(503, PLAIN, f"{error}\n")
                else:
                    self._answer(200, CONTENT_TYPE, text)

            def _answer(self, code: int, kind: str, text: str) -> None:
                body = text.encode()
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Do not log requests, because Prometheus reports its scrapes itself."""

        try:
            self._server = _Server((address, port), Handler)
        except OSError as error:
            raise InputError(f"can't listen at {address}:{port}: {error.strerror or error}") from None

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return (
            f"http://[{host!s}]:{port}{METRICS_PATH}" if ":" in str(host) else f"http://{host!s}:{port}{METRICS_PATH}"
        )

    def serve(self) -> None:
        """Serve until interrupted."""
        self._server.serve_forever()

    def __enter__(self) -> MetricsEndpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.server_close()


def _is_allowed_host(host: str, address: str) -> bool:
    """On the loopback address, accept only loopback names as host, against DNS rebinding by a web page."""
    return address not in LOOPBACK or host.rpartition(":")[0].strip("[]") in LOOPBACK
