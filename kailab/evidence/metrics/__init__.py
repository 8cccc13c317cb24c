"""What Prometheus is told of a lab, at one moment and over a run, with a dashboard and alert rules for it."""

from __future__ import annotations

from importlib.resources import files

DASHBOARD, RULES = "grafana.json", "alerts.yaml"


def read_packaged_file(name: str) -> str:
    """The text of the dashboard or of the alert rules."""
    return (files(__name__) / name).read_text(encoding="utf-8")
