"""Prometheus metrics of a lab, at one moment and over time, with a dashboard and alert rules.

families     the metrics: names, labels and how each is computed from a snapshot
over_time    snapshots at each moment of a recorded lab, and the file ``metrics.jsonl``
openmetrics  OpenMetrics text, and an HTTP endpoint for Prometheus
figures      series as figures and tables
"""

from __future__ import annotations

from importlib.resources import files

DASHBOARD, RULES = "grafana.json", "alerts.yaml"


def read_packaged_file(name: str) -> str:
    """The text of the dashboard or of the alert rules."""
    return (files(__name__) / name).read_text(encoding="utf-8")
