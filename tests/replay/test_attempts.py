"""Jobs that make several attempts: after each but the last they fail, and wait for GPUs anew."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kailab.errors import InputError
from kailab.fleet.fleet import Fleet, Pool
from kailab.replay import tables
from kailab.replay.clusters.cluster_file import read_sites
from kailab.replay.job import TraceJob
from kailab.replay.plan import ReplayPlan
from kailab.replay.queues import one_queue
from kailab.replay.run import replay
from kailab.replay.speeds import SpeedTable
from kailab.replay.summary import summarise
from kailab.replay.trace import Trace, read_trace
from tests.replay.clusters_file import clusters_file

GPU_SECOND = 1000
HEADER = "name,submit,seconds,gpus,attempts"


def times(replayed):
    return {row[0]: (row[8], row[9]) for row in tables.job_rows(replayed)}


def test_a_failed_attempt_gives_its_gpus_to_those_that_wait(trace_file, replayed) -> None:
    done = replayed(trace_file("first,0,300,8,100|200", "second,50,70,8,", header=HEADER), "one")
    # The Job makes new pods ten seconds after the failure; until then the second job has the GPUs.
    (_, first), (began, second) = times(done)["first"], times(done)["second"]
    assert (began, second, first) == (100, 170, 370)
    assert done.balance.done == done.balance.submitted == 8 * 370 * GPU_SECOND
    found = summarise(done)
    assert (found.attempts, found.total.evictions, done.balance.lost, done.faults) == (2, 0, 0, [])


def test_the_next_attempt_of_an_older_job_goes_before_younger_jobs(trace_file, replayed) -> None:
    done = replayed(trace_file("first,0,300,8,100|200", "second,50,70,8,", header=HEADER), "one", restart=0)
    assert times(done)["first"] == (0, 300)
    assert times(done)["second"][1] > 300


def test_a_job_alone_needs_the_time_of_its_attempts_and_of_its_restarts(trace_file, replayed) -> None:
    done = replayed(trace_file("a,0,600,8,100|200|300", header=HEADER), "one", restart=10)
    began, ended = times(done)["a"]
    assert began == 0
    # Two restarts of 10 s; the Job may see a failure a second later.
    assert 620 <= ended <= 624
    assert (done.balance.done, done.balance.lost, done.faults) == (8 * 600 * GPU_SECOND, 0, [])


def test_without_a_cost_of_restarts_kubernetes_backs_off(trace_file, replayed) -> None:
    done = replayed(trace_file("a,0,600,8,100|200|300", header=HEADER), "one")
    assert times(done)["a"][1] >= 600 + 10 + 20
    assert not done.faults


def test_an_eviction_costs_the_work_of_its_attempt_only(trace_file, queue_file, replayed) -> None:
    path = trace_file("early,0,1000,8,400|600,blue", "late,700,100,8,,red", header=f"{HEADER},team")
    done = replayed(path, queue_file({"blue": 0, "red": 8}), restart=0)
    assert done.accounts.evictions == 2
    # 400 s were done in the attempt before; less than 302 s of the second are lost.
    assert 0 < done.balance.lost <= 8 * 302 * GPU_SECOND
    assert (done.balance.done, done.faults) == (8 * 1100 * GPU_SECOND, [])


def test_an_attempt_is_as_slow_as_its_placement(trace_file, replayed) -> None:
    half = SpeedTable({("", ""): ((1, 500),)})
    done = replayed(trace_file("a,0,300,4,100|200", header=HEADER), "one", speeds=half, restart=0)
    assert 600 <= times(done)["a"][1] <= 602
    assert (done.balance.slower, done.faults) == (4 * 300 * GPU_SECOND, [])


def test_over_several_clusters_a_job_runs_once_and_that_is_told(trace_file, tmp_path) -> None:
    clusters = clusters_file(tmp_path, {"name": "one", "nodes": 2}, home="one")
    sites = read_sites(clusters, read_trace(trace_file("a,0,300,8,100|200", "b,0,50,1,", header=HEADER)))
    assert [job.attempts for job in sites.trace.jobs] == [(), ()]
    [warning] = sites.warnings
    assert "jobs with several attempts, 1 in all, run once, for as long as all of them" in warning


@pytest.mark.parametrize(
    ("attempts", "said"),
    [
        ("100|100", "attempts is '100|100', 200 s in all; expected 300 s, as in seconds"),
        ("100|x", "attempts is '100|x'; expected the seconds of each attempt, separated by bars, as 60|300"),
        ("300|0", "attempts is '300|0'; expected the seconds of each attempt"),
        ("-1|301", "attempts is '-1|301'; expected the seconds"),
    ],
)
def test_attempts_that_are_none_are_told(trace_file, attempts, said) -> None:
    with pytest.raises(InputError) as caught:
        read_trace(trace_file(f"a,0,300,4,{attempts}", header=HEADER))
    assert said in str(caught.value)


lengths = st.lists(st.integers(1, 90), min_size=1, max_size=4)
jobs = st.lists(st.tuples(st.integers(0, 120), lengths, st.sampled_from((1, 2, 4, 8))), min_size=1, max_size=6)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(jobs, st.sampled_from((None, 0, 7)), st.sampled_from((None, 20)), st.sampled_from((250, 1000, 1700)))
def test_no_gpu_time_is_lost_or_created(drawn, restart, checkpoint, speed) -> None:
    trace_jobs = [
        TraceJob(
            name=f"j{number}", arrival=arrival, seconds=sum(parts), gpus=gpus, line=number + 2,
            attempts=tuple(parts) if len(parts) > 1 else (),
        )
        for number, (arrival, parts, gpus) in enumerate(drawn)
    ]  # fmt: skip
    trace = Trace(file="drawn.csv", form="csv", jobs=sorted(trace_jobs, key=lambda job: job.arrival))
    pool = Pool(name="a", count=2, cpu="64", memory="512Gi", gpus=4, gpu_model="A100", gpu_memory_mib=81_920)
    speeds = None if speed == 1000 else SpeedTable({("", ""): ((1, speed),)})
    done = replay(
        ReplayPlan(
            trace=trace, fleet=Fleet(name="two", pools=(pool,)), queues=one_queue(trace), restart=restart,
            checkpoint=checkpoint, speeds=speeds,
        )
    )  # fmt: skip
    assert not done.faults
    assert done.balance.done == done.balance.submitted == sum(job.demand for job in trace_jobs)
    wanted = sum((len(job.attempts) or 1) - 1 for job in trace_jobs if job.gpus <= 4)
    assert done.accounts.attempts == wanted + sum(
        2 * (len(job.attempts) - 1) for job in trace_jobs if job.gpus > 4 and job.attempts
    )
