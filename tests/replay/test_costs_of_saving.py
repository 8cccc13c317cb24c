"""What a save and a restart cost, and run times as users announce them."""

from __future__ import annotations

import pytest

from kailab.errors import InputError
from kailab.replay import tables
from kailab.replay.estimates import with_estimates
from kailab.replay.trace import read_trace
from kailab.studies.planning import resample_blocks

TEAMS = "name,submit,seconds,gpus,team"
EVICTED = ("early,0,3600,8,blue", "late,700,1200,8,red")
GPU_SECOND = 1000


def times(replayed):
    return {row[0]: (row[8], row[9]) for row in tables.job_rows(replayed)}


def test_an_evicted_job_queues_again_at_once_and_pays_for_its_restart(trace_file, queue_file, replayed) -> None:
    path = trace_file(*EVICTED, header=TEAMS)
    done = replayed(path, queue_file({"blue": 0, "red": 8}), checkpoint=100, restart=30)
    # 701 s were done, of them 700 saved; 30 s of restart and 2,900 s of work follow the other job.
    assert times(done) == {"early": (0, 1901 + 30 + 2900), "late": (701, 1901)}
    assert done.balance.lost == 8 * GPU_SECOND
    assert done.balance.overhead == 8 * 30 * GPU_SECOND
    assert done.balance.submitted == done.balance.done
    assert not done.faults


def test_each_save_takes_its_time(trace_file, replayed) -> None:
    done = replayed(trace_file("a,0,350,8", "b,0,100,8"), "one", checkpoint=100, saving=10)
    # Three saves; nothing is saved at the very end, and so nothing of the second job.
    assert times(done) == {"a": (0, 380), "b": (380, 480)}
    assert (done.balance.done, done.balance.overhead) == (8 * 450 * GPU_SECOND, 8 * 30 * GPU_SECOND)


def test_a_save_that_is_not_complete_saves_nothing(trace_file, queue_file, replayed) -> None:
    path = trace_file("early,0,1000,8,blue", "late,205,100,8,red", header=TEAMS)
    done = replayed(path, queue_file({"blue": 0, "red": 8}), checkpoint=100, saving=10, restart=0)
    # 100 s of work, a save until 110 s, then 96 s of work until the pod has gone at 206 s.
    early = next(work for work in done.accounts.works.values() if work.job.name == "early")
    assert early.lost == 8 * 96 * GPU_SECOND
    late = trace_file("early,0,1000,8,blue", "late,104,100,8,red", header=TEAMS, name="late.csv")
    done = replayed(late, queue_file({"blue": 0, "red": 8}), checkpoint=100, saving=10, restart=0)
    early = next(work for work in done.accounts.works.values() if work.job.name == "early")
    assert early.lost == 8 * 100 * GPU_SECOND
    assert not done.faults


def test_policies_know_what_users_announce(trace_file, replayed) -> None:
    header = "name,submit,seconds,gpus,estimate"
    path = trace_file("full,0,100,8,", "short,1,10,8,500", "long,2,50,8,60", header=header)
    done = replayed(path, "one", config={"kailab": {"jobOrder": "shortest-job"}})
    assert times(done) == {"full": (0, 100), "long": (100, 150), "short": (150, 160)}


def test_estimates_are_never_too_short_and_the_same_by_their_seed(trace_file) -> None:
    trace = read_trace(trace_file(*(f"j{n},{n},100,1" for n in range(200))))
    drawn = with_estimates(trace, 4, seed=1)
    estimates = [job.estimate for job in drawn.jobs]
    assert (min(estimates) >= 100, max(estimates) <= 500, 280 < sum(estimates) / 200 < 320) == (True, True, True)
    assert with_estimates(trace, 4, seed=1) == drawn != with_estimates(trace, 4, seed=2)
    assert [job.seconds for job in drawn.jobs] == [100] * 200
    assert with_estimates(trace, None) is trace
    assert {job.estimate for job in with_estimates(trace, 0).jobs} == {100}


def test_blocks_keep_together_what_came_together(trace_file) -> None:
    # Each minute two teams submit within ten seconds of each other, and what they submit says when.
    lines = [
        line for n in range(60) for line in (f"r{n},{60 * n + 20},{n + 1},1,red", f"b{n},{60 * n + 30},{n + 1},1,blue")
    ]
    trace = read_trace(trace_file(*lines, header=TEAMS))
    drawn = resample_blocks(trace, 3, 600)
    assert drawn == resample_blocks(trace, 3, 600)
    assert [job.arrival for job in drawn.jobs] == sorted(job.arrival for job in drawn.jobs)
    assert drawn.jobs[0].arrival >= trace.jobs[0].arrival
    assert drawn.jobs[-1].arrival <= trace.jobs[-1].arrival
    # Pairs are torn apart at the borders of the six blocks and where the trace goes on at its beginning only.
    together = sum(
        (second.seconds, second.arrival - first.arrival) == (first.seconds, 10)
        for first, second in zip(drawn.jobs, drawn.jobs[1:], strict=False)
    )
    assert together >= 60 - 2 * 7
    assert len({job.seconds for job in drawn.jobs}) < 60
    with pytest.raises(InputError, match="block: 86400 s; expected less than the time of arrivals, 3551 s"):
        resample_blocks(trace, 3, 86_400)
