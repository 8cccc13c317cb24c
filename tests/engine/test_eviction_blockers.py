"""Which PodGroups hold what a job lacks, and what keeps the job from evicting them."""

import pytest

from kailab.engine.config import EngineConfig
from kailab.engine.relaxing.relaxed_cycles import RelaxedCycles
from kailab.engine.report.eviction_blockers import EvictionBlocker
from kailab.engine.snapshot.records import Requirement
from tests.engine.conftest import NOW


def reach(world, job="mine", **config):
    return RelaxedCycles(world.working().value(), EngineConfig(**config), NOW, (job,)).reach(job)


def keeps(world, **config):
    return {one.podgroup: one.keeps for one in reach(world, **config).holders}


def test_each_holder_is_told_by_the_rule_that_keeps_it(world):
    world.node("node-1", gpus=16)
    world.queue("team", quota=4)
    world.queue("rich", quota=2)
    world.queue("fair", quota=4)
    world.job("equal", on="node-1")
    world.job("lower", priority=20, on="node-1")
    world.job("borrowed", queue="rich", tasks=4, gang=4, on="node-1")
    world.job("serving", queue="rich", preemptible=False, on="node-1")
    world.job("young", queue="rich", last_start=NOW - 10, on="node-1")
    world.job("own", queue="fair", tasks=2, on="node-1")
    world.job("mine")
    assert keeps(world, reclaim_min_runtime=60.0) == {
        "equal": EvictionBlocker.RANK,
        "lower": EvictionBlocker.NOTHING,
        "borrowed": EvictionBlocker.NOTHING,
        "serving": EvictionBlocker.NON_PREEMPTIBLE,
        "young": EvictionBlocker.PROTECTED,
        "own": EvictionBlocker.QUOTA,
    }


def test_the_end_of_a_protection_and_what_it_does_not_cover(world):
    world.node("node-1", gpus=4)
    world.queue("team", quota=4)
    world.queue("other", quota=0, reclaim_min_runtime=100.0)
    world.job("young", queue="other", tasks=3, gang=2, last_start=NOW - 40, on="node-1")
    world.job("mine", gpus=2)
    [holder] = reach(world).holders
    assert (holder.until, holder.surplus, holder.held.gpu) == (NOW + 60, True, 3000)


@pytest.mark.parametrize(("quota", "beyond"), [(3, ()), (2, (("team", ("gpu",)),))])
def test_a_share_used_up_keeps_all_of_other_queues(world, quota, beyond):
    world.node("node-1", gpus=4)
    world.queue("team", quota=quota, weight=0)
    world.queue("other", quota=0)
    for number in range(2):
        world.job(f"o{number}", queue="other", on="node-1")
        world.job(f"t{number}", on="node-1")
    world.job("mine")
    assert reach(world).beyond == beyond
    remaining = EvictionBlocker.NOTHING if quota == 3 else EvictionBlocker.SHARE
    assert {one.keeps for one in reach(world).holders if one.queue == "other"} == {remaining}


def test_a_share_above_the_level_where_two_queues_part_does_not_matter(world):
    world.node("node-1", gpus=4)
    world.queue("org", quota=2, weight=0)
    world.queue("team", quota=2, parent="org")
    world.queue("other", quota=0, parent="org")
    world.job("theirs", queue="other", tasks=4, gang=4, on="node-1")
    world.job("mine")
    result = reach(world)
    assert ("org", ("gpu",)) in result.beyond
    assert [one.keeps for one in result.holders] == [EvictionBlocker.NOTHING]


def test_only_where_it_might_run(world):
    world.node("node-1", gpus=4, labels={"kind": "a"})
    world.node("node-2", gpus=4, labels={"kind": "b"})
    world.queue("team", quota=8)
    world.job("here", tasks=3, on="node-1")
    world.job("there", tasks=1, on="node-2")
    world.job("mine", gpus=2, shape={"selector": (Requirement(key="kind", operator="In", values=("a",)),)})
    result = reach(world)
    assert [one.podgroup for one in result.holders] == ["here"]
    assert (result.wanted.gpu, result.free.gpu) == (2000, 1000)
    assert result.lacks() == ("gpu",)


def test_nothing_is_lacking_in_sum_where_the_pieces_are_too_small(world):
    for name in ("node-1", "node-2"):
        world.node(name, gpus=4)
        world.job(f"on-{name}", tasks=2, on=name)
    world.queue("team", quota=8)
    world.job("mine", gpus=4)
    assert reach(world).lacks() == ()


def test_pods_of_other_schedulers_hold_too(world):
    world.node("node-1", gpus=2)
    world.queue("team", quota=2)
    world.job("foreign", on="node-1", tasks=2)
    world.records = [one for one in world.records if getattr(one, "uid", "") != "foreign"]
    world.job("mine")
    [holder] = reach(world).holders
    assert (holder.podgroup, holder.keeps, holder.held.gpu) == ("", EvictionBlocker.SCHEDULER, 2000)
