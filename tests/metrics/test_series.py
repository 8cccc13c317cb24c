"""What is told of a run is what happened in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parsed

from kailab.errors import InputError
from kailab.evidence.history import LabHistory
from kailab.evidence.metrics import openmetrics
from kailab.evidence.metrics.families import SeriesCollector, collect_series
from kailab.evidence.metrics.over_time import encode_series as series_in_evidence
from kailab.evidence.metrics.over_time import read_series, snapshots_over_time
from kailab.evidence.recorder import METRICS, Recorder
from kailab.fleet.fleet import Fleet, Pool
from kailab.lab.metric_samples import sample_metrics
from kailab.replay.job import TraceJob
from kailab.replay.plan import ReplayPlan
from kailab.replay.queues import one_queue
from kailab.replay.run import replay
from kailab.replay.trace import Trace
from tests.metrics.conftest import TREE, history_of, job, queue, recorded, series_of, value


@pytest.fixture(scope="session")
def told(fair: LabHistory) -> SeriesCollector:
    return collect_series(snapshots_over_time(fair))


def test_use_of_queues_over_time(told: SeriesCollector) -> None:
    a, b = {"queue_name": "team-a"}, {"queue_metadata_name": "team-b"}
    for t, held_a, held_b in ((500, 32, 0), (1000, 16, 16), (1700, 32, 0)):
        assert value(told, "kai_queue_allocated_gpus", t, **a) == held_a
        assert value(told, "kai_queue_allocated_gpus", t, queue_name="team-b") == held_b
        assert value(told, "kailab_gpu_utilisation_ratio", t, queue="team-a") == held_a / 32
        assert value(told, "kailab_queue_borrowed_gpus", t, queue="team-a") == max(0, held_a - 16)
        assert value(told, "kai_quota_usage_percent", t, team="team-a") == 100 * held_a / 16
        assert value(told, "kailab_gpus", t, state="used") == 32
    assert value(told, "kai_queue_deserved_gpus", 1000, **a) == 16
    assert value(told, "kai_queue_fair_share_gpu", 1000, **b) == 16
    assert value(told, "kai_queue_info", 1000, queue_name="team-b") == 1


def test_a_queue_with_a_display_name() -> None:
    """KAI's scheduler calls a queue by its display name, its queue controller by its name. Evidence has no display names."""
    with recorded() as (lab, recorder):
        lab.apply(*TREE)
        lab.settle()
        now = openmetrics.render_snapshot(sample_metrics(lab))
    assert (
        'kai_queue_fair_share_gpu{queue_display_name="Team B",queue_metadata_name="team-b",queue_name="Team B"}' in now
    )
    assert (
        'kai_queue_allocated_gpus{queue_display_name="Team B",queue_metadata_name="team-b",queue_name="team-b"}' in now
    )
    assert b"Team B" not in series_in_evidence(recorder.recording)


def test_what_waits_and_for_how_long(told: SeriesCollector) -> None:
    assert value(told, "kai_queue_depth_total", 500) == 0
    assert value(told, "kai_queue_depth_total", 1000) == 16
    assert value(told, "kai_queue_depth", 1000, priority="train") == 16
    assert value(told, "kai_queue_depth", 1700, priority="train") is None
    assert sum(one.at(1000) or 0 for one in told.every() if one.name == "kailab_pending_podgroups") == 16
    # Those that were evicted waited until the gang had ended, about ten minutes after it came.
    assert 560 < (value(told, "kai_queue_wait_time_p99_seconds", 1700) or 0) < 620


def test_evictions_decisions_and_gangs(told: SeriesCollector) -> None:
    whom = {"queue": "team-a", "for_queue": "team-b", "action": "reclaim"}
    assert value(told, "kailab_evictions_total", 1000, **whom) == 16
    assert value(told, "kai_preemptions_total", 1000, priority="train") == 16
    evicted = [one for one in told.every() if one.name == "kai_pod_group_evicted_pods_total"]
    assert len(evicted) == 16
    assert {(one.labels["action"], one.labels["namespace"], one.at(1000)) for one in evicted} == {
        ("reclaim", "default", 1)
    }
    assert value(told, "kai_scheduling_decisions_total", 500, decision="accept") == 32
    # The gang's pods, and those that took the room that it left.
    assert value(told, "kai_scheduling_decisions_total", 1000, decision="accept") == 48
    assert value(told, "kai_scheduling_decisions_total", 1700, decision="accept") == 64
    assert value(told, "kai_gang_scheduling_success_rate", 1000, priority="train") == 1
    assert 600 <= (value(told, "kai_gang_job_completion_time_seconds", 1700, team="team-b") or 0) <= 610


def test_a_gang_that_cannot_start_lowers_the_rate() -> None:
    def do(lab):
        lab.apply(queue("team", 32), job("fits", "team", 8, gang=True), job("large", "team", 40, gang=True))
        lab.settle()
        lab.advance(100)

    assert value(series_of(do), "kai_gang_scheduling_success_rate", 50, priority="train") == 0.5


@pytest.mark.parametrize("scheduler", ["kailab", "kube-scheduler"])
def test_a_lab_and_its_record_tell_the_same(scheduler: str) -> None:
    """What both know: the lab keeps no count of binds, and gone PodGroups have no priority class any more."""
    with recorded(scheduler=scheduler) as (lab, recorder):
        lab.apply(queue("team-a", 16), queue("team-b", 16))
        lab.apply(job("a", "team-a", 24), job("b", "team-b", 30, priority="build"))
        lab.settle()
        lab.advance(50)
        now = openmetrics.render_snapshot(sample_metrics(lab))
    past = list(snapshots_over_time(LabHistory.of_recording(recorder.recording)))
    lately = {
        (one.name, *sorted(one.labels.items())): one.value
        for each in parsed(openmetrics.render_snapshot(past[-1]))
        for one in each.samples
    }
    seen = {(one.name, *sorted(one.labels.items())): one.value for each in parsed(now) for one in each.samples}
    others = (
        "kai_preemptions_total",
        "kai_queue_wait_time_p99_seconds",
        "kai_scheduling_decisions_total",
        "kailab_decisions_total",
    )
    assert len(seen) > 30
    for key, found in seen.items():
        if key[0] not in others:
            assert lately[key] == found, key


def test_evidence_has_the_series(tmp_path: Path) -> None:
    with recorded() as (lab, recorder):
        lab.apply(*TREE, job("a", "team-a", 24))
        lab.settle()
        lab.advance(50)
    recorder.write(tmp_path / "lab")
    written = read_series(tmp_path / "lab" / METRICS)
    assert written == collect_series(snapshots_over_time(LabHistory.of_recording(recorder.recording))).every()
    assert {"name", "labels", "points"} == set(json.loads((tmp_path / "lab" / METRICS).read_text().splitlines()[0]))


def test_evidence_of_a_replay_tells_what_was_held_all_the_time() -> None:
    """All of it is one step: only the scheduler's own records tell when pods ended."""
    pool = Pool(name="a", count=2, cpu="64", memory="512Gi", gpus=4, gpu_model="A100", gpu_memory_mib=81_920)
    jobs = [
        TraceJob(name=f"job{n}", arrival=at, seconds=seconds, gpus=gpus)
        for n, (at, seconds, gpus) in enumerate([(0, 1800, 4), (600, 600, 3), (3600, 600, 8), (5400, 60, 1)])
    ]
    trace, recorder = Trace("trace.csv", "csv", jobs), Recorder()
    done = replay(
        ReplayPlan(trace=trace, fleet=Fleet(name="two", pools=(pool,)), queues=one_queue(trace), observers=(recorder,))
    )
    told = collect_series(snapshots_over_time(LabHistory.of_recording(recorder.recording)))
    shift = done.began - done.opened
    for at, held, running in (
        (300, 4, 1),
        (900, 7, 2),
        (1500, 4, 1),
        (2700, 0, 0),
        (3900, 8, 2),
        (4800, 0, 0),
        (5430, 1, 1),
    ):
        assert value(told, "kailab_gpus", at + shift, state="used") == held, at
        assert value(told, "kailab_gpus", at + shift, state="free") == 8 - held, at
        assert (value(told, "kailab_pods", at + shift, phase="Running") or 0) == running, at


def test_samples_over_time_are_openmetrics(fair: LabHistory, told: SeriesCollector) -> None:
    families = {one.name: one for one in parsed(openmetrics.render_series(told, fair.opened, 60))}
    samples = [one for one in families["kai_queue_allocated_gpus"].samples if one.labels["queue_name"] == "team-a"]
    times = [float(one.timestamp) - fair.opened for one in samples]
    # The first cycle comes with the first work; then every minute, and the end.
    assert times == [*(60.0 * minute for minute in range(31))]
    assert [one.value for one, t in zip(samples, times, strict=True) if t in (480, 1020, 1740)] == [32, 16, 32]
    assert families["kailab_evictions"].type == "counter"
    # What is there no more has no samples.
    waits = [float(one.timestamp) - fair.opened for one in families["kailab_longest_wait_seconds"].samples]
    assert waits
    assert max(waits) < 1300


@pytest.mark.parametrize("every", [0.0, -1.0, 0.001])
def test_too_many_samples_are_refused(told: SeriesCollector, every: float) -> None:
    with pytest.raises(InputError, match="samples"):
        openmetrics.render_series(told, 0.0, every)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["team-a", "team-b"]),
            st.integers(1, 6),
            st.integers(1, 9),
            st.booleans(),
            st.integers(5, 300),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_whatever_happens_the_numbers_add_up(works: list[tuple[str, int, int, bool, int]]) -> None:
    def do(lab):
        lab.apply(*TREE)
        for number, (team, pods, gpus, gang, runs) in enumerate(works):
            lab.apply(job(f"work-{number}", team, pods, gpus, gang=gang, runs=runs))
            lab.settle()
            lab.advance(20)
        lab.advance(600)

    history = history_of(do)
    before: dict[tuple[str, ...], float] = {}
    for look in snapshots_over_time(history):
        assert sum(one.pods for one in look.waiting) == sum(
            count for (_, phase), count in look.pods.items() if phase == "Pending"
        )
        assert look.fleet is None or 0 <= look.fleet.largest_free <= look.fleet.gpus - look.fleet.used <= 32_000
        assert all(one.since <= look.t for one in look.waiting)
        counts = {
            (one.name, *sorted(one.labels.items())): one.value
            for family in parsed(openmetrics.render_snapshot(look))
            if family.type == "counter"
            for one in family.samples
        }
        assert all(counts[key] >= count for key, count in before.items() if key in counts or "podgroup" not in str(key))
        before = counts
    assert before["kai_scheduling_decisions_total", ("decision", "accept")] == sum(
        decision.__class__.__name__ == "PodBound" for decision in history.decisions
    )
