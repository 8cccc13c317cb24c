"""Elastic jobs: they work with some of their pods, more slowly."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kailab.errors import InputError
from kailab.fleet.fleet import Fleet, Pool
from kailab.replay import tables
from kailab.replay.clusters.cluster_file import read_sites
from kailab.replay.failures import NodeFailure
from kailab.replay.job import TraceJob
from kailab.replay.plan import ReplayPlan
from kailab.replay.queues import by_share
from kailab.replay.run import replay
from kailab.replay.speeds import SpeedTable, read_speeds
from kailab.replay.trace import Trace, read_trace
from tests.replay.clusters_file import clusters_file

GPU_SECOND = 1000
HEADER = "name,submit,seconds,gpus,pods,least"
TEAMS = f"{HEADER},team"
CURVE = SpeedTable({}, {("", ""): ((4, 800), (8, 1000))})


def times(replayed):
    return {row[0]: (row[8], row[9]) for row in tables.job_rows(replayed)}


def test_a_job_begins_with_some_of_its_pods_and_grows(trace_file, replayed) -> None:
    done = replayed(trace_file("holds,0,400,4,1,", "grows,0,400,8,8,2", header=HEADER), "one")
    # With half of its pods it has half of its work done after 400 s; the others come in the next cycle.
    began, ended = times(done)["grows"]
    assert began == 0
    assert 600 <= ended <= 602
    assert (done.balance.done, done.faults) == (8 * 400 * GPU_SECOND + 4 * 400 * GPU_SECOND, [])
    assert (done.balance.slower, done.balance.lost) == (0, 0)


def test_a_curve_says_how_fast_it_is_with_some(trace_file, replayed) -> None:
    done = replayed(trace_file("holds,0,400,4,1,", "grows,0,400,8,8,2", header=HEADER), "one", speeds=CURVE)
    # 320 s of its work are done after 400 s.
    assert 480 <= times(done)["grows"][1] <= 482
    # Its four pods used half of the GPUs of the trace for 0.8 of the work.
    assert done.balance.slower == (4 * 400 - 8 * 320) * GPU_SECOND
    assert not done.faults


def test_it_gives_pods_back_and_loses_no_work(trace_file, queue_file, replayed) -> None:
    path = trace_file("wide,0,400,8,8,2,blue", "late,100,200,4,1,,red", header=TEAMS)
    done = replayed(path, queue_file({"blue": 4, "red": 4}))
    assert done.accounts.evictions == 4
    assert done.balance.lost == 0
    # 100 s with all pods, 200 s with half of them; its Job makes the pods again, which have the rest in 200 s.
    assert 490 <= times(done)["wide"][1] <= 515
    assert done.balance.done == (8 * 400 + 4 * 200) * GPU_SECOND
    assert not done.faults


def test_below_its_least_number_it_goes_back_to_its_last_save(trace_file, queue_file, replayed) -> None:
    path = trace_file("wide,0,400,8,8,6,blue", "late,130,100,4,1,,red", header=TEAMS)
    done = replayed(path, queue_file({"blue": 4, "red": 4}), checkpoint=50, restart=0)
    assert done.accounts.evictions == 8
    # It had saved after 100 s, and was gone a second after it was evicted.
    assert 8 * 30 * GPU_SECOND <= done.balance.lost <= 8 * 33 * GPU_SECOND
    assert 130 + 100 + 300 <= times(done)["wide"][1] <= 130 + 100 + 305
    assert not done.faults


def test_each_change_of_its_pods_costs_a_restart(trace_file, replayed) -> None:
    done = replayed(trace_file("holds,0,400,4,1,", "grows,0,400,8,8,2", header=HEADER), "one", restart=30)
    assert 630 <= times(done)["grows"][1] <= 632
    assert done.balance.overhead == 8 * 30 * GPU_SECOND
    assert not done.faults


def test_a_node_that_fails_takes_only_its_pods(trace_file, replayed) -> None:
    failure = NodeFailure(node="a-0", at=100, seconds=100)
    path = trace_file("wide,0,400,8,8,2", header=HEADER)
    done = replayed(path, "one", failures=[failure], restart=0)
    assert (done.accounts.failed_pods, done.balance.lost) == (4, 0)
    # 100 s with all, 100 s with half of its pods, the rest with all.
    assert 450 <= times(done)["wide"][1] <= 453
    assert not done.faults


def test_a_replay_that_is_cut_off_balances(trace_file, replayed) -> None:
    done = replayed(trace_file("holds,0,400,4,1,", "grows,0,400,8,8,2", header=HEADER), "one", lasting=300)
    assert done.balance.to_run == (4 * 100 + 8 * 250) * GPU_SECOND
    assert not done.faults


def test_over_several_clusters_it_starts_with_all_its_pods_and_that_is_told(trace_file, tmp_path) -> None:
    clusters = clusters_file(tmp_path, {"name": "one", "nodes": 2}, home="one")
    sites = read_sites(clusters, read_trace(trace_file("a,0,300,8,8,2", header=HEADER)))
    assert [job.least for job in sites.trace.jobs] == [0]
    [warning] = sites.warnings
    assert "jobs that could work with some of their pods, 1 in all, start with all of them" in warning


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a,0,300,8,8,9", "least is 9 and pods is 8; expected the number of its pods, and no more than that"),
        ("a,0,300,8,,2", "least is 2 and there are no pods"),
        ("a,0,300,8,8,1.5", "least is '1.5'; expected a whole number"),
    ],
)
def test_a_least_number_that_can_not_be_is_told(trace_file, line, said) -> None:
    with pytest.raises(InputError) as caught:
        read_trace(trace_file(line, header=HEADER))
    assert said in str(caught.value)


def test_a_job_of_several_attempts_needs_all_its_pods(trace_file) -> None:
    with pytest.raises(InputError) as caught:
        read_trace(trace_file("a,0,300,8,8,2,100|200", header=f"{HEADER},attempts"))
    assert "least is 2; expected no attempts" in str(caught.value)


def test_a_curve_is_read(trace_file, two_nodes) -> None:
    trace = read_trace(trace_file("a,0,9,8,8,2", header=HEADER))
    path = trace_file(",,2,0.5", ",,8,1", header="kind,model,pods,speed", name="speeds.csv")
    table = read_speeds(path, two_nodes, trace)
    assert [table.of_some("", ["A100"], 1, pods, 8) for pods in (1, 2, 4, 8)] == [250, 500, 667, 1000]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([",,2,2,1"], "speeds.csv:2: pods is 2 and nodes is '2'; expected one of the two"),
        ([",,,2,1", ",,,2,0.5"], "speeds.csv:3: the same kind, model and pods"),
    ],
)
def test_a_curve_that_can_not_be_is_told(trace_file, two_nodes, lines, said) -> None:
    trace = read_trace(trace_file("a,0,9,8,8,2", header=HEADER))
    with pytest.raises(InputError) as caught:
        read_speeds(trace_file(*lines, header="kind,model,nodes,pods,speed", name="speeds.csv"), two_nodes, trace)
    assert said in str(caught.value)


def test_a_curve_without_an_elastic_job_is_told(trace_file, two_nodes) -> None:
    trace = read_trace(trace_file("a,0,9,8"))
    path = trace_file(",,2,0.5", header="kind,model,pods,speed", name="speeds.csv")
    with pytest.raises(InputError, match="no job of the trace has a least number of pods"):
        read_speeds(path, two_nodes, trace)


drawn_jobs = st.lists(
    st.tuples(st.integers(0, 200), st.integers(1, 200), st.sampled_from((1, 2, 4, 8)), st.integers(0, 8), st.sampled_from("xyz")),
    min_size=1, max_size=8,
)  # fmt: skip


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    drawn_jobs, st.sampled_from((None, 0, 7)), st.sampled_from((None, 20)), st.sampled_from((0, 3)),
    st.sampled_from((None, CURVE, SpeedTable({("", ""): ((2, 500), (1, 1300))}))), st.sampled_from((None, None, 150)),
)  # fmt: skip
def test_no_gpu_time_is_lost_or_created(drawn, restart, checkpoint, saving, speeds, lasting) -> None:
    trace_jobs = [
        TraceJob(
            name=f"j{number}", arrival=arrival, seconds=seconds, gpus=pods, pods=pods, line=number + 2, team=team,
            least=least if least < pods else 0,
        )
        for number, (arrival, seconds, pods, least, team) in enumerate(drawn)
    ]  # fmt: skip
    trace = Trace(file="drawn.csv", form="csv", jobs=sorted(trace_jobs, key=lambda job: job.arrival))
    pool = Pool(name="a", count=2, cpu="64", memory="512Gi", gpus=4, gpu_model="A100", gpu_memory_mib=81_920)
    done = replay(
        ReplayPlan(
            trace=trace, fleet=Fleet(name="two", pools=(pool,)), queues=by_share(trace, 8), restart=restart,
            checkpoint=checkpoint, saving=saving if checkpoint else 0, speeds=speeds, lasting=lasting,
        )
    )  # fmt: skip
    assert done.faults == []
    if lasting is None:
        assert done.balance.done == done.balance.submitted
