"""KAI adds parts of GPUs as floats before it searches: a sum may be too small by a hair, and nothing is tried."""

from __future__ import annotations

import pytest

from kailab.engine.snapshot.gpu_requests import GpuMemory
from kailab.engine.working.float_sums import sum_in_turn


@pytest.mark.parametrize(("part", "evicts"), [(0.2, False), (0.25, True)])
def test_victims_whose_parts_do_not_add_up_are_not_evicted(team, part, evicts):
    team.node("node-1", gpus=2)
    for number in range(3):
        team.job(f"share{number}", gpus=part, on="node-1", groups=[("shared",)])
    team.job("asked", gpus=2, priority=75)
    everyone = {"share0-0", "share1-0", "share2-0"}
    assert team.decide().evicted == everyone
    assert team.decide(imitate_faults=(9,)).evicted == (everyone if evicts else set())


@pytest.mark.parametrize(("one", "other", "moves"), [(0.1, 0.2, False), (0.25, 0.5, True)])
def test_nothing_is_moved_if_the_free_parts_do_not_add_up(team, one, other, moves):
    """Two shares on one GPU just fill two other GPUs, so that theirs becomes free."""
    for name in ("node-1", "node-2", "node-3"):
        team.node(name, gpus=1)
    team.job("one", gpus=one, on="node-1", groups=[("a",)])
    team.job("other", gpus=other, on="node-1", groups=[("a",)])
    team.job("beside-one", gpus=1 - one, on="node-2", groups=[("b",)], priority=100)
    team.job("beside-other", gpus=1 - other, on="node-3", groups=[("c",)], priority=100)
    team.job("asked", gpus=1)
    both = {"one-0": "node-2", "other-0": "node-3"}
    assert team.decide().moved == both
    assert team.decide(imitate_faults=(9,)).moved == (both if moves else {})


@pytest.mark.parametrize(("part", "skips"), [(0.3, True), (0.25, False)])
def test_a_node_whose_parts_do_not_add_up_is_in_no_set_of_nodes(team, part, skips):
    """Of three nodes that can each take one of two shares, KAI tries the first two whose sums are large enough."""
    for age, name in enumerate(("one", "two", "three")):
        team.node(f"node-{name}", gpus=1)
        team.job(f"stays-{name}", gpus=0.5, on=f"node-{name}", groups=[(name,)], priority=100)
        team.job(name, gpus=0.5 if age else part, on=f"node-{name}", groups=[(name,)], created=-age)
    team.job("asked", tasks=2, gang=2, gpus=0.5, priority=75)
    assert team.decide().evicted == {"one-0", "two-0"}
    assert team.decide(imitate_faults=(9,)).evicted == ({"two-0", "three-0"} if skips else {"one-0", "two-0"})


def test_amounts_are_added_one_after_the_other():
    assert sum_in_turn([1.4, 0.2, 0.2, 0.2]) == 1.9999999999999998


@pytest.mark.parametrize(("memory", "searched"), [(500, True), (600, False)])
def test_of_each_pod_only_the_memory_of_one_device_must_be_free_before_a_consolidation(team, memory, searched):
    """As in KAI (IsEnoughGPUsAllocatableForJob), whatever the number of devices."""
    team.node("node-1", gpus=2, gpu_memory_mib=1000)
    team.job("half", gpus=0.5, on="node-1", groups=[("a",)])
    team.job("whole", on="node-1")
    team.job("asked", shape={"gpu": GpuMemory(devices=2, memory_mib=memory)})
    tried = team.decide(actions=("allocate", "consolidation")).pending("asked").tried
    assert ("consolidation" in dict(tried)) == searched
