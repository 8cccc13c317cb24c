"""Searches of reclaim that stand for those of other jobs in a trial. No decision changes."""

from __future__ import annotations

import pytest

from kailab.engine.search.alike import searches_shared
from kailab.engine.search.solver import Solver
from tests.engine.conftest import World


@pytest.fixture
def lent(world: World) -> World:
    """8 GPUs in use. One queue holds 1 beyond its quota, and elastic jobs of the other want 2 on one node."""
    world.queue("mine", quota=6)
    world.queue("theirs", quota=3)
    for number in range(4):
        world.node(f"node-{number}", gpus=2)
    for number in range(4):
        world.job(f"held-{number}", queue="mine", on=f"node-{number // 2}")
        world.job(f"lent-{number}", queue="theirs", on=f"node-{2 + number // 2}")
    for number in range(2):
        world.job(f"grows-{number}", queue="mine", tasks=2 + number, gpus=2)
    return world


def searched_for(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The jobs for which a search is made from now on."""
    searched, solve = [], Solver.solve

    def noted(solver: Solver) -> bool:
        searched.append(solver.job.record.name)
        return solve(solver)

    monkeypatch.setattr(Solver, "solve", noted)
    return searched


def test_a_trial_searches_once_for_jobs_of_which_differently_many_pods_wait(lent, monkeypatch):
    searched = searched_for(monkeypatch)
    alone = lent.decide(actions=("reclaim",))
    assert searched == ["grows-0", "grows-1"]
    searched.clear()
    with searches_shared():
        shared = lent.decide(actions=("reclaim",))
    assert searched == ["grows-0"]
    assert shared.nothing
    assert dict(shared.pending("grows-1").tried) == dict(alone.pending("grows-1").tried)
    assert "no set of victims makes room" in dict(shared.pending("grows-1").tried)["reclaim"]


def test_a_job_after_one_that_wants_something_else_has_its_own_search(lent, monkeypatch):
    lent.job("between", queue="mine", gpus=2, shape={"cpu": 200})
    lent.job("last", queue="mine", tasks=5, gpus=2)
    searched = searched_for(monkeypatch)
    with searches_shared():
        lent.decide(actions=("reclaim",))
    assert searched == ["grows-0", "between", "last"]
