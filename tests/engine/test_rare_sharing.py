"""Shares of several devices, GPU memory on unequal nodes, and MIG, with quotas, limits and evictions."""

from __future__ import annotations

import pytest

from kailab.engine.snapshot.gpu_requests import GpuFraction, GpuMemory, MigInstances
from kailab.engine.snapshot.records import Status

SMALL, LARGE = "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb"


def shares(portion, devices=2):
    return {"gpu": GpuFraction(devices=devices, portion=round(portion * 1000))}


def memory(mib, devices=1):
    return {"gpu": GpuMemory(devices=devices, memory_mib=mib)}


def mig(profile, count=1):
    return {"gpu": MigInstances(profiles=((profile, count),))}


def mig_node(world, name, **profiles):
    extended = tuple((resource, count) for resource, count in sorted(profiles.items()))
    world.node(name, gpus=0, extended=extended, mig=True)


# Shares of several devices


def test_a_share_of_two_devices_joins_two_that_are_half_full(team):
    team.node("n", gpus=2)
    team.job("here", tasks=2, gpus=0.5, on="n", groups=[("g0",), ("g1",)])
    team.job("pair", shape=shares(0.5))
    decided = team.decide()
    assert decided.bound == {"pair-0": "n"}
    assert set(decided.groups("pair-0")) == {"g0", "g1"}


def test_a_share_of_two_devices_takes_an_open_one_and_a_free_one(team):
    team.node("n", gpus=2)
    team.job("here", gpus=0.5, on="n", groups=[("g0",)])
    team.job("pair", shape=shares(0.5))
    first, second = team.decide().groups("pair-0")
    assert "g0" in (first, second)
    assert first != second


def test_a_share_of_two_devices_is_not_put_twice_on_one(team):
    team.node("n", gpus=1)
    team.job("pair", shape=shares(0.5))
    assert team.decide().nothing


def test_a_share_of_three_devices_does_not_spread_over_nodes(team):
    team.node("n0", gpus=2)
    team.node("n1", gpus=2)
    team.job("three", shape=shares(0.3, devices=3))
    assert team.decide().nothing


@pytest.mark.parametrize(("quota", "bound"), [(1, True), (0.9, False)])
def test_a_share_of_several_devices_counts_their_sum(world, quota, bound):
    world.queue("team", quota=quota)
    world.node("n", gpus=2)
    world.job("pair", shape=shares(0.5), priority=100)
    assert bool(world.decide().bound) is bound


def test_a_share_of_two_devices_is_reclaimed_for_a_whole_one(world):
    world.lending(gpus=2)
    world.job("whole", queue="borrower", on="n")
    world.job("half", queue="borrower", gpus=0.5, on="n", groups=[("g0",)])
    world.job("owner", queue="lender")
    decided = world.decide()
    # The borrower's share is one device: of its one and a half the youngest half goes, which clears a device.
    assert decided.lost == {"half-0"}
    assert decided.promised == {"owner-0": "n"}


def test_both_sharers_of_a_pair_of_devices_stay_when_one_whole_device_is_free(world):
    world.lending(gpus=3)
    world.job("pairs", queue="borrower", tasks=2, shape=shares(0.5), on="n", groups=[("g0", "g1"), ("g0", "g1")])
    world.job("owner", queue="lender")
    decided = world.decide()
    assert decided.bound == {"owner-0": "n"}
    assert not decided.evicted


def test_moving_one_half_beside_the_other_makes_a_whole_device_free(team):
    team.node("n", gpus=2)
    team.job("a", gpus=0.5, on="n", groups=[("g0",)])
    team.job("b", gpus=0.5, on="n", groups=[("g1",)])
    team.job("whole")
    decided = team.decide()
    assert decided.promised == {"whole-0": "n"}
    assert len(decided.moved) == 1
    assert not decided.lost


# GPU memory


def test_a_memory_request_is_held_to_a_limit_by_the_device_of_each_node(world):
    # 400 MiB are half a device of the large node and a whole one of the small: the limit of 0.5 allows the large only.
    world.queue("team", quota=-1, limit=0.5)
    world.node("a-small", gpus=1, gpu_memory_mib=400)
    world.node("b-large", gpus=1, gpu_memory_mib=800)
    world.job("model", shape=memory(400))
    assert world.decide().bound == {"model-0": "b-large"}


def test_a_memory_request_waits_when_only_the_small_device_is_free_and_too_dear(world):
    world.queue("team", quota=-1, limit=0.5)
    world.queue("other", quota=-1)
    world.node("a-small", gpus=1, gpu_memory_mib=400)
    world.node("b-large", gpus=1, gpu_memory_mib=800)
    world.job("taken", queue="other", on="b-large", priority=100)
    world.job("model", shape=memory(400))
    assert world.decide().nothing


def test_more_memory_than_the_small_device_has_goes_to_the_large(team):
    team.node("a-small", gpus=4, gpu_memory_mib=400)
    team.node("b-large", gpus=1, gpu_memory_mib=800)
    team.job("model", shape=memory(500))
    assert team.decide().bound == {"model-0": "b-large"}


def test_memory_of_three_does_not_fit_where_its_shares_rounded_down_would(team):
    team.node("n", gpus=1, gpu_memory_mib=100)
    team.job("models", tasks=3, gang=1, shape=memory(34))
    assert set(team.decide().bound) == {"models-0", "models-1"}


def test_a_memory_request_joins_a_fraction_on_its_device(team):
    team.node("n", gpus=1, gpu_memory_mib=400)
    team.job("half", gpus=0.5, on="n", groups=[("g0",)])
    team.job("model", shape=memory(200))
    assert team.decide().groups("model-0") == ("g0",)


def test_a_memory_request_on_two_devices_needs_two(team):
    team.node("n", gpus=2, gpu_memory_mib=400)
    team.job("half", gpus=0.5, on="n", groups=[("g0",)])
    team.job("model", shape=memory(300, devices=2))
    assert team.decide().nothing


@pytest.mark.parametrize(("quota", "bound"), [(0.5, True), (0.49, False)])
def test_non_preemptible_memory_counts_as_the_share_of_its_device(world, quota, bound):
    world.queue("team", quota=quota)
    world.node("n", gpus=1, gpu_memory_mib=400)
    world.job("model", shape=memory(200), priority=100)
    assert bool(world.decide().bound) is bound


# MIG


def test_a_mig_instance_is_reclaimed_from_the_youngest(world):
    world.queue("lender", quota=1)
    world.queue("borrower")
    mig_node(world, "n", **{SMALL: 2})
    world.job("old", queue="borrower", shape=mig(SMALL), on="n")
    world.job("young", queue="borrower", shape=mig(SMALL), on="n")
    world.job("owner", queue="lender", shape=mig(SMALL))
    decided = world.decide()
    assert decided.lost == {"young-0"}
    assert decided.promised == {"owner-0": "n"}


def test_instances_of_another_profile_are_no_victims_that_help(world):
    world.queue("lender", quota=3)
    world.queue("borrower")
    mig_node(world, "n", **{SMALL: 4, LARGE: 1})
    world.job("small", queue="borrower", tasks=4, shape=mig(SMALL), on="n")
    world.job("large", queue="lender", shape=mig(LARGE), on="n", priority=100)
    world.job("owner", queue="lender", shape=mig(LARGE))
    assert world.decide().nothing


def test_a_mig_instance_is_preempted_by_priority(team):
    mig_node(team, "n", **{LARGE: 1})
    team.job("low", shape=mig(LARGE), on="n")
    team.job("high", shape=mig(LARGE), priority=75)
    decided = team.decide()
    assert decided.lost == {"low-0"}
    assert decided.promised == {"high-0": "n"}


def test_a_gang_of_instances_spreads_over_nodes(team):
    mig_node(team, "n0", **{LARGE: 1})
    mig_node(team, "n1", **{LARGE: 1})
    team.job("gang", tasks=2, gang=2, shape=mig(LARGE))
    assert team.decide().bound == {"gang-0": "n0", "gang-1": "n1"}


def test_instances_count_for_their_leading_number_against_a_limit(world):
    world.queue("team", quota=-1, limit=5)
    mig_node(world, "n", **{SMALL: 4, LARGE: 2})
    world.job("a", shape=mig(LARGE))
    world.job("b", shape=mig(LARGE))
    world.job("c", shape=mig(SMALL))
    assert set(world.decide().bound) == {"a-0", "c-0"}


def test_consolidation_moves_an_instance_to_the_other_node(team):
    mig_node(team, "n0", **{LARGE: 2})
    mig_node(team, "n1", **{LARGE: 2})
    team.job("a", shape=mig(LARGE), on="n0")
    team.job("b", shape=mig(LARGE), on="n1")
    team.job("both", shape=mig(LARGE, 2))
    decided = team.decide()
    assert len(decided.moved) == 1
    assert set(decided.promised) == {"both-0"}
    assert not decided.lost


def test_a_search_looks_at_an_idle_gpu_that_is_promised_to_shares(world):
    """KAI's FeasibleNodesForJob: something idle counts, though the promises of it weigh as much in what is releasing."""
    world.queue("lender", quota=2)
    world.queue("borrower")
    world.node("promised", gpus=1)
    world.node("borrowed", gpus=1)
    world.job("waits", queue="lender", shape=memory(40_000), on="promised", groups=[("g",)], status=Status.PIPELINED)
    world.job("borrows", queue="borrower", on="borrowed")
    world.job("gang", queue="lender", tasks=3, gang=3, shape=memory(40_000))
    decided = world.decide()
    assert decided.evicted == {"borrows-0"}
    assert sorted(decided.promised.values()) == ["borrowed", "borrowed", "promised"]
