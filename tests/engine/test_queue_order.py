"""The next queue: below its share before above it, within quota, by priority, then the emptier one."""

import pytest


def one_gpu_left(world, **second):
    world.node("node-1", gpus=1)
    world.queue("first", quota=1)
    world.queue("second", **({"quota": 1} | second))
    world.job("a", queue="first")
    world.job("b", queue="second")


def test_the_older_of_two_equal_queues_is_served_first(world):
    one_gpu_left(world)
    assert world.decide().bound == {"a-0": "node-1"}


def test_the_queue_of_higher_priority_is_served_first(world):
    one_gpu_left(world, priority=200)
    assert world.decide().bound == {"b-0": "node-1"}


def test_the_queue_that_stays_within_its_quota_goes_before_one_of_higher_priority_that_does_not(world):
    world.node("node-1", gpus=1)
    world.queue("rich", quota=0, priority=200)
    world.queue("poor", quota=1)
    world.job("a", queue="rich")
    world.job("b", queue="poor")
    assert world.decide().bound == {"b-0": "node-1"}


def test_the_queue_that_uses_less_of_its_share_is_served_first(world):
    world.node("node-1", gpus=4)
    world.queue("first", quota=4)
    world.queue("second", quota=4)
    world.job("held", queue="first", tasks=2, on="node-1")
    world.job("some", queue="second", on="node-1")
    world.job("a", queue="first")
    world.job("b", queue="second")
    assert world.decide().bound == {"b-0": "node-1"}


def test_queues_take_turns_while_there_is_room(world):
    world.node("node-1", gpus=4)
    for name in ("first", "second"):
        world.queue(name, quota=2)
        for number in range(4):
            world.job(f"{name}{number}", queue=name)
    bound = world.decide().bound
    assert sorted(bound) == ["first0-0", "first1-0", "second0-0", "second1-0"]


def test_departments_are_compared_before_their_queues(world):
    """The newer queue wins because its department holds nothing, though the older one is as empty."""
    world.node("node-1", gpus=2)
    world.queue("busy", quota=1)
    world.queue("idle", quota=1)
    world.queue("busy-a", quota=1, parent="busy")
    world.queue("busy-b", quota=1, parent="busy")
    world.queue("idle-a", quota=1, parent="idle")
    world.job("held", queue="busy-a", on="node-1")
    world.job("a", queue="busy-b")
    world.job("b", queue="idle-a")
    assert world.decide(actions=("allocate",)).bound == {"b-0": "node-1"}


@pytest.mark.parametrize(("weights", "share"), [((3, 1), (6, 2)), ((1, 1), (4, 4))])
def test_idle_capacity_is_divided_by_weight(world, weights, share):
    world.node("node-1", gpus=8)
    for name, weight in zip(("first", "second"), weights, strict=True):
        world.queue(name, weight=weight)
        for number in range(8):
            world.job(f"{name}{number}", queue=name)
    bound = world.decide().bound
    assert tuple(sum(task.startswith(name) for task in bound) for name in ("first", "second")) == share
