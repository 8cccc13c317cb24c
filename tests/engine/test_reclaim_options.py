"""What a queue could reclaim from another, and what stops it."""

from __future__ import annotations

import pytest

from checks import case_input as openings
from checks.fuzzing.random_cluster import seeded
from checks.simulated_cluster import SimulatedCluster
from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.report.reclaim_options import ReclaimOptions
from kailab.engine.session import Session
from kailab.engine.snapshot.records import ResourceShare

NOW = 1_000_000.0


def returns(world, name: str, **config):
    session = Session(world.working(), EngineConfig(**config), NOW)
    try:
        return ReclaimOptions(session).of(name)
    finally:
        session.close()


@pytest.fixture
def lent(world):
    """The owner has 8 GPUs of quota and holds none; the borrower has none and holds 8."""
    world.node("n", gpus=8)
    world.queue("owner", quota=8)
    world.queue("borrower")
    return world


def test_what_nothing_protects_is_open(lent):
    lent.job("work", "borrower", tasks=8, on="n")
    (one,) = returns(lent, "borrower")
    assert (one.taker.queue, one.taker.rule, one.taker.amount) == ("owner", "quota", 8000)
    assert (one.beyond, one.open, one.firm, one.young, one.now) == (8000, 8000, 0, 0, 8000)


def test_non_preemptible_work_stays(lent):
    lent.job("work", "borrower", tasks=6, on="n")
    lent.job("firm", "borrower", tasks=2, on="n", preemptible=False)
    (one,) = returns(lent, "borrower")
    assert (one.firm, one.open, one.now) == (2000, 6000, 6000)


def test_young_work_is_protected_until_its_minimum_runtime_ends(lent):
    lent.job("old", "borrower", tasks=2, gang=2, on="n", last_start=NOW - 700)
    lent.job("young", "borrower", tasks=4, gang=4, on="n", last_start=NOW - 100)
    lent.job("younger", "borrower", tasks=2, gang=1, on="n", last_start=NOW)
    (one,) = returns(lent, "borrower", reclaim_min_runtime=600.0)
    # The surplus of an elastic job is protected by no minimum runtime.
    assert (one.young, one.open) == (5000, 3000)
    assert (one.young_first, one.young_last) == (NOW + 500, NOW + 600)
    (later,) = returns(lent, "borrower", reclaim_min_runtime=600.0, plugins=("proportion",))
    assert later.young == 0


def test_a_scheduler_that_does_not_reclaim(lent):
    lent.job("work", "borrower", tasks=8, on="n")
    (one,) = returns(lent, "borrower", actions=("allocate",))
    assert not one.reclaims
    assert one.now == 0


def test_a_delay_of_those_who_wait(lent):
    lent.job("work", "borrower", tasks=8, on="n")
    lent.job("late", "owner", tasks=2, gang=2, preemption_delay=60.0, created=NOW - 20)
    lent.job("prompt", "owner", tasks=1)
    (one,) = returns(lent, "borrower")
    assert (one.waiting, one.delayed, one.delayed_until) == (3000, 2000, NOW + 40)


def test_through_the_parents_all_work_below_counts(world):
    world.node("n", gpus=8)
    world.queue("org-a", quota=2)
    world.queue("a", quota=2, parent="org-a")
    world.queue("a2", parent="org-a")
    world.queue("org-b", quota=6)
    world.queue("b", quota=6, parent="org-b")
    world.job("one", "a", tasks=4, on="n")
    world.job("two", "a2", tasks=4, on="n")
    one = next(each for each in returns(world, "a") if each.taker.beside == "org-a")
    assert (one.taker.queue, one.beyond, one.open) == ("org-b", 6000, 8000)


@pytest.mark.parametrize("protected", [False, True])
def test_what_is_told_is_what_then_happens(lent, protected):
    """The owner asks: where something is open it takes it, where nothing is it does not."""
    lent.job("work", "borrower", tasks=8, gang=8, on="n", last_start=NOW - 10)
    config = {"reclaim_min_runtime": 600.0 if protected else 0.0}
    (one,) = returns(lent, "borrower", **config)
    lent.job("back", "owner", tasks=8, gang=8)
    decided = lent.decide(**config)
    assert bool(decided.evicted) is (one.now > 0) is not protected


@pytest.mark.parametrize("seeds", [range(150), pytest.param(range(150, 1500), marks=pytest.mark.slow)])
def test_whoever_is_reclaimed_from_was_told_so_before(seeds):
    """Random clusters: each eviction by reclaim is between two queues of which it is told, and there was something to be taken."""
    seen = 0
    for seed in seeds:
        case_input = seeded(seed)
        working = SimulatedCluster(case_input).working()
        decided = run_cycle(working, case_input.config, openings.NOW)
        session = Session(working, case_input.config, openings.NOW)
        messages = ReclaimOptions(session)
        for evict in decided.evictions:
            ground = evict.ground
            if evict.action != "reclaim" or ground is None or ground.rule not in ("quota", "fair share"):
                continue
            pairs = {(one.taker.queue, one.taker.beside): one for one in messages.of(evict.queue)}
            assert pairs[ground.beside, ground.queue].now > 0, seed
            seen += 1
        session.close()
    assert seen


def test_of_cpu_alone_where_nothing_else_is_asked_for(world):
    world.node("n", gpus=8, cpu=8000)
    half = ResourceShare(quota=4000, limit=-1, weight=1.0)
    world.queue("owner", quota=8, cpu=half)
    world.queue("borrower", quota=8, cpu=half)
    world.job("work", "borrower", tasks=8, gpus=0, on="n", shape={"cpu": 1000})
    assert returns(world, "borrower") == ()
    world.job("back", "owner", tasks=2, gpus=0, shape={"cpu": 1000})
    (one,) = returns(world, "borrower")
    assert (one.taker.resource, one.over, one.beyond, one.open, one.waiting) == ("CPU", "CPU", 4000, 8000, 2000)


def test_gpus_of_whoever_holds_too_much_cpu(world):
    """KAI's rule of quotas asks for any resource: GPUs within the quota can be lost with CPU beyond it."""
    world.node("n", gpus=8, cpu=8000)
    world.queue("owner", quota=8, cpu=ResourceShare(quota=8000, limit=-1, weight=1.0))
    world.queue("borrower", quota=-1, cpu=ResourceShare(quota=1000, limit=-1, weight=1.0))
    world.job("work", "borrower", tasks=8, on="n", shape={"cpu": 1000})
    (one,) = returns(world, "borrower")
    assert (one.taker.resource, one.over, one.beyond, one.now) == ("GPU", "CPU", 8000, 8000)
