"""Use over time as a figure, and tables of pandas; and the error that says so where the libraries are not installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kailab.errors import InputError
from kailab.evidence.history import LabHistory
from kailab.evidence.metrics import figures
from kailab.evidence.metrics.families import MetricSeries
from kailab.lab import Lab
from tests.metrics.conftest import TREE, job, recorded, value
from tests.metrics.conftest import series_of as recorded_series


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """As without the extra ``figures``: neither can be imported."""
    for module in ("matplotlib", "matplotlib.figure", "pandas"):
        monkeypatch.setitem(sys.modules, module, None)


@pytest.mark.usefixtures("bare")
def test_without_the_libraries_the_extra_is_named(fair: LabHistory) -> None:
    named = r"which is not installed: pip install 'kailab\[figures\]'"
    series = figures.series_of(fair)
    with pytest.raises(InputError, match=f"needs matplotlib, {named}"):
        figures.use_over_time(series)
    with pytest.raises(InputError, match=f"needs pandas, {named}"):
        figures.frame(series)
    with Lab.open() as lab, pytest.raises(InputError, match=f"needs pandas, {named}"):
        lab.table("pods")


def test_only_queues_with_work_are_stacked(fair: LabHistory) -> None:
    held = figures.held_by_queue(figures.series_of(fair))
    assert list(held) == ["team-a", "team-b"]
    assert (held["team-a"].at(300), held["team-b"].at(300)) == (32, 0)
    assert (held["team-a"].at(900), held["team-b"].at(900)) == (16, 16)


def test_the_series_of_a_file_are_those_of_the_run(fair: LabHistory, tmp_path: Path) -> None:
    from kailab.evidence import canonical

    path = tmp_path / "metrics.jsonl"
    path.write_bytes(canonical.json_lines(figures.series_of(fair)))
    assert figures.series_of(path) == figures.series_of(fair)


def test_a_run_is_drawn(fair: LabHistory, tmp_path: Path) -> None:
    figure = figures.use_over_time(figures.series_of(fair), "fair")
    above, below = figure.axes
    assert [one.get_text() for one in above.get_legend().get_texts()] == ["team-a", "team-b", "all GPUs"]
    (line,) = above.get_lines()
    assert set(line.get_ydata()) == {32.0}
    areas = above.collections
    tops = [max(y for path in area.get_paths() for _, y in path.vertices) for area in areas]
    assert tops == [32.0, 32.0]
    assert [one.get_text() for one in below.get_legend().get_texts()] == ["PodGroups that wait", "pods evicted so far"]
    for suffix in figures.SUFFIXES:
        figures.save_figure(figure, tmp_path / f"use{suffix}")
        assert (tmp_path / f"use{suffix}").stat().st_size > 5000


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(InputError, match="no queue with work"):
        figures.use_over_time([MetricSeries(name="kailab_gpus", labels={"state": "all"}, points=[(0.0, 32.0)])])


def test_series_are_a_table(fair: LabHistory) -> None:
    found = figures.frame(figures.series_of(fair))
    held = found[(found.metric == "kai_queue_allocated_gpus") & (found.queue_name == "team-a")]
    assert held.value.max() == 32
    assert len(found) == sum(len(one.points) for one in figures.series_of(fair))


def test_a_lab_is_tables() -> None:
    with Lab.open() as lab:
        lab.apply(*TREE, job("a", "team-a", 20), job("b", "team-b", 40))
        lab.settle()
        pods, queues, nodes = lab.table("pods"), lab.table("queues").set_index("queue"), lab.table("nodes")
        assert len(pods) == 60
        assert pods[pods.holds].gpus.sum() == nodes.used.sum() == 32
        assert nodes.gpus.sum() == 32
        assert queues.loc["org", "holds"] == 32
        assert queues.loc["team-a", "limit"] == float("inf")
        assert set(pods[~pods.holds].why) != {""}
        groups, evicted = lab.table("podgroups"), lab.table("evictions")
        assert (groups.pods.sum(), groups.running.sum(), groups.pending.sum(), groups.holds.sum()) == (60, 32, 28, 32)
        assert set(groups[groups.running == 0].why) != {""}
        assert len(evicted) == len(evicted.for_podgroup) == 0
        with pytest.raises(InputError, match="'racks'; expected pods, podgroups, queues, nodes, evictions"):
            lab.table("racks")  # type: ignore[arg-type]


def test_evictions_are_a_table() -> None:
    with Lab.open() as lab:
        lab.apply(*TREE, job("a", "team-a", 32))
        lab.settle()
        lab.apply(job("b", "team-b", 8))
        lab.settle()
        evicted = lab.table("evictions")
        assert len(evicted) == len(lab.log.evictions) == 8
        assert set(evicted.queue) == {"team-a"}
        assert set(evicted.for_queue) == {"team-b"}
        assert set(evicted.action) == {"reclaim"}
        assert (evicted.seconds > 0).all()


def test_the_figure_is_of_the_same_numbers_as_the_metrics() -> None:
    series = recorded_series(lambda lab: lab.apply(*TREE, job("a", "team-a", 20)))
    held = figures.held_by_queue(series.every())["team-a"]
    assert held.at(series.end) == value(series, "kai_queue_allocated_gpus", series.end, queue_name="team-a") == 20


def test_a_notebook_shows_a_figure(fair: LabHistory) -> None:
    """As IPython asks for it; matplotlib's own figures answer only in a notebook that said %matplotlib."""
    shown = figures.use_over_time(figures.series_of(fair))._repr_png_()
    assert shown.startswith(b"\x89PNG\r\n")
    assert len(shown) > 10_000


def test_a_lab_in_hand_is_drawn_by_its_recorder() -> None:
    with recorded() as (lab, recorder):
        lab.apply(*TREE, job("a", "team-a", 8))
        lab.advance(60)
        series = figures.series_of(recorder.recording)
    assert figures.held_by_queue(series)["team-a"].at(60) == 8
    assert figures.use_over_time(series).axes
