"""Each alert fires in a run in which it must and in none in which it must not, each query of the dashboard has an answer: as
Prometheus itself evaluates them, over the series of runs of labs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kailab.evidence.history import LabHistory
from kailab.evidence.metrics import DASHBOARD, RULES, openmetrics, read_packaged_file
from kailab.evidence.metrics.families import FAMILIES, SeriesCollector, collect_series, sample_name
from kailab.evidence.metrics.over_time import snapshots_over_time
from kailab.lab import Lab
from tests.metrics.conftest import TREE, job, queue, series_of
from tests.metrics.promtool import STEP, evaluate, promtool

HOUR = 3600
RULES_OF: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in yaml.safe_load(read_packaged_file(RULES))["groups"] for rule in group["rules"]
}
PANELS = json.loads(read_packaged_file(DASHBOARD))["panels"]
QUERIES = [(panel["title"], target["expr"]) for panel in PANELS for target in panel["targets"]]


def starving(lab: Lab) -> None:
    """team-b asks for what it is due; team-a's work may not be taken."""
    lab.apply(
        *TREE,
        {**queue("team-a", 16, "org"), "spec": {**queue("team-a", 16, "org")["spec"], "reclaimMinRuntime": "10h"}},
    )
    lab.apply(job("a", "team-a", 32, gang=True))
    lab.settle()
    lab.apply(job("b", "team-b", 8))
    lab.advance(2 * HOUR)


def deep(lab: Lab) -> None:
    lab.apply(queue("team", 32), *(job(f"job-{number}", "team", 1) for number in range(90)))
    lab.advance(HOUR)


def limited(lab: Lab) -> None:
    lab.apply(queue("team", 8, limit=8), job("work", "team", 20))
    lab.advance(HOUR)


def scattered(lab: Lab) -> None:
    """Of every node something is taken by work that can't be moved; a pod that wants a whole node waits."""
    lab.apply(queue("team", 32))
    lab.apply(*(job(f"one-{node}", "team", 1, priority="build") for node in range(5)))
    nodes = sorted(node["metadata"]["name"] for node in lab.get("nodes"))
    for number, node in enumerate(nodes):
        lab.delete("job", f"one-{number}")
        lab.apply(on_node(job(f"here-{number}", "team", 1, priority="build"), node))
    lab.apply(job("whole", "team", 1, gpus=8))
    lab.advance(HOUR)


def on_node(work: dict[str, Any], node: str) -> dict[str, Any]:
    work["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    return work


def gangs(lab: Lab) -> None:
    lab.apply(queue("team", 32), job("fits", "team", 4, gang=True), job("large", "team", 40, gang=True))
    lab.advance(HOUR)


def taken(lab: Lab) -> None:
    lab.apply(*TREE, job("a", "team-a", 32))
    lab.settle()
    lab.advance(300)
    lab.apply(job("b", "team-b", 4))
    lab.settle()
    lab.advance(300)
    lab.apply(job("c", "team-b", 12))
    lab.advance(HOUR)


def unused(lab: Lab) -> None:
    lab.apply(*TREE, job("a", "team-a", 16))
    lab.advance(8 * HOUR)


def calm(lab: Lab) -> None:
    """Two teams that use their quota, all that they want."""
    lab.apply(*TREE, job("a", "team-a", 16, gang=True), job("b", "team-b", 16))
    lab.advance(8 * HOUR)


MUST: dict[str, Callable[[Lab], None]] = {
    "QueueStarves": starving,
    "WorkWaitsLong": starving,
    "QueueIsDeep": deep,
    "GpusIdleWhileWorkWaits": limited,
    "FreeGpusAreScattered": scattered,
    "GangsDoNotStart": gangs,
    "ManyEvictions": taken,
    "QuotaStaysUnused": unused,
}
MUST_NOT: dict[str, Callable[[Lab], None]] = {
    "QueueStarves": taken,
    "WorkWaitsLong": limited,
    "QueueIsDeep": limited,
    "GpusIdleWhileWorkWaits": deep,
    "FreeGpusAreScattered": limited,
    "GangsDoNotStart": taken,
    "ManyEvictions": starving,
    "QuotaStaysUnused": starving,
}
_RUNS: dict[Callable[[Lab], None], SeriesCollector] = {}


def run(do: Callable[[Lab], None]) -> SeriesCollector:
    """Once for all tests of a process."""
    if do not in _RUNS:
        _RUNS[do] = series_of(do)
    return _RUNS[do]


def firing(folder: Path, alert: str, series: SeriesCollector) -> bool:
    """Whether it fires at any time of the run."""
    # What a test of promtool expects has to be known to the letter; how often an alert fires is one number. ``or vector(0)``: never.
    counted = {"record": "fired", "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})'}
    asked = [
        {"expr": f"max_over_time(fired[{int(series.end)}s]) > bool 0 or vector(0)", "eval_time": f"{int(series.end)}s"}
    ]
    told = []
    for expected in (0, 1):
        wanted = [{**one, "exp_samples": [{"labels": "{}", "value": expected}]} for one in asked]
        told.append(evaluate(folder, series, [RULES_OF[alert], counted], promql_expr_test=wanted))
    never, ever = told
    # One of the two is right; were neither, promtool could not evaluate it.
    assert (never.returncode == 0) != (ever.returncode == 0), never.stdout + never.stderr + ever.stdout + ever.stderr
    return ever.returncode == 0


def test_each_alert_has_its_runs() -> None:
    assert MUST.keys() == MUST_NOT.keys() == RULES_OF.keys()


@pytest.mark.parametrize("alert", RULES_OF)
def test_it_fires_where_it_must(alert: str, tmp_path: Path) -> None:
    assert firing(tmp_path, alert, run(MUST[alert]))


@pytest.mark.parametrize("alert", RULES_OF)
@pytest.mark.parametrize("do", ["another", "calm"])
def test_it_does_not_fire_where_it_must_not(alert: str, do: str, tmp_path: Path) -> None:
    assert not firing(tmp_path, alert, run(calm if do == "calm" else MUST_NOT[alert]))


def test_promtool_finds_the_rules_in_order(tmp_path: Path) -> None:
    path = tmp_path / RULES
    path.write_text(read_packaged_file(RULES))
    done = subprocess.run([promtool(), "check", "rules", "--lint=all", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(RULES_OF)} rules found" in done.stdout


@pytest.mark.parametrize(("title", "query"), QUERIES)
def test_each_query_of_the_dashboard_has_an_answer(title: str, query: str, fair: LabHistory, tmp_path: Path) -> None:
    """At some time of a run in which there are loans, waits, evictions and gangs."""
    series = collect_series(snapshots_over_time(fair))
    asked = [
        {
            "expr": f"max_over_time((count({query}) > bool 0)[{int(series.end)}s:{STEP}s])",
            "eval_time": f"{int(series.end)}s",
            "exp_samples": [{"labels": "{}", "value": 1}],
        }
    ]
    # The query stands in a rule, too, so that only the series that it asks for are told.
    done = evaluate(tmp_path, series, [{"record": "asked", "expr": query}], promql_expr_test=asked)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_takes_a_run_in(fair: LabHistory, tmp_path: Path) -> None:
    """Its own reader of OpenMetrics: every sample lands in blocks of its database."""
    (tmp_path / "run.om").write_text(
        openmetrics.render_series(collect_series(snapshots_over_time(fair)), fair.opened, STEP)
    )
    command = [
        promtool(),
        "tsdb",
        "create-blocks-from",
        "openmetrics",
        str(tmp_path / "run.om"),
        str(tmp_path / "data"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "data" / "wal").mkdir()  # promtool wants the folder of a server's
    dumped = subprocess.run(
        [promtool(), "tsdb", "dump", '--match=kai_queue_allocated_gpus{queue_name="team-a"}', str(tmp_path / "data")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    values = [float(line.split("}")[1].split()[0]) for line in dumped.splitlines()]
    assert {0.0, 16.0, 32.0} >= set(values) >= {16.0, 32.0}


def test_what_is_asked_for_is_told() -> None:
    """Also where no promtool is: every metric that a rule or panel names is one that a lab has."""
    known = {sample_name(family) for family in FAMILIES}
    for expression in [*(rule["expr"] for rule in RULES_OF.values()), *(query for _, query in QUERIES)]:
        words = "".join(c if c.isalnum() or c == "_" else " " for c in expression).split()
        named = {word for word in words if word.startswith(("kai_", "kailab_"))}
        assert named, expression
        assert named <= known, expression
