"""Benchmarks end where they must, and account for all of the time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks import lab_runs
from benchmarks.lab_runs.cli import app
from benchmarks.lab_runs.measured import BenchmarkResult, Measured, WrongOutcome
from benchmarks.lab_runs.stopwatch import Stopwatch
from kailab.errors import InputError


def accounted(measured: Measured) -> bool:
    """Phases add up to the whole, but for what it takes to start and stop."""
    return sum(measured.phases.values()) == pytest.approx(measured.seconds, rel=0.05, abs=0.002)


def test_fill() -> None:
    outcome = lab_runs.fill("lesson", 32)
    (measured,) = outcome.measured
    assert (outcome.nodes, outcome.gpus, measured.pods) == (5, 32, 32)
    assert accounted(measured)
    for phase in ("submit", "controllers", "grouping", "mirror", "engine: allocate", "binding and eviction", "kubelet"):
        assert measured.phases[phase] > 0, phase
    assert outcome.idle_cycle is not None
    assert outcome.peak_memory > 2**20


def test_fill_with_more_jobs_than_gpus() -> None:
    (measured,) = lab_runs.fill("lesson", 40).measured
    assert measured.pods == 32
    assert measured.facts["jobs"] == 40


def test_reclaim() -> None:
    single, large, many = lab_runs.reclaim("hundred", singles=2).measured
    assert single.pods == 2
    assert single.facts["mean_seconds"] <= single.facts["most_seconds"] <= single.seconds
    assert large.facts["reclaimed_gpus"] > 0
    assert many.pods == 100
    assert all(map(accounted, (single, large, many)))


def test_unschedulable() -> None:
    outcome = lab_runs.unschedulable("racks", pods=3)
    (measured,) = outcome.measured
    assert measured.facts["verdict"]
    assert measured.facts["gang_gpus"] == 24
    assert accounted(measured)


PODS = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time
whole,2000,1024,1,1000,,0,10
half,1000,1024,1,500,,0,10
third,500,512,1,330,,0,10
many,4000,4096,4,1000,,0,10
none,1000,1024,0,0,,0,10
"""


def test_mixed(tmp_path: Path) -> None:
    trace = tmp_path / "pods.csv"
    trace.write_text(PODS)
    outcome = lab_runs.mixed(trace, "lesson", load=150, seed=3)
    (measured,) = outcome.measured
    assert (outcome.nodes, outcome.gpus, measured.facts["unlike_jobs"]) == (5, 32, 5)
    assert 0 < measured.pods < measured.facts["pods_submitted"]
    assert 50 < measured.facts["gpus_allocated_percent"] <= 100
    assert accounted(measured)
    again = lab_runs.mixed(trace, "lesson", load=150, seed=3).measured[0]
    assert (again.pods, again.facts["jobs"]) == (measured.pods, measured.facts["jobs"])


def test_mixed_needs_gpus_to_measure_by(tmp_path: Path) -> None:
    trace = tmp_path / "pods.csv"
    trace.write_text(PODS.splitlines()[0] + "\nnone,1000,1024,0,0,,0,10\n")
    with pytest.raises(InputError, match="expected a trace and a fleet with some"):
        lab_runs.mixed(trace, "lesson")


def test_mixed_without_a_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAILAB_SHARED", str(tmp_path))
    with pytest.raises(InputError, match="give --trace and --fleet"):
        lab_runs.mixed()


@pytest.mark.slow
def test_gang() -> None:
    outcome = lab_runs.gang(nodes_per_rack=1)
    assert [measured.pods for measured in outcome.measured] == [256, 256]


@pytest.mark.parametrize(
    "call",
    [
        lambda: lab_runs.fill("lesson", 0),
        lambda: lab_runs.fill("no-such-fleet"),
        lambda: lab_runs.reclaim("lesson", jobs=33),
        lambda: lab_runs.reclaim("lesson", singles=0),
        lambda: lab_runs.unschedulable("lesson", pods=0),
        lambda: lab_runs.unschedulable("lesson", pods=4000),
        lambda: lab_runs.gang(0),
    ],
)
def test_what_can_not_be_measured(call) -> None:
    with pytest.raises(InputError):
        call()


def test_a_benchmark_that_ends_wrong_is_no_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit on the queue not all pods run: then there is nothing to report."""
    from benchmarks.lab_runs import shapes

    real = shapes.queue
    monkeypatch.setattr(shapes, "queue", lambda *names, **bounds: real(*names, **{**bounds, "limit": 10}))
    with pytest.raises(WrongOutcome, match="10 and not 32"):
        lab_runs.fill("lesson", 32)


def test_progress_is_told() -> None:
    told: list[tuple[str, int, int]] = []
    lab_runs.fill("hundred", 100, lambda *step: told.append(step))
    assert {"submit", "grouping", "mirror", "engine: allocate"} <= {what for what, _, _ in told}


def test_the_stopwatch_adds_up() -> None:
    watch = Stopwatch()
    met: list[str] = []
    watch.on_change = met.append
    watch.switch("outer")
    with watch.during("inner"):
        watch.switch("innermost")
    assert watch.switch("") == "outer"
    assert list(watch.seconds) == ["outer", "inner", "innermost"]
    assert watch.total == sum(watch.seconds.values())
    assert met == ["outer", "inner", "innermost", "outer"]
    watch.switch("")
    assert list(watch.seconds) == ["outer", "inner", "innermost"]


def test_on_the_command_line() -> None:
    result = CliRunner().invoke(app, ["fill", "--fleet", "lesson", "--jobs", "8", "-o", "json"])
    assert result.exit_code == 0
    data = json.loads(result.stdout)
    assert data["results"][0]["pods"] == 8
    assert result.stderr == ""
    text = CliRunner().invoke(app, ["fill", "--fleet", "lesson", "--jobs", "8"]).stdout
    assert "pods/s" in text
    assert "idle cycle" in text
    assert CliRunner().invoke(app, ["fill", "--fleet", "no-such"]).exit_code == 2


def test_text() -> None:
    measured = Measured("m", 2.0, 4000, {"submit": 0.5, "rest": 1.5}, 2, 1.0, {"big_number": 4000})
    text = BenchmarkResult("fill", "f", 500, 4000, (measured,), None, 2**30).text()
    assert "m: 2.000 s, 4,000 pods, 2,000 pods/s, 2 cycles, 1 s of lab time" in text
    assert "submit                       0.500 s   25.0 %" in text
    assert "memory at its highest: 1,024 MiB" in text
    assert "idle" not in text
