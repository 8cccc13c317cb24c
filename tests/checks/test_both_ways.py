"""Cycles without reasons decide the same as cycles that try every waiting job."""

from __future__ import annotations

import random

import pytest
from msgspec import structs

from checks.case_input import NOW
from checks.fuzzing import both_ways
from checks.fuzzing.areas import seeded
from checks.fuzzing.both_ways import DecidedOtherwise, crowded, decide_both_ways, run_seed_both_ways
from checks.simulated_cluster import SimulatedCluster
from kailab.engine.actions.classedorder import ClassedOrder
from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.policies.settings import PolicyChoice
from kailab.engine.snapshot.records import Status
from kailab.engine.working.workingset import WorkingSet
from kailab.scheduler.settings.policies import load_choice

SEEDS = range(12)


@pytest.mark.parametrize("seed", SEEDS)
def test_crowded_clusters_are_decided_alike_both_ways(seed):
    assert run_seed_both_ways(seed).passed


def test_crowding_copies_only_jobs_that_wait_as_a_whole():
    before, after = seeded(3), crowded(seeded(3), 3)
    added = {group.uid for group in after.podgroups} - {group.uid for group in before.podgroups}
    assert added
    assert all(task.status == Status.PENDING for task in after.tasks if task.podgroup in added)


def test_a_difference_names_the_field(monkeypatch):
    def forgetful(*arguments, reasons=True):
        decisions = run_cycle(*arguments)
        return decisions if reasons else structs.replace(decisions, now=0.0)

    monkeypatch.setattr(both_ways, "run_cycle", forgetful)
    with pytest.raises(DecidedOtherwise, match=r"^now: without reasons 0\.0, with reasons"):
        decide_both_ways(WorkingSet(), EngineConfig(), NOW)


def test_jobs_that_were_refused_once_are_left_out(monkeypatch):
    turns = []
    pop = ClassedOrder.pop

    def counted(order):
        job = pop(order)
        turns.append(job.uid)
        return job

    monkeypatch.setattr(ClassedOrder, "pop", counted)
    for seed in SEEDS[:3]:
        assert run_seed_both_ways(seed, changes=1).passed
    assert turns


@pytest.mark.parametrize("most", [1, 2])
def test_nodes_are_kept_for_the_same_jobs_both_ways(most):
    kept = 0
    for seed in range(40, 46):
        chance = random.Random(seed)
        case_input = crowded(seeded(seed), seed)
        backfill = load_choice(PolicyChoice(name="backfill", parameters={"most": most}))
        tasks = tuple(
            structs.replace(task, expected_seconds=chance.choice((60.0, 600.0, 6000.0))) for task in case_input.tasks
        )
        config = structs.replace(case_input.config, reservation_policy=backfill)
        working = SimulatedCluster(structs.replace(case_input, tasks=tasks, config=config)).working()
        kept += len(decide_both_ways(working, config, NOW).kept)
    assert kept
