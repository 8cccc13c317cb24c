"""Speeds of jobs by GPU model and by how they are spread."""

from __future__ import annotations

import pytest

from kailab.errors import InputError
from kailab.fleet.fleet import Fleet, Pool
from kailab.replay import tables
from kailab.replay.speeds import SpeedTable, read_speeds
from kailab.replay.trace import read_trace

GPU_SECOND = 1000
TEAMS = "name,submit,seconds,gpus,team"
HALF = SpeedTable({("", ""): ((2, 250), (1, 500))})


def pool(name: str, model: str, count: int = 1) -> Pool:
    return Pool(name=name, count=count, cpu="64", memory="512Gi", gpus=4, gpu_model=model, gpu_memory_mib=81_920)


MIXED = Fleet(name="mixed", pools=(pool("a", "A100"), pool("t", "T4")))


def times(replayed):
    return {row[0]: (row[8], row[9]) for row in tables.job_rows(replayed)}


def test_a_job_runs_at_the_speed_of_its_placement(trace_file, replayed) -> None:
    speeds = SpeedTable({("", "A100"): ((1, 2000),), ("", "T4"): ((1, 300),)})
    header = "name,submit,seconds,gpus,models"
    done = replayed(
        trace_file("fast,0,100,4,A100", "slow,0,100,2,T4", header=header), "one", fleet=MIXED, speeds=speeds
    )
    assert times(done) == {"fast": (0, 50), "slow": (0, 334)}
    # All work is done; 50 s less and 234 s more than in the trace were held for it.
    assert done.balance.done == done.balance.submitted == 6 * 100 * GPU_SECOND
    assert done.balance.slower == (4 * -50 + 2 * 234) * GPU_SECOND
    assert (done.balance.overhead, done.faults) == (0, [])


def test_a_gang_is_as_slow_as_its_slowest_model_and_its_spread(trace_file, replayed) -> None:
    speeds = SpeedTable({("", "A100"): ((2, 800), (1, 1000)), ("", "T4"): ((2, 400), (1, 500))})
    done = replayed(trace_file("gang,0,100,8"), "one", fleet=MIXED, speeds=speeds)
    assert times(done) == {"gang": (0, 250)}
    assert not done.faults


def test_kinds_of_jobs_have_speeds_of_their_own(trace_file, replayed) -> None:
    speeds = SpeedTable({("lstm", ""): ((1, 500),), ("", ""): ((1, 1000),)})
    path = trace_file("a,0,100,1,lstm", "b,0,100,1,resnet", header="name,submit,seconds,gpus,kind")
    assert times(replayed(path, "one", speeds=speeds)) == {"a": (0, 200), "b": (0, 100)}


def test_an_evicted_job_keeps_its_work_at_any_speed(trace_file, queue_file, replayed) -> None:
    path = trace_file("early,0,1000,8,blue", "late,700,100,8,red", header=TEAMS)
    done = replayed(path, queue_file({"blue": 0, "red": 8}), speeds=HALF, checkpoint=100, saving=10, restart=30)
    # Spread over two nodes, a second of work takes four. In 701 s it saves after 100 s, 210 s, ... of work: six times, the
    # last save from 650 s to 660 s. So 150 of 1,000 s are done, and the rest takes 3,400 s, with 33 saves.
    assert times(done) == {"early": (0, 701 + 400 + 3 * 10 + 30 + 3400 + 33 * 10), "late": (701, 701 + 430)}
    assert done.balance.done == done.balance.submitted
    # 41 s of work, a quarter each, were under way when the pods had gone.
    assert done.balance.lost == 8 * 10 * GPU_SECOND
    assert not done.faults


def test_a_replay_that_is_cut_off_balances(trace_file, replayed) -> None:
    done = replayed(trace_file("a,0,100,8", "b,0,100,8"), "one", speeds=HALF, lasting=150)
    assert (done.balance.done, done.balance.to_run) == (8 * 37 * GPU_SECOND, 8 * 63 * GPU_SECOND)
    assert not done.faults


def test_policies_know_the_run_time_at_the_speed(trace_file, replayed) -> None:
    # With half the speed the first runs until 200 s, so that the third, of 150 s, delays the second.
    lines = trace_file("first,0,100,4", "wide,1,50,8", "short,2,150,4")
    speeds = SpeedTable({("", ""): ((1, 500),)})
    kept = {"kailab": {"jobOrder": "fifo", "reservation": "backfill"}}
    assert times(replayed(lines, "one", config=kept, speeds=speeds))["short"][0] == 2
    assert times(replayed(lines, "one", config=kept))["short"][0] > 100


HEADER = "kind,model,nodes,speed"


def test_a_table_is_read(trace_file) -> None:
    trace = read_trace(trace_file("a,0,9,1,lstm", header="name,submit,seconds,gpus,kind"))
    path = trace_file(",A100,,1", ",A100,2,0.8", ",,1,0.25", "lstm,T4,,0.5", header=HEADER, name="speeds.csv")
    table = read_speeds(path, MIXED, trace)
    assert [table.of("", ["A100"], nodes) for nodes in (1, 2, 5)] == [1000, 800, 800]
    assert (table.of("", ["T4"], 1), table.of("lstm", ["T4"], 9), table.of("lstm", ["A100", "T4"], 2)) == (
        250,
        500,
        500,
    )


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([",A100,,1"], "no speed for jobs without a kind on T4"),
        ([",A10,,1", ",,,1"], "speeds.csv:2: no GPU model 'A10'"),
        (["x,,,1", ",,,1"], "speeds.csv:2: no kind of jobs 'x'"),
        ([",,,1", ",,1,2"], "speeds.csv:3: the same kind, model and nodes"),
        ([",,,0"], "speeds.csv:2: speed is '0'; expected a number from 0.001"),
        ([",,,5000"], "speeds.csv:2: speed is '5000'; expected a number from 0.001 to 1000"),
    ],
)
def test_a_table_that_can_not_be_is_told(trace_file, lines, said) -> None:
    trace = read_trace(trace_file("a,0,9,1"))
    with pytest.raises(InputError) as caught:
        read_speeds(trace_file(*lines, header=HEADER, name="speeds.csv"), MIXED, trace)
    assert said in str(caught.value)
