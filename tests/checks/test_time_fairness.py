"""Time-based fairness in cycles: usage over a window, and runs of KAI's simulator compared in shape."""

from __future__ import annotations

import json
from itertools import groupby

import pytest

from checks.recorded.time_fairness import QueueHistory, differences, simulate, window_usage
from kailab.scheduler.usage import UsageHistory, UsageInterval, UsageParams

TWO = {
    "Cycles": 400,
    "WindowSize": 64,
    "HalfLifePeriod": 32,
    "KValue": 1.0,
    "Nodes": [{"GPUs": 8, "Count": 1}],
    "Queues": [{"Name": "top", "Parent": ""}, {"Name": "a", "Parent": "top"}, {"Name": "b", "Parent": "top"}],
    "Jobs": {name: {"GPUs": 8, "NumPods": 1, "NumJobs": 40} for name in ("a", "b")},
}


def test_usage_without_decay_is_the_mean_over_the_window():
    samples = [{"a": 8.0}, {"a": 8.0}, {"b": 4.0}]
    assert window_usage(samples, 8.0, window=3, half_life=0) == {"a": pytest.approx(2 / 3), "b": pytest.approx(1 / 6)}
    assert window_usage(samples, 8.0, window=2, half_life=0) == {"a": 0.5, "b": 0.25}


def test_older_use_weighs_half_after_a_half_life():
    samples = [{"a": 8.0}, {"b": 8.0}]
    usage = window_usage(samples, 8.0, window=2, half_life=1)
    assert usage["b"] == pytest.approx(2 * usage["a"])


def test_a_full_window_gives_what_the_scheduler_s_own_history_gives():
    samples = [{"a": 6.0}] * 40 + [{"a": 2.0, "b": 4.0}] * 24
    ours = window_usage(samples, 8.0, window=64, half_life=16)
    pieces = [
        UsageInterval(0.0, (8.0, 1.0, 1.0), {"a": (6.0, 0.0, 0.0)}),
        UsageInterval(40.0, (8.0, 1.0, 1.0), {"a": (2.0, 0.0, 0.0), "b": (4.0, 0.0, 0.0)}),
    ]
    history = UsageHistory(None, UsageParams(window=64.0, half_life=16.0), pieces)  # type: ignore[arg-type]
    exact = history.compute(64.0)
    assert {queue: shares["gpu"] for queue, shares in exact.items()} == pytest.approx(ours, rel=1e-9)


def test_two_queues_with_pods_as_large_as_the_cluster_take_turns():
    courses = simulate(TWO, {"a": 8.0})
    turns = [(held, len(list(stretch))) for held, stretch in groupby(courses["a"].allocation)]
    assert {held for held, _ in turns} == {0.0, 8.0}
    assert len(turns) >= 4
    halves = [sum(courses[name].allocation) / 400 for name in ("a", "b")]
    assert halves == pytest.approx([4.0, 4.0], abs=0.6)
    assert set(courses["top"].fair_share) == {8.0}


def test_without_a_k_value_nobody_ever_gives_way():
    courses = simulate({**TWO, "KValue": 0.0}, {"a": 8.0})
    assert set(courses["a"].allocation) == {8.0}
    assert set(courses["a"].fair_share) == {4.0}


def test_pods_larger_than_any_fair_share_lock_in():
    queues = [*TWO["Queues"], {"Name": "c", "Parent": "top"}]
    jobs = {name: {"GPUs": 8, "NumPods": 1, "NumJobs": 5} for name in ("a", "b", "c")}
    courses = simulate({**TWO, "Queues": queues, "Jobs": jobs, "KValue": 10.0, "HalfLifePeriod": 0}, {"c": 8.0})
    assert set(courses["c"].allocation) == {8.0}
    assert courses["a"].fair_share[-1] == courses["b"].fair_share[-1] == 4.0


def _recorded(courses):
    def rle(values):
        return [[value, len(list(stretch))] for value, stretch in groupby(values)]

    return {
        "series_rle": {
            name: {"allocation": rle(course.allocation), "fair_share": rle(course.fair_share)}
            for name, course in courses.items()
        }
    }


def test_a_course_that_differs_in_shape_is_told():
    courses = simulate(TWO, {"a": 8.0})
    assert differences({"config": TWO}, _recorded(courses)) == []
    still = {
        "top": courses["top"],
        "a": QueueHistory([8.0] * 400, [8.0] * 400),
        "b": QueueHistory([0.0] * 400, [0.0] * 400),
    }
    messages = " ".join(differences({"config": TWO}, _recorded(still)))
    assert "queue a holds 3." in messages or "queue a holds 4." in messages
    assert "queue b changes" in messages


@pytest.mark.slow
def test_recorded_simulations_agree_in_shape(conformance_folder):
    data = json.loads((conformance_folder / "fairshare.json").read_text())
    assert data["time_based_simulations"]
    for simulation in data["time_based_simulations"]:
        for run in simulation["runs"]:
            assert differences(simulation, run) == [], simulation["id"]
