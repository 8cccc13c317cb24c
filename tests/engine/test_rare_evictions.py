"""Evictions with several rules at once: priorities of queues and jobs, CPU, pod slots, affinities, delays, limits."""

from __future__ import annotations

import pytest

from kailab.engine.snapshot.records import NodeTerm, PodTerm, Requirement, ResourceShare, Status

NOW = 1_000_000.0
HOST = "kubernetes.io/hostname"


def only(*nodes):
    named = Requirement(key=HOST, operator="In", values=nodes)
    return {"terms": (NodeTerm(requirements=(named,)),)}


def pods_like(label, topology=HOST):
    requirement = Requirement(key="app", operator="In", values=(label,))
    return (PodTerm(topology_key=topology, requirements=(requirement,), namespaces=("default",)),)


def labelled(label, **terms):
    return {"labels": (("app", label),), "namespace": "default", **terms}


def hosts(world, **gpus):
    for name, count in gpus.items():
        world.node(name, gpus=count, labels={HOST: name})


# Affinities


@pytest.mark.parametrize(
    ("a", "b", "bound"),
    [
        (4, 2, {"pair-0": "b", "pair-1": "b"}),
        (1, 1, {}),
        # The first goes to the fuller node, as packing has it; there is no room for the second, and KAI tries no other.
        (1, 2, {}),
    ],
)
def test_pods_that_want_to_be_together_start_on_one_node_or_not_at_all(team, a, b, bound):
    hosts(team, a=a, b=b)
    team.job("pair", tasks=2, gang=2, shape=labelled("pair", affinity=pods_like("pair")))
    decided = team.decide()
    assert decided.bound == bound
    assert decided.nothing is not bool(bound)


def test_pods_that_avoid_each_other_need_as_many_nodes(team):
    hosts(team, a=4, b=4)
    team.job("apart", tasks=3, gang=3, shape=labelled("apart", anti_affinity=pods_like("apart")))
    assert team.decide().nothing


def test_running_pods_keep_off_whom_they_avoid(team):
    hosts(team, a=4, b=1)
    team.job("loner", on="a", shape=labelled("loner", anti_affinity=pods_like("crowd")))
    team.job("crowd", shape=labelled("crowd"))
    assert team.decide().bound == {"crowd-0": "b"}


def test_nobody_is_evicted_from_a_node_the_job_may_not_use(world):
    world.queue("lender", quota=1)
    world.queue("borrower")
    hosts(world, a=1, b=1)
    world.job("old", queue="borrower", on="a")
    world.job("young", queue="borrower", on="b")
    world.job("owner", queue="lender", shape=only("a"))
    decided = world.decide()
    assert decided.lost == {"old-0"}
    assert decided.promised == {"owner-0": "a"}


def test_a_victim_tied_to_its_node_is_lost_where_another_would_have_moved(world):
    world.queue("lender", quota=1)
    world.queue("borrower", quota=1)
    hosts(world, a=1, b=1)
    world.job("free", queue="borrower", on="a")
    world.job("owner", queue="lender", shape=only("a"))
    assert world.decide().moved == {"free-0": "b"}


# Queues and priorities


def test_of_two_borrowers_the_queue_of_lower_priority_gives(world):
    world.queue("lender", quota=1)
    world.queue("high", priority=200)
    world.queue("low")
    world.node("n", gpus=2)
    world.job("from-high", queue="high", on="n")
    world.job("from-low", queue="low", on="n")
    world.job("owner", queue="lender")
    assert world.decide().lost == {"from-low-0"}


def test_of_one_queue_the_lower_job_priority_goes_though_it_is_older(world):
    world.lending(gpus=2)
    world.job("low", queue="borrower", on="n", priority=50)
    world.job("high", queue="borrower", on="n", priority=75)
    world.job("owner", queue="lender")
    assert world.decide().lost == {"low-0"}


def test_non_preemptible_work_reclaims_within_its_quota(world):
    world.lending(gpus=1)
    world.job("guest", queue="borrower", on="n")
    world.job("owner", queue="lender", priority=100)
    assert world.decide().lost == {"guest-0"}


def test_non_preemptible_work_beyond_quota_reclaims_nothing(world):
    world.lending(gpus=3)
    world.job("mine", queue="lender", on="n", priority=100)
    world.job("guest", queue="borrower", tasks=2, on="n")
    world.job("more", queue="lender", priority=100)
    assert world.decide().nothing


def test_a_non_preemptible_job_over_quota_does_not_preempt_either(world):
    world.queue("team", quota=1)
    world.node("n", gpus=2)
    world.job("mine", on="n", priority=100)
    world.job("low", on="n", priority=50)
    world.job("high", priority=125)
    assert world.decide().nothing


def test_a_job_over_the_limit_of_its_department_reclaims_nothing(world):
    world.queue("dept", quota=4, limit=1)
    world.queue("team", quota=4, parent="dept")
    world.queue("other")
    world.node("n", gpus=2)
    world.job("mine", queue="team", on="n")
    world.job("guest", queue="other", on="n")
    world.job("more", queue="team")
    assert world.decide().nothing


def test_preemption_makes_room_below_a_limit(world):
    world.queue("team", quota=-1, limit=1)
    world.node("n", gpus=4)
    world.job("low", on="n")
    world.job("high", priority=75)
    decided = world.decide()
    assert decided.lost == {"low-0"}
    assert set(decided.promised) == {"high-0"}


def test_equal_priority_waits_below_a_limit(world):
    world.queue("team", quota=-1, limit=1)
    world.node("n", gpus=4)
    world.job("first", on="n")
    world.job("second")
    assert world.decide().nothing


# CPU, memory, pod slots


def test_cpu_is_reclaimed_by_a_queue_with_a_cpu_quota(world):
    world.queue("lender", cpu=ResourceShare(quota=1000, limit=-1, weight=1.0))
    world.queue("borrower", cpu=ResourceShare(quota=0, limit=-1, weight=1.0))
    world.node("n", gpus=0, cpu=2000)
    world.job("guest", queue="borrower", tasks=2, gang=1, gpus=0, on="n", shape={"cpu": 1000})
    world.job("owner", queue="lender", gpus=0, shape={"cpu": 1000})
    decided = world.decide()
    assert decided.lost == {"guest-1"}
    assert decided.promised == {"owner-0": "n"}


def test_work_without_gpus_keeps_off_gpu_nodes_while_there_are_others(team):
    team.node("a-gpu", gpus=8)
    team.node("b-cpu", gpus=0)
    team.job("prep", gpus=0)
    assert team.decide().bound == {"prep-0": "b-cpu"}


def test_work_without_gpus_goes_to_a_gpu_node_when_the_others_are_full(team):
    team.node("a-gpu", gpus=8)
    team.node("b-cpu", gpus=0, cpu=100)
    team.job("prep", tasks=2, gpus=0)
    assert sorted(team.decide().bound.values()) == ["a-gpu", "b-cpu"]


def test_a_node_without_a_pod_slot_takes_nobody(team):
    team.node("n", gpus=8, pods=1)
    team.job("one", on="n")
    team.job("two")
    assert team.decide().nothing


def test_a_slot_is_won_by_preemption_like_any_other_resource(team):
    team.node("n", gpus=8, pods=1)
    team.job("low", on="n")
    team.job("high", priority=75)
    assert team.decide().lost == {"low-0"}


# Delays and leaving pods


@pytest.mark.parametrize(("evicted_ago", "lost"), [(10.0, set()), (100.0, {"low-0"})])
def test_a_preemption_delay_counts_from_the_last_eviction(team, evicted_ago, lost):
    team.node("n", gpus=1)
    team.job("low", on="n")
    team.job("high", priority=75, created=NOW - 10_000, last_evicted=NOW - evicted_ago, preemption_delay=60.0)
    assert team.decide().lost == lost


def test_a_place_that_becomes_free_anyway_is_waited_for_and_nobody_evicted(team):
    team.node("n", gpus=2)
    team.job("leaving", on="n", status=Status.RELEASING)
    team.job("low", on="n")
    team.job("high", priority=75)
    decided = team.decide()
    assert decided.promised == {"high-0": "n"}
    assert not decided.evicted


def test_one_leaving_pod_is_promised_to_one(team):
    team.node("n", gpus=1)
    team.job("leaving", on="n", status=Status.RELEASING)
    team.job("first")
    team.job("second")
    assert team.decide().promised == {"first-0": "n"}


def test_consolidation_is_not_for_non_preemptible_work(world):
    world.queue("team", quota=-1)
    hosts(world, a=2, b=2)
    world.job("left", on="a")
    world.job("right", on="b")
    world.job("pair", gpus=2, priority=100)
    decided = world.decide(actions=("allocate", "consolidation"))
    assert decided.nothing


@pytest.mark.parametrize(
    ("wanted", "ran", "lost"),
    [
        (1, 30.0, {"guest-2"}),
        (1, 90.0, {"guest-2"}),
        (2, 30.0, set()),
        (2, 90.0, {"guest-0", "guest-1", "guest-2"}),
    ],
)
def test_minimum_run_time_protects_the_core_and_not_the_surplus(world, wanted, ran, lost):
    world.lending(gpus=3, quota=wanted, reclaim_min_runtime=60.0)
    world.job("guest", queue="borrower", tasks=3, gang=2, on=["n"] * 3, last_start=NOW - ran)
    world.job("owner", queue="lender", gpus=wanted)
    assert world.decide().lost == lost
