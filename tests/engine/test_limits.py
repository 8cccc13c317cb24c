"""Limits apply to all work, quotas to non-preemptible work, at every level of the tree; and only leaf queues run work."""

import pytest

from kailab.engine.decisions import PendingCode
from kailab.engine.snapshot.records import NO_SHARE, ResourceShare


@pytest.mark.parametrize(("limit", "bound"), [(3, 3), (0, 0), (-1, 8)])
def test_nothing_goes_over_a_limit(world, limit, bound):
    world.node("node-1")
    world.queue("team", limit=limit)
    for number in range(10):
        world.job(f"job{number}")
    assert len(world.decide().bound) == bound


def test_a_limit_of_the_department_holds_for_its_queues_together(world):
    world.node("node-1")
    world.queue("department", limit=3)
    for team in ("a", "b"):
        world.queue(team, parent="department")
        for number in range(4):
            world.job(f"{team}{number}", queue=team)
    decided = world.decide()
    assert len(decided.bound) == 3
    pending = decided.pending("b3")
    assert (pending.code, pending.queue_context) == (PendingCode.OVER_LIMIT, "department")


@pytest.mark.parametrize(("quota", "bound"), [(2, 2), (0, 0), (-1, 4)])
def test_non_preemptible_work_stays_within_quota(world, quota, bound):
    world.node("node-1")
    world.queue("team", quota=quota)
    for number in range(4):
        world.job(f"job{number}", priority=100)
    assert len(world.decide().bound) == bound


def test_non_preemptible_work_stays_within_the_quota_of_every_level(world):
    world.node("node-1")
    world.queue("department", quota=2)
    world.queue("team", quota=4, parent="department")
    for number in range(4):
        world.job(f"job{number}", priority=100)
    decided = world.decide()
    assert len(decided.bound) == 2
    pending = decided.pending("job3")
    assert (pending.code, pending.queue_context) == (PendingCode.NON_PREEMPTIBLE_OVER_QUOTA, "department")


def test_preemptible_work_of_the_queue_does_not_count_against_non_preemptible_quota(world):
    world.node("node-1")
    world.queue("team", quota=2)
    world.job("train", tasks=4, on="node-1")
    world.job("build", tasks=2, gang=2, priority=100)
    assert sorted(world.decide().bound) == ["build-0", "build-1"]


def test_an_explicit_preemptibility_overrules_the_priority(world):
    world.node("node-1")
    world.queue("team", quota=0)
    world.job("firm", priority=50, preemptible=False)
    world.job("loose", priority=125, preemptible=True)
    assert world.decide().bound == {"loose-0": "node-1"}


@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_limits_hold_for_cpu_and_memory_too(world, resource):
    world.node("node-1")
    world.queue("team", **{resource: ResourceShare(quota=0, limit=250, weight=1.0)})
    shape = {"cpu": 0, "memory": 0, resource: 100}
    for number in range(4):
        world.job(f"job{number}", gpus=0, shape=shape)
    assert len(world.decide().bound) == 2


def test_a_queue_without_resources_runs_nothing(world):
    world.node("node-1")
    world.queue("team", limit=0, weight=0, cpu=NO_SHARE, memory=NO_SHARE)
    world.job("a", gpus=0)
    decided = world.decide()
    assert decided.nothing
    assert decided.pending("a").code == PendingCode.OVER_LIMIT


def test_a_missing_queue_a_parent_queue_and_an_orphan_run_nothing(world):
    world.node("node-1")
    world.queue("department")
    world.queue("team", parent="department")
    world.queue("orphan", parent="nowhere")
    world.job("no-queue", queue="gone")
    world.job("on-parent", queue="department")
    world.job("on-orphan", queue="orphan")
    decided = world.decide()
    assert decided.nothing
    codes = {job: decided.pending(job).code for job in ("no-queue", "on-parent", "on-orphan")}
    assert codes == {
        "no-queue": PendingCode.QUEUE_DOES_NOT_EXIST,
        "on-parent": PendingCode.UNSCHEDULABLE,
        "on-orphan": PendingCode.QUEUE_DOES_NOT_EXIST,
    }


def test_shares_of_devices_add_up_exactly(world):
    """0.1 and 0.2 fit a quota of 0.3."""
    world.node("node-1")
    world.queue("team", quota=0.3)
    world.job("a", gpus=0.1, priority=100)
    world.job("b", gpus=0.2, priority=100)
    world.job("c", gpus=0.1, priority=100)
    assert sorted(world.decide().bound) == ["a-0", "b-0"]
