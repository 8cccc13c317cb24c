"""Random walks through labs: the invariants of a settled lab, and violations that are found."""

from __future__ import annotations

import pytest

from checks.fuzzing import walk
from checks.fuzzing.walk import Walk, WalkStep, run_seed, run_walk, shrink, steps_of
from kailab.errors import ApiError


@pytest.mark.parametrize("seed", range(2))
def test_a_short_walk_leaves_nothing_undone(seed):
    assert run_seed(seed, 10).differences == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_a_walk_leaves_nothing_undone(seed):
    assert run_seed(seed).differences == ()


def test_the_same_seed_walks_the_same_way():
    assert steps_of(3) == steps_of(3) != steps_of(4)


@pytest.fixture
def idle_scheduler(monkeypatch):
    """Labs whose scheduler binds nobody, though nothing refuses it."""
    real = walk.Lab.open

    def opened(*given, **named):
        lab = real(*given, **named)

        def bind(*bound, **told):
            raise ApiError("no")

        monkeypatch.setattr(lab.cluster, "bind", bind)
        return lab

    monkeypatch.setattr(walk.Lab, "open", opened)


def test_who_waits_though_it_fits_is_noticed(idle_scheduler):
    good, faults = run_walk(0, [WalkStep("apply", 0, 0)])
    assert good == 0
    assert all("waits and would fit on" in fault for fault in faults)


def test_what_fails_is_shrunk_to_its_fewest_steps(idle_scheduler):
    steps = [WalkStep("cordon", 1, 0), WalkStep("apply", 0, 0), WalkStep("advance", 0, 0)]
    remaining, faults = shrink(0, steps)
    assert remaining == [WalkStep("apply", 0, 0)]
    assert "waits and would fit on" in faults[0]


def test_every_kind_of_step_can_be_taken():
    steps = [WalkStep("apply", number, number) for number in range(10)]
    steps += [WalkStep(what, 3, 5) for what in walk._WEIGHTS if what != "apply"]
    lab = Walk(1)
    try:
        assert [fault for step in steps for fault in lab.take(step)] == []
    finally:
        lab.close()
