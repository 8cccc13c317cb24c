"""Cycles of which the engine knows that they decide nothing are left out, and only those."""

from __future__ import annotations

import pytest
from msgspec import structs

from checks.fuzzing import following_cycles
from checks.fuzzing.areas import seeded
from checks.fuzzing.both_ways import crowded
from checks.fuzzing.following_cycles import FollowedOtherwise, follow
from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.following import foresee_binds, nothing_follows
from kailab.engine.policies.settings import PolicyChoice
from kailab.engine.snapshot.records import Status
from kailab.engine.working.workingset import WorkingSet
from kailab.scheduler.settings.policies import with_policies
from tests.engine.conftest import NOW

CONFIG = EngineConfig()
MOST_ATTAINED = PolicyChoice(name="most-attained")


@pytest.fixture
def working(team) -> WorkingSet:
    """Two GPUs, and three jobs that want one each."""
    team.node("a", gpus=2)
    team.jobs(3, "job")
    return team.working()


def cycle(working: WorkingSet, config: EngineConfig = CONFIG):
    decisions = run_cycle(working, config, NOW, reasons=False)
    foresee_binds(working, config, decisions)
    return decisions


def carry_out(working: WorkingSet, binds) -> None:
    for bind in binds:
        task = working.tasks[bind.task].record
        working.set_task(structs.replace(task, status=Status.RUNNING, node=bind.node))


def test_nothing_follows_once_all_binds_have_come(working):
    first, second = cycle(working).binds
    carry_out(working, [first])
    assert not nothing_follows(working, CONFIG)
    carry_out(working, [second])
    assert nothing_follows(working, CONFIG)
    assert not run_cycle(working, CONFIG, NOW + 1).changed


def test_a_start_time_is_foreseen_and_another_change_is_not(working):
    decisions = cycle(working)
    carry_out(working, decisions.binds)
    for uid in decisions.started:
        working.set_podgroup(structs.replace(working.jobs[uid].record, last_start=NOW))
    assert nothing_follows(working, CONFIG)
    uid = decisions.started[0]
    working.set_podgroup(structs.replace(working.jobs[uid].record, priority=1))
    assert not nothing_follows(working, CONFIG)


def test_a_pod_bound_elsewhere_is_not_foreseen(working):
    first, second = cycle(working).binds
    carry_out(working, [structs.replace(first, node="b"), second])
    assert not nothing_follows(working, CONFIG)


def test_what_has_ended_and_held_nothing_may_go(working):
    binds = cycle(working).binds
    carry_out(working, binds)
    bind = binds[0]
    working.set_task(structs.replace(working.tasks[bind.task].record, status=Status.SUCCEEDED))
    assert not nothing_follows(working, CONFIG)
    carry_out(working, cycle(working).binds)
    assert nothing_follows(working, CONFIG)
    working.remove_podgroup(bind.podgroup)
    working.remove_task(bind.task)
    assert nothing_follows(working, CONFIG)


@pytest.mark.parametrize(
    "config",
    [
        EngineConfig(actions=("consolidation", "allocate")),
        EngineConfig(reservation_policy=PolicyChoice(name="backfill")),
        EngineConfig(job_order_policy=PolicyChoice(name="fifo"), victim_order="priority"),
        EngineConfig(aged_after=60.0),
        EngineConfig(use_signatures=False),
        EngineConfig(imitate_faults=True),
    ],
)
def test_where_more_than_state_decides_a_cycle_may_follow(working, config):
    config = with_policies(config)
    carry_out(working, cycle(working, config).binds)
    assert not nothing_follows(working, config)


@pytest.mark.parametrize("number", [2, 3])
@pytest.mark.parametrize(
    "config",
    [EngineConfig(reservation_policy=PolicyChoice(name="backfill")), EngineConfig(victim_order_policy=MOST_ATTAINED)],
)
def test_nothing_follows_where_nobody_waits_whatever_decides(team, number, config):
    team.node("a", gpus=number)
    team.jobs(number, "job")
    working, config = team.working(), with_policies(config)
    carry_out(working, cycle(working, config).binds)
    assert nothing_follows(working, config)
    working.set_task(structs.replace(next(iter(working.tasks.values())).record, status=Status.PENDING, node=""))
    assert not nothing_follows(working, config)


@pytest.mark.parametrize("priority", [50, 90])
def test_an_order_of_victims_that_ages_counts_where_a_search_reads_it(team, priority):
    for name, gpus in (("a", 4), ("b", 2), ("c", 2)):
        team.node(name, gpus=gpus)
    team.job("runs", on="a")
    team.job("small")
    # A bound shows that moving pods makes no room for it. With a high priority, victims are also tried in their order.
    team.job("large", tasks=2, gang=2, gpus=3, priority=priority)
    working, config = team.working(), with_policies(EngineConfig(victim_order_policy=MOST_ATTAINED))
    carry_out(working, cycle(working, config).binds)
    assert nothing_follows(working, config) == (priority == 50)


def test_another_configuration_may_decide_otherwise(working):
    carry_out(working, cycle(working).binds)
    assert not nothing_follows(working, EngineConfig(max_consolidation_victims=-1))


def test_cycles_left_out_decide_nothing_on_changing_clusters():
    assert sum(follow(crowded(seeded(seed), seed), seed, cycles=20) for seed in (3, 10, 31, 33)) > 0


def test_a_cycle_that_decides_something_is_told(monkeypatch):
    monkeypatch.setattr(following_cycles, "nothing_follows", lambda working, config: True)
    with pytest.raises(FollowedOtherwise, match=r"cycle 0 decides"):
        follow(crowded(seeded(3), 3), 3, cycles=5)
