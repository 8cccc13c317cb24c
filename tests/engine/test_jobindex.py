"""An index of jobs in another order: a queue's jobs are sorted when that queue is first read."""

from __future__ import annotations

import pytest

from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.policies.contract import VictimOrder, register_policy
from kailab.engine.policies.settings import PolicyChoice
from kailab.engine.working.jobindex import JobIndex
from tests.engine.conftest import NOW

ASKED: list[str] = []


class RecordingVictimOrder(VictimOrder, frozen=True):
    """Notes about which jobs it is asked."""

    def cost(self, job):
        ASKED.append(job.group.name)
        return 0.0


register_policy("told", RecordingVictimOrder)


@pytest.fixture
def index(world):
    for queue in ("left", "right"):
        world.queue(queue)
        world.node(queue, gpus=8)
        world.jobs(3, f"{queue}-", queue=queue, on=queue)
    working = world.working()
    remaining = JobIndex("victims")
    remaining.fill(working.jobs.values())
    return JobIndex("victims", remaining), working.jobs


def names(entries):
    return [job.uid for _, job in entries]


def test_it_is_a_mapping_of_queues_whichever_are_in_order(index):
    index, _ = index
    assert set(index.lists) == {"left", "right"}
    assert len(index.lists) == 2
    assert "left" in index.lists
    assert "other" not in index.lists
    assert index.lists.get("other", []) == []
    assert names(index.lists["left"]) == ["left-0", "left-1", "left-2"]
    assert set(index.lists) == {"left", "right"}
    assert [job.uid for job in index.jobs()] == [
        f"{queue}-{number}" for queue in ("left", "right") for number in range(3)
    ]


def test_members_are_those_of_a_queue_in_order_or_not(index):
    index, jobs = index
    index.refresh(jobs["right-1"])
    before = {job.uid for job in index.members("right")}
    assert index.lists["right"]
    assert {job.uid for job in index.members("right")} == before == {"right-0", "right-1", "right-2"}


def test_one_that_is_gone_before_its_queue_is_looked_at_does_not_come_back(index):
    index, jobs = index
    for number in range(3):
        index.discard(f"left-{number}")
    assert "left" not in index.lists
    assert list(index.members("left")) == []
    assert index.lists.get("left", []) == []
    index.refresh(jobs["left-1"])
    assert names(index.lists["left"]) == ["left-1"]


def asked(world, **config):
    ASKED.clear()
    run_cycle(world.working(), EngineConfig(victim_order_policy=PolicyChoice(name="told"), **config), NOW)
    return {name.split("-")[0] for name in ASKED}


def test_a_policy_is_asked_about_queues_that_are_looked_at_alone(world):
    world.node("node", gpus=5)
    for queue, priority in (("equal", 75), ("lower", 50)):
        world.queue(queue, quota=-1)
        world.jobs(2, f"{queue}-", queue=queue, on="node", priority=priority)
        world.job(f"{queue}-waits", queue=queue, gpus=2, priority=75)
    # Nobody of the one queue ranks lower than what waits there.
    assert asked(world, actions=("allocate", "preempt")) == {"lower"}
    assert asked(world, actions=("allocate",)) == set()
