"""Prometheus' own promtool: rules and queries over the series of a run, as Prometheus evaluates them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from kailab.evidence.metrics.families import MetricSeries, SeriesCollector

STEP = 60
"""Seconds between samples."""


def promtool() -> str:
    """The program; skips where there is none."""
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("no promtool on the PATH")
    return found


def samples(series: Iterable[MetricSeries], end: float) -> list[dict[str, str]]:
    """As promtool's tests take series: a value for each step, _ where there is none."""
    found = []
    for one in series:
        labels = ",".join(f"{name}={json.dumps(text)}" for name, text in sorted(one.labels.items()))
        values = [one.at(float(t)) for t in range(0, int(end) + 1, STEP)]
        told = " ".join("_" if value is None else f"{value!r}" for value in values)
        found.append({"series": f"{one.name}{{{labels}}}", "values": told})
    return found


def evaluate(
    folder: Path, series: SeriesCollector, rules: Sequence[dict[str, Any]], **asked: Any
) -> subprocess.CompletedProcess[str]:
    """``asked``: ``alert_rule_test`` or ``promql_expr_test``, as promtool has them."""
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": list(rules)}]}))
    names = {name for rule in rules for name in _names(rule["expr"])} if rules else None
    told = [one for one in series.every() if names is None or one.name in names]
    test = {"interval": f"{STEP}s", "input_series": samples(told, series.end), **asked}
    (folder / "test.yaml").write_text(
        yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": f"{STEP}s", "tests": [test]})
    )
    command = [promtool(), "test", "rules", "test.yaml"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def _names(expression: str) -> set[str]:
    """What look like names of metrics; a few more do no harm."""
    return {word for word in "".join(c if c.isalnum() or c == "_" else " " for c in expression).split() if "_" in word}
