"""Which units of victims the next try starts with when, with KAI's faults imitated, a victim is in two units."""

from __future__ import annotations

import pytest

from kailab.engine.actions import preempt
from kailab.engine.config import EngineConfig
from kailab.engine.placing.allocation import Allocator
from kailab.engine.search.filters import Filters
from kailab.engine.search.search_goal import SearchGoal, VictimBatch
from kailab.engine.search.solver import representatives
from kailab.engine.search.victim_sets import VictimSet
from kailab.engine.session import Session
from kailab.engine.snapshot.records import Status
from tests.engine.conftest import NOW

GONE, MOVED, BACK = Status.RELEASING, Status.PIPELINED, Status.RUNNING


@pytest.fixture
def tasks(team):
    """Two tasks of one job: ``old`` was recorded by a smaller try, ``new`` comes with the rest of the job."""
    team.node("n", gpus=2)
    team.job("victim", tasks=2, on="n")
    found = team.working().tasks
    return found["victim-0"], found["victim-1"]


@pytest.mark.parametrize(
    ("old_status", "new_status", "expected"),
    [
        (GONE, GONE, ["recorded", "rest"]),
        (GONE, MOVED, ["recorded", "rest"]),
        (MOVED, GONE, ["recorded", "rest"]),  # the copy of the first eviction seems to go
        (MOVED, MOVED, ["recorded", "rest"]),
        (GONE, BACK, ["recorded"]),
        (BACK, GONE, ["recorded", "rest"]),  # the copy of the second eviction seems to go
        (BACK, BACK, ["recorded"]),
    ],
)
def test_the_first_unit_of_a_displaced_victim_stands_for_it(tasks, old_status, new_status, expected):
    """``old`` is evicted twice: with the recorded unit, and with the rest of its job."""
    old, new = tasks
    old.status, new.status = old_status, new_status
    units = {"recorded": VictimBatch(old.job, [old]), "rest": VictimBatch(old.job, [old, new])}
    assert representatives(list(units.values()), [old, old, new]) == [units[name] for name in expected]


def test_a_victim_that_is_evicted_once_and_put_back_needs_no_unit(tasks):
    old, new = tasks
    old.status, new.status = BACK, MOVED
    units = [VictimBatch(old.job, [old]), VictimBatch(old.job, [new])]
    assert representatives(units, [old, new]) == units[1:]


@pytest.mark.parametrize(("again", "passes"), [([], False), (["victim-0"], True)])
def test_a_recorded_victim_in_two_units_turns_the_check_of_gpus_off(team, again, passes):
    team.node("n", gpus=2)
    team.job("victim", tasks=2, on="n")
    team.job("large", tasks=1, gpus=8)
    working = team.working()
    session = Session(working, EngineConfig(imitate_faults=True), NOW)
    job = working.jobs["large"]
    goal = SearchGoal(job, list(job), session.table.all)
    recorded = [VictimBatch(working.jobs["victim"], [working.tasks[uid] for uid in ["victim-0", *again]])]
    assert Filters(session, goal, recorded).passes() is passes


def test_a_unit_has_each_victim_once_in_the_next_try(tasks):
    old, new = tasks
    old.status = new.status = GONE
    found = representatives([VictimBatch(old.job, [old, old, new])], [old, new])
    assert [batch.tasks for batch in found] == [[old, new]]


def test_sets_that_evict_a_victim_once_or_twice_differ(tasks):
    old, new = tasks
    goal = SearchGoal(old.job, [], None)
    once = VictimSet(goal, [], [VictimBatch(old.job, [old, new])])
    twice = VictimSet(goal, [], [VictimBatch(old.job, [old, old, new])])
    assert once.fingerprint() != twice.fingerprint()
    assert once.tasks() == twice.tasks()


@pytest.mark.parametrize(("others_run", "wrong_by"), [(True, (-1, 0)), (False, (0, 1))])
def test_each_eviction_of_a_victim_lowers_the_count_of_its_active_tasks(team, others_run, wrong_by):
    """But only while another task of the job runs, whereas undoing it always adds one (KAI: UpdateTaskStatus)."""
    team.node("n", gpus=2)
    team.job("victim", tasks=2, on="n")
    working = team.working()
    session = Session(working, EngineConfig(imitate_faults=True), NOW)
    job, (first, second) = working.jobs["victim"], working.jobs["victim"]
    if not others_run:
        session.evict(second)
    mark = session.mark()
    session.evict(first)
    session.evict(first)
    twice = session.active_tasks(job) - job.active
    session.undo(mark)
    assert (twice, session.active_tasks(job) - job.active) == wrong_by


def test_a_job_whose_active_tasks_seem_to_be_none_is_not_preempted(team):
    team.node("n", gpus=3)
    team.job("victim", tasks=3, on="n")
    team.job("urgent", priority=75)
    working = team.working()
    session = Session(working, EngineConfig(imitate_faults=True), NOW)
    first = next(iter(working.jobs["victim"]))
    for _ in range(3):
        session.evict(first)
    session.pipeline(first, "n", (), False)
    assert session.active_tasks(working.jobs["victim"]) == 1
    session.evict(first)
    assert session.active_tasks(working.jobs["victim"]) == 0
    preempt.execute(session, Allocator(session))
    assert not session.ledger.pipelines
