"""NUMA: the zones that a node's kubelet would give a pod, and the accounting of zones."""

import pytest

from kailab.engine.snapshot.records import ContainerRequest, Numa, NumaZone, Shape, ZoneShare
from kailab.engine.working.layout import Layout
from kailab.engine.working.numa import Zones
from kailab.engine.working.state import ShapeInfo


def numa(policy="single-numa-node", *zones, scope="pod"):
    """Zones named zone-0, zone-1 ..., each given as its allocatable resources."""
    return Numa(
        policy=policy,
        scope=scope,
        zones=tuple(
            NumaZone(name=f"zone-{i}", allocatable=tuple(sorted(zone.items()))) for i, zone in enumerate(zones)
        ),
    )


def cores(count):
    return {"cpu": count * 1000}


def pinned(count, **more):
    return {"cpu": count * 1000, "guaranteed": True, **more}


def zones_of(decided, task):
    return [share.zone for share in next(b for b in decided.decisions.binds if b.task == task).numa_zones]


def test_a_pod_gets_the_lowest_zone_that_holds_it(team):
    team.node("node-1", gpus=0, numa=numa("single-numa-node", cores(2), cores(4), cores(4)))
    team.job("a", gpus=0, shape=pinned(3))
    assert zones_of(team.decide(), "a-0") == ["zone-1"]


def test_zones_fill_up_one_pod_after_the_other(team):
    team.node("node-1", gpus=0, numa=numa("single-numa-node", cores(4), cores(4)))
    for name in "abc":
        team.job(name, gpus=0, shape=pinned(3))
    decided = team.decide()
    assert {task: zones_of(decided, task) for task in decided.bound} == {"a-0": ["zone-0"], "b-0": ["zone-1"]}


def test_what_runs_holds_its_zone(team):
    team.node("node-1", gpus=0, numa=numa("single-numa-node", cores(4), cores(4)))
    held = (ZoneShare(zone="zone-0", amounts=(("cpu", 3000),)),)
    team.job("old", gpus=0, shape=pinned(3), on="node-1", task={"numa_zones": held})
    team.job("new", gpus=0, shape=pinned(3))
    assert zones_of(team.decide(), "new-0") == ["zone-1"]


@pytest.mark.parametrize(
    ("policy", "bound"),
    [("single-numa-node", False), ("restricted", True), ("best-effort", True), ("none", True)],
)
def test_a_pod_larger_than_a_zone(team, policy, bound):
    team.node("node-1", gpus=0, numa=numa(policy, cores(4), cores(4)))
    team.job("a", gpus=0, shape=pinned(6))
    assert bool(team.decide().bound) is bound


def half_used_zones(world, policy):
    world.node("node-1", gpus=0, numa=numa(policy, cores(8), cores(8)))
    for number in range(2):
        held = (ZoneShare(zone=f"zone-{number}", amounts=(("cpu", 4000),)),)
        world.job(f"old{number}", gpus=0, shape=pinned(4), on="node-1", task={"numa_zones": held})
    world.job("new", gpus=0, shape=pinned(6))


def test_restricted_refuses_two_zones_where_one_would_do(team):
    """6 cores would fit the free halves of two zones, but the kubelet holds out for one."""
    half_used_zones(team, "restricted")
    assert team.decide(actions=("allocate",)).nothing


def test_consolidation_frees_a_zone(team):
    half_used_zones(team, "restricted")
    decided = team.decide()
    assert set(decided.promised) == {"new-0"}
    assert decided.lost == set()
    assert len(decided.moved) == 1


def test_restricted_wants_the_same_number_of_zones_for_all_resources(team):
    team.node(
        "node-1", gpus=8, numa=numa("restricted", cores(8) | {"nvidia.com/gpu": 4}, cores(8) | {"nvidia.com/gpu": 4})
    )
    team.job("odd", gpus=6, shape=pinned(4))
    team.job("even", gpus=6, shape=pinned(12))
    assert team.decide().bound == {"even-0": "node-1"}


def test_only_guaranteed_pods_are_held_to_zones_of_cpu(team):
    team.node("node-1", gpus=0, numa=numa("single-numa-node", cores(4), cores(4)))
    team.job("a", gpus=0, shape={"cpu": 6000})
    assert team.decide().bound == {"a-0": "node-1"}


def test_devices_are_aligned_for_every_pod(team):
    team.node("node-1", gpus=8, numa=numa("single-numa-node", {"nvidia.com/gpu": 4}, {"nvidia.com/gpu": 4}))
    team.job("six", gpus=6)
    team.job("three", gpus=3)
    decided = team.decide()
    assert decided.bound == {"three-0": "node-1"}
    assert zones_of(decided, "three-0") == ["zone-0"]


def test_cores_that_are_no_whole_ones_are_shared_and_not_aligned(team):
    team.node("node-1", gpus=0, numa=numa("single-numa-node", cores(4), cores(4)))
    team.job("a", gpus=0, shape={"cpu": 6500, "guaranteed": True})
    assert team.decide().bound == {"a-0": "node-1"}


@pytest.mark.parametrize(("scope", "bound"), [("pod", False), ("container", True)])
def test_containers_are_aligned_together_or_each_for_itself(team, scope, bound):
    two = tuple(ContainerRequest(amounts=(("cpu", 3000),)) for _ in range(2))
    team.node("node-1", gpus=0, numa=numa("single-numa-node", cores(4), cores(4), scope=scope))
    team.job("a", gpus=0, shape=pinned(6, containers=two))
    assert bool(team.decide().bound) is bound


def test_init_containers_use_zones_before_the_others_do(team):
    """The init container wants a whole zone, which the app shares later with a sidecar."""
    containers = (
        ContainerRequest(amounts=(("cpu", 4000),), stage="init"),
        ContainerRequest(amounts=(("cpu", 1000),), stage="sidecar"),
        ContainerRequest(amounts=(("cpu", 3000),)),
    )
    team.node("node-1", gpus=0, numa=numa("single-numa-node", cores(4), scope="container"))
    team.job("a", gpus=0, shape=pinned(4, containers=containers))
    assert zones_of(team.decide(), "a-0") == ["zone-0"]


def test_fewer_zones_are_better(team):
    """node-1 comes first by name, but would spread the pod over two zones."""
    team.node("node-1", gpus=0, numa=numa("best-effort", cores(2), cores(2)))
    team.node("node-2", gpus=0, numa=numa("best-effort", cores(4)))
    team.job("a", gpus=0, shape=pinned(4))
    assert team.decide().bound == {"a-0": "node-2"}


def test_best_effort_covers_most_with_each_zone():
    zones = Zones(numa("best-effort", cores(1), cores(3), cores(2)))
    assert zones.align(ShapeInfo(Shape(**pinned(5)), Layout())) == {1: {"cpu": 3000}, 2: {"cpu": 2000}}


def test_zones_are_ordered_by_their_number_not_by_their_text():
    zones = Numa(policy="none", zones=tuple(NumaZone(name=f"node-{i}") for i in (10, 2, 1)))
    assert Zones(zones).names == ["node-1", "node-2", "node-10"]


def test_a_preemptor_gets_the_zone_of_its_victim(team):
    team.node("node-1", gpus=0, numa=numa("single-numa-node", cores(4), cores(4)))
    for number, priority in enumerate((49, 50)):
        held = (ZoneShare(zone=f"zone-{number}", amounts=(("cpu", 3000),)),)
        team.job(f"v{number}", gpus=0, shape=pinned(3), on="node-1", priority=priority, task={"numa_zones": held})
    team.job("new", gpus=0, shape=pinned(3), priority=75)
    decided = team.decide()
    assert decided.lost == {"v0-0"}
    (promise,) = decided.decisions.pipelines
    assert [share.zone for share in promise.numa_zones] == ["zone-0"]


def test_nobody_is_evicted_for_a_pod_that_no_zone_could_hold(team):
    team.node("node-1", gpus=0, numa=numa("single-numa-node", cores(4), cores(4)))
    held = (ZoneShare(zone="zone-0", amounts=(("cpu", 3000),)),)
    team.job("low", gpus=0, shape=pinned(3), on="node-1", task={"numa_zones": held})
    team.job("new", gpus=0, shape=pinned(5), priority=75)
    assert team.decide().evicted == set()
