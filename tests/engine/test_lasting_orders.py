"""What policies answer for good is kept from cycle to cycle, and decides as answers that are asked for anew."""

from __future__ import annotations

import random

import pytest
from msgspec import structs

from checks.case_input import NOW
from checks.fuzzing.areas import seeded
from checks.fuzzing.both_ways import crowded
from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.policies.contract import run_times_last
from kailab.engine.policies.settings import PolicyChoice
from kailab.engine.snapshot.records import Status
from kailab.engine.snapshot.snapshot import Snapshot
from kailab.engine.working.workingset import WorkingSet
from kailab.policies.orders import Fifo
from kailab.policies.reservations import Backfill
from kailab.scheduler.settings.policies import with_policies

ORDERS = ("fifo", "smallest-job", "shortest-job", "tiresias")


def working_of(case_input):
    return WorkingSet.of(
        Snapshot(
            nodes=case_input.nodes, queues=case_input.queues, podgroups=case_input.podgroups, tasks=case_input.tasks,
            topologies=case_input.topologies, claims=case_input.claims,
        )
    )  # fmt: skip


def change(working, decisions, chance):
    """Carry out what a cycle bound, end and evict some jobs, and give others another age."""
    for bind in decisions.binds:
        task = working.tasks[bind.task].record
        working.set_task(structs.replace(task, status=Status.RUNNING, node=bind.node, gpu_groups=bind.gpu_groups))
    for uid in chance.sample(sorted(working.jobs), min(3, len(working.jobs))):
        job = working.jobs[uid]
        what = chance.choice(("end", "age", "evict"))
        if what == "end":
            for task in list(job.tasks):
                working.remove_task(task)
            working.remove_podgroup(uid)
        elif what == "age":
            working.set_podgroup(structs.replace(job.record, created=job.record.created + chance.choice((-9.0, 9.0))))
        else:
            times = {"last_start": NOW - 5000.0, "last_evicted": NOW - chance.choice((10.0, 4000.0))}
            working.set_podgroup(structs.replace(job.record, **times))
            for task in list(job.tasks.values()):
                working.set_task(structs.replace(task.record, status=Status.PENDING, node="", gpu_groups=()))


@pytest.mark.parametrize("order", ORDERS)
def test_a_kept_order_decides_as_one_that_is_made_anew(order):
    for seed in range(2):
        chance = random.Random(seed)
        working = working_of(crowded(seeded(seed), seed))
        config = with_policies(EngineConfig(job_order_policy=PolicyChoice(name=order)))
        for cycle in range(4):
            now = NOW + 60.0 * cycle
            decisions = run_cycle(working, config, now)
            assert decisions == run_cycle(WorkingSet.of(working.value()), config, now), (seed, cycle)
            short = run_cycle(working, config, now, reasons=False)
            assert short == structs.replace(decisions, pending=()), (seed, cycle)
            change(working, decisions, chance)


@pytest.mark.parametrize("most", [1, 3])
def test_run_times_that_are_kept_decide_as_those_that_are_asked_for_anew(most):
    for seed in range(3):
        chance = random.Random(seed)
        working = working_of(crowded(seeded(seed), seed))
        for task in list(working.tasks.values()):
            working.set_task(structs.replace(task.record, expected_seconds=chance.choice((None, 50.0, 500.0, 5000.0))))
        backfill = PolicyChoice(name="backfill", parameters={"most": most, "unknown": 300.0})
        config = with_policies(EngineConfig(reservation_policy=backfill))
        for cycle in range(5):
            now = NOW + 60.0 * cycle
            decisions = run_cycle(working, config, now)
            assert decisions == run_cycle(WorkingSet.of(working.value()), config, now), (seed, cycle)
            change(working, decisions, chance)


def test_run_times_are_asked_for_again_only_of_jobs_that_changed(monkeypatch, team):
    asked = []
    expects = Backfill.expects
    monkeypatch.setattr(Backfill, "expects", lambda self, job: asked.append(job.group.uid) or expects(self, job))
    team.node("n", gpus=8)
    for name in ("one", "two"):
        team.job(name, gpus=4, on="n", last_start=NOW - 100, task={"expected_seconds": 5000.0})
    team.job("head", gpus=8)
    working = team.working()
    config = with_policies(EngineConfig(reservation_policy=PolicyChoice(name="backfill")))
    run_cycle(working, config, NOW)
    assert {"one", "two"} <= set(asked)
    asked.clear()
    at = run_cycle(working, config, NOW).kept[0].at
    assert not asked
    task = working.tasks["two-0"].record
    working.set_task(structs.replace(task, expected_seconds=9000.0))
    later = run_cycle(working, config, NOW).kept[0].at
    assert asked == ["two"]
    assert later > at


class ByClock(Backfill, frozen=True):
    def expects(self, job):
        return job.now


def test_the_run_times_of_a_class_with_its_own_rule_last_only_if_it_says_so():
    class ByRecord(ByClock, frozen=True):
        lasting = True

        def expects(self, job):
            return job.group.created

    assert run_times_last(Backfill)
    assert not run_times_last(ByClock)
    assert run_times_last(ByRecord)


def test_a_policy_is_asked_again_only_about_jobs_that_changed(monkeypatch):
    asked = []
    key = Fifo.key
    monkeypatch.setattr(Fifo, "key", lambda self, job: asked.append(job.group.uid) or key(self, job))
    working = working_of(crowded(seeded(1), 1))
    config = with_policies(EngineConfig(actions=("allocate",), job_order_policy=PolicyChoice(name="fifo")))
    run_cycle(working, config, NOW, reasons=False)
    first, asked[:] = set(asked), []
    run_cycle(working, config, NOW, reasons=False)
    run_cycle(working, config, NOW, reasons=False)
    assert first - set(asked)
