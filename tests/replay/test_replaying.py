"""A trace in virtual time: who runs when, what evictions cost, and that GPU time balances."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec import to_builtins

from kailab.errors import InputError, InputErrors
from kailab.replay import tables
from kailab.replay.accounts import balance_at
from kailab.replay.fleets import fleet_of_nodes
from kailab.replay.queues import by_share, from_file, priorities_of
from kailab.replay.summary import allocated, summarise
from kailab.replay.trace import read_trace

GPU_SECOND = 1000
CONTENDED = ("early,0,3600,8,blue", "late,600,1200,4,red", "part,700,300,0.5,red", "gang,800,900,12,blue")
TEAMS = "name,submit,seconds,gpus,team"


def times(replayed):
    """Name -> (began, ended), seconds after the first arrival."""
    return {row[0]: (row[8], row[9]) for row in tables.job_rows(replayed)}


def test_jobs_run_as_long_as_they_did_and_wait_for_each_other(trace_file, replayed) -> None:
    done = replayed(trace_file("a,1000,60,8", "b,1010,30,4", "c,1020,30,4", "d,1025,10,8"), "one")
    # b and c begin in the second after a has ended; d has to wait for both.
    assert times(done) == {"a": (0, 60), "b": (60, 90), "c": (60, 90), "d": (90, 100)}
    assert allocated(done, done.ended) == 1.0


def test_the_timeline_tells_of_the_second_in_which_a_job_began(trace_file, queue_file, replayed) -> None:
    path = trace_file("a,0,1000,8,blue", "b,400,300,4,red", "c,401,5,4,red", "d,402,5,4,red", header=TEAMS)
    done = replayed(path, queue_file({"blue": 2, "red": 4}))
    rows = list(tables.timeline_rows(done))
    jobs = [dict(zip(tables.JOBS, row, strict=True)) for row in tables.job_rows(done)]
    for at in sorted({0, *(job["arrived"] for job in jobs), *(job["began"] for job in jobs)}):
        _, _, waiting, _ = next(row for row in reversed(rows) if row[0] <= at)
        assert waiting == sum(job["arrived"] <= at < job["began"] for job in jobs), at


def test_time_without_jobs_costs_nothing(trace_file, replayed) -> None:
    done = replayed(trace_file("a,0,60,1", f"b,{200 * 86_400},60,1"), "one")
    assert times(done)["b"] == (200 * 86_400, 200 * 86_400 + 60)
    assert done.cycles < 10


def test_a_job_larger_than_a_node_is_a_gang(trace_file, replayed) -> None:
    done = replayed(trace_file("whole,0,60,8", "gang,10,60,6"), "one")
    rows = {row[0]: row for row in tables.job_rows(done)}
    assert rows["gang"][5] == 2  # pods of three GPUs
    assert times(done)["gang"] == (60, 120)


def test_pods_of_one_job_may_each_have_a_share(trace_file, replayed) -> None:
    # Two nodes of four GPUs: eight pods of the first job fill four GPUs, three pods more do not fit beside it and the second job.
    header = "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type"
    lines = ("a,w,8,T,100,160,0,0,50,T4", "b,w,4,T,100,160,0,0,100,T4", "c,w,3,T,110,120,0,0,50,T4")
    done = replayed(trace_file(*lines, header=header), "one")
    assert times(done) == {"a-w": (0, 60), "b-w": (0, 60), "c-w": (60, 70)}
    assert done.balance.done == (8 * 500 + 4 * 1000) * 60 + 3 * 500 * 10


def test_an_eviction_costs_what_was_done(trace_file, queue_file, replayed) -> None:
    done = replayed(trace_file(*CONTENDED, header=TEAMS), queue_file({"blue": 2, "red": 6}))
    works = {work.job.name: work for work in done.accounts.works.values()}
    # It ran on 8 GPUs for 600 s, and for one more until its pods had gone; then all over again.
    assert works["early"].evictions == 2
    assert works["early"].lost == 8 * 601 * GPU_SECOND
    assert works["early"].ended - works["early"].arrived == 1801 + 3600
    assert works["gang"].began is None
    assert done.balance.to_wait == 12 * 900 * GPU_SECOND
    assert done.balance.lost == works["early"].lost


def test_with_checkpoints_it_goes_on_from_the_last(trace_file, queue_file, replayed) -> None:
    done = replayed(trace_file(*CONTENDED, header=TEAMS), queue_file({"blue": 2, "red": 6}), checkpoint=250)
    early = next(work for work in done.accounts.works.values() if work.job.name == "early")
    assert early.lost == 8 * (601 - 500) * GPU_SECOND
    assert early.ended - early.arrived == 1801 + 3600 - 500


def test_a_replay_can_be_cut_off(trace_file, replayed) -> None:
    done = replayed(trace_file("a,0,100,8", "b,10,100,8", "c,500,100,8"), "one", lasting=50)
    sums = done.balance
    assert (sums.done, sums.to_run, sums.to_wait) == tuple(8 * s * GPU_SECOND for s in (50, 50, 100))
    assert len(done.accounts.works) == 2


def test_a_job_that_comes_as_the_replay_is_cut_off_is_not_in_it(trace_file, replayed) -> None:
    lines = "a,0,60,1", "b,50,60,1"
    assert times(replayed(trace_file(*lines), "one", lasting=50)) == {"a": (0, None)}
    assert times(replayed(trace_file(*lines), "one", lasting=51)) == {"a": (0, None), "b": (50, None)}


def test_without_ends_jobs_stay(trace_file, replayed) -> None:
    done = replayed(trace_file("a,0,1,4", "b,10,1,3", "c,20,1,2"), "one", endless=True)
    assert times(done) == {"a": (0, None), "b": (10, None), "c": (None, None)}
    assert done.accounts.held == 7 * GPU_SECOND


def test_a_job_runs_on_its_models_only(trace_file, replayed) -> None:
    nodes = trace_file(
        "n-0,64000,65536,1,T4", "n-1,64000,65536,1,P100", header="sn,cpu_milli,memory_mib,gpu,model", name="n.csv"
    )
    path = trace_file("a,0,60,1,P100", "b,1,60,1,P100|V100", "c,2,60,1,", header="name,submit,seconds,gpus,models")
    assert times(replayed(path, "one", fleet=fleet_of_nodes(nodes))) == {"a": (0, 60), "b": (60, 120), "c": (2, 62)}


def test_quotas_by_share_promise_no_more_than_there_is(trace_file) -> None:
    trace = read_trace(trace_file("a,0,60,1,blue", "b,0,60,1,red", "c,0,60,1,White & Co", header=TEAMS))
    queues = by_share(trace, 8)
    quotas = {obj["metadata"]["name"]: obj["spec"]["resources"]["gpu"]["quota"] for obj in queues.objects}
    assert quotas == {"blue": 2.666, "red": 2.666, "white-co": 2.666}


def test_a_team_without_a_queue_is_refused(trace_file, queue_file) -> None:
    trace = read_trace(trace_file("a,0,60,1,blue", "b,0,60,1,green", header=TEAMS))
    with pytest.raises(
        InputError, match=r"queues.yaml: no leaf queue for the trace's teams green; leaf queues of the file: blue, red"
    ):
        from_file(trace, queue_file({"blue": 2, "red": 6}))


def test_a_priority_that_there_is_not_is_refused(trace_file, replayed) -> None:
    path = trace_file("a,0,60,1,train", "b,0,60,1,urgent", header="name,submit,seconds,gpus,priority")
    with pytest.raises(InputError, match=r"trace.csv:3: no PriorityClass 'urgent'; there are: .*train"):
        replayed(path, "one")


def test_a_priority_that_there_is_not_breaks_its_line_alone(trace_file) -> None:
    path = trace_file("a,0,60,1,train", "b,0,60,1,urgent", header="name,submit,seconds,gpus,priority")
    trace = read_trace(path, skip_broken=True)
    assert [job.name for job in trace.jobs] == ["a"]
    assert [(one.line, one.reason.partition(";")[0]) for one in trace.broken] == [(3, "no PriorityClass 'urgent'")]


def test_priority_classes_come_with_the_queues_and_the_fleet(trace_file, queue_file, replayed, two_nodes) -> None:
    path = trace_file(
        "full,0,60,8,blue,", "low,1,60,8,blue,train", "high,2,60,8,blue,urgent", header=f"{TEAMS},priority"
    )
    queues = queue_file({"blue": 8})
    queues.write_text(
        f"{queues.read_text()}---\n{{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {{name: urgent}}, value: 90}}\n"
    )
    with pytest.raises(InputErrors, match="no PriorityClass 'urgent'"):
        read_trace(path)
    trace = read_trace(path, priorities=priorities_of(queues, two_nodes))
    began = {name: began for name, (began, _) in times(replayed(path, queues, trace=trace)).items()}
    assert began["full"] < began["high"] < 60 < began["low"]
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 90,
    }
    fleet = replace(two_nodes, priority_classes=(urgent,))
    of_fleet = replayed(path, "one", fleet=fleet, trace=read_trace(path, priorities=priorities_of(None, fleet)))
    assert times(of_fleet).keys() == began.keys()


def test_a_queue_below_one_that_there_is_not_is_refused(trace_file, queue_file) -> None:
    queues = queue_file({"blue": 8})
    queues.write_text(queues.read_text().replace("spec:\n", "spec:\n  parentQueue: gone\n"))
    told = r"queues.yaml:5: Queue/blue: spec.parentQueue: no queue 'gone' in the file; there are: blue"
    with pytest.raises(InputError, match=told):
        from_file(read_trace(trace_file("a,0,60,1,blue", header=TEAMS)), queues)


def test_a_cycle_of_queues_is_told_with_its_line(trace_file, queue_file) -> None:
    queues = queue_file({"blue": 8, "red": 8})
    first, second = queues.read_text().split("---\n")
    ring = (
        one.replace("spec:\n", f"spec:\n  parentQueue: {other}\n") for one, other in ((first, "red"), (second, "blue"))
    )
    queues.write_text("---\n".join(ring))
    with pytest.raises(
        InputError, match=r"queues\.yaml:5: Queue/blue: spec\.parentQueue: the queues form a cycle: blue -> red -> blue"
    ):
        from_file(read_trace(trace_file("a,0,60,1,blue", header=TEAMS)), queues)


def test_a_class_that_every_cluster_has_is_not_made_anew(trace_file, queue_file) -> None:
    queues = queue_file({"blue": 8})
    train = "---\napiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: train}\nvalue: %d\n"
    plain = queues.read_text()
    queues.write_text(plain + train % 70)
    told = "queues.yaml:13: PriorityClass/train: value: every cluster has this PriorityClass with the value 50; expected another name"
    trace = read_trace(trace_file("a,0,60,1,blue", header=TEAMS))
    with pytest.raises(InputError, match=told):
        from_file(trace, queues)
    queues.write_text(plain + train % 50)
    assert from_file(trace, queues).names == ["blue"]


def test_a_field_that_queues_do_not_have_is_told(trace_file, queue_file) -> None:
    queues = queue_file({"blue": 8})
    queues.write_text(queues.read_text().replace("quota: 8, limit: -1", "quota: 8, limits: 9"))
    (told,) = [
        line
        for line in from_file(read_trace(trace_file("a,0,60,1,blue", header=TEAMS)), queues).warnings
        if "limits" in line
    ]
    assert told.startswith(f"{queues}:6: Queue/blue: spec.resources.gpu.limits: there is no such field")


def test_the_same_trace_gives_the_same_tables(trace_file, queue_file, replayed) -> None:
    path, queues = trace_file(*CONTENDED, header=TEAMS), queue_file({"blue": 2, "red": 6})
    found = []
    for number in range(2):
        done = replayed(path, queues)
        target = path.with_name(f"jobs-{number}.csv")
        tables.write_table_file(target, tables.JOBS, tables.job_rows(done))
        found.append((target.read_bytes(), json.dumps(to_builtins(summarise(done))), list(tables.timeline_rows(done))))
    assert found[0] == found[1]


def test_gpu_time_that_is_lost_on_the_way_is_noticed(trace_file, replayed) -> None:
    done = replayed(trace_file("a,0,60,1"), "one")
    done.accounts.held_time -= 1
    (fault,) = balance_at(done.accounts, done.ended).faults
    assert fault.startswith("held 59999 is not done 60000")
    done.accounts.held_time += 1
    done.accounts.submitted += 5
    (fault,) = balance_at(done.accounts, done.ended).faults
    assert fault.startswith("submitted 60005 is not done 60000")


JOBS = st.tuples(
    st.integers(0, 400),
    st.integers(1, 300),
    st.sampled_from([0.25, 0.5, 1, 2, 3, 4, 6, 8, 16]),
    st.sampled_from(["blue", "red"]),
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(JOBS, min_size=1, max_size=12), st.sampled_from([None, 1, 40]), st.sampled_from([None, 150]))
def test_gpu_time_balances_whatever_comes(trace_file, queue_file, replayed, jobs, checkpoint, lasting) -> None:
    path = trace_file(
        *(f"j{n},{at},{long},{gpus},{team}" for n, (at, long, gpus, team) in enumerate(jobs)), header=TEAMS
    )
    header_only = {team for *_, team in jobs}
    done = replayed(
        path, queue_file({"blue": 2, "red": 6}) if header_only else "", checkpoint=checkpoint, lasting=lasting
    )
    assert not done.balance.faults
    fit = [work for work in done.accounts.works.values() if work.job.gpus <= 8]
    # All that the fleet can hold is done in the end, if there is an end.
    assert lasting is not None or all(work.ended is not None for work in fit)
    assert max(held for _, held, _, _ in tables.timeline_rows(done)) <= 8 * GPU_SECOND
    works = done.accounts.works.values()
    for at, _, waiting, _ in done.accounts.timeline:
        assert waiting == sum(work.arrived <= at and (work.began is None or work.began > at) for work in works)


@st.composite
def borders(draw):
    """Seconds between two checkpoints, and pairs of jobs: one that borrows, and one that takes back at the end of the first one's work or at one of its
    checkpoints, give or take two seconds."""
    interval = draw(st.sampled_from([1, 2, 7, 60, 61, 500]))
    jobs, begin = [], 0
    for _ in range(draw(st.integers(1, 3))):
        seconds = max(1, draw(st.integers(1, 3)) * interval + draw(st.integers(-2, 2)))
        point = draw(st.sampled_from([seconds, min(seconds, interval), seconds // 2]))
        taken = begin + max(0, point + draw(st.integers(-2, 2)))
        jobs += [
            (begin, seconds, draw(st.sampled_from([8, 8, 4, 1])), "blue"),
            (taken, draw(st.sampled_from([1, interval, 40])), draw(st.sampled_from([6, 4, 8])), "red"),
        ]
        begin += draw(st.sampled_from([0, seconds, seconds + 100]))
    return interval, jobs


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(borders(), st.sampled_from([None, None, 60, 61, 130]), st.sampled_from([0, 0, 3]), st.sampled_from([None, 0, 7]))
@example((60, [(0, 60, 8, "blue"), (59, 500, 4, "red")]), None, 0, None)
def test_gpu_time_balances_where_work_ends_at_a_checkpoint(
    trace_file, queue_file, replayed, drawn, lasting, saving, restart
) -> None:
    checkpoint, jobs = drawn
    path = trace_file(*(f"j{n},{','.join(map(str, job))}" for n, job in enumerate(jobs)), header=TEAMS)
    costs = {"checkpoint": checkpoint, "saving": saving, "restart": restart}
    done = replayed(path, queue_file({"blue": 2, "red": 6}), lasting=lasting, **costs)
    assert not done.balance.faults
    works = done.accounts.works.values()
    assert lasting is not None or all(work.ended is not None for work in works)
    for work in works:
        # Nothing is saved that is not of its work, and nobody ends before all of it is done.
        assert all(0 <= saved <= work.job.seconds for saved in work.saved.values())
        assert work.ended is None or work.ended - work.began >= (work.job.seconds if not work.evictions else 0)
