"""The choice among nodes that fit: packing or spreading, CPU work off GPU nodes, a nominated node first, ties by name."""

import pytest

from kailab.engine.snapshot.records import Status

FULL, EMPTY = "node-2", "node-1"  # the emptier node comes first by name


@pytest.mark.parametrize(("strategy", "node"), [("binpack", FULL), ("spread", EMPTY)])
def test_gpu_pods_pack_or_spread(team, strategy, node):
    team.node("node-1", gpus=8)
    team.node("node-2", gpus=8)
    team.job("held", tasks=4, on=FULL)
    team.job("a")
    assert team.decide(gpu_placement=strategy).bound == {"a-0": node}


@pytest.mark.parametrize(("strategy", "node"), [("binpack", FULL), ("spread", EMPTY)])
def test_cpu_pods_pack_or_spread_by_cpu(team, strategy, node):
    team.node("node-1", gpus=0, cpu=8000)
    team.node("node-2", gpus=0, cpu=8000)
    team.job("held", gpus=0, shape={"cpu": 4000}, on=FULL)
    team.job("a", gpus=0, shape={"cpu": 1000})
    assert team.decide(cpu_placement=strategy).bound == {"a-0": node}


def test_spread_puts_the_pods_of_a_job_on_different_nodes(team):
    for number in (1, 2, 3):
        team.node(f"node-{number}", gpus=8)
    team.job("job", tasks=3, gang=3)
    assert len(set(team.decide(gpu_placement="spread").bound.values())) == 3
    assert len(set(team.decide(gpu_placement="binpack").bound.values())) == 1


def test_cpu_work_keeps_off_gpu_nodes_while_there_is_another(team):
    team.node("node-1", gpus=8, cpu=1000)
    team.node("node-2", gpus=0, cpu=1000)
    team.job("a", gpus=0, shape={"cpu": 800})
    team.job("b", gpus=0, shape={"cpu": 800})
    assert team.decide().bound == {"a-0": "node-2", "b-0": "node-1"}


def test_a_nominated_node_is_taken_before_a_fuller_one(team):
    team.node("node-1", gpus=8)
    team.node("node-2", gpus=8)
    team.job("held", tasks=4, on=FULL)
    team.job("a", task={"nominated_node": EMPTY})
    assert team.decide().bound == {"a-0": EMPTY}


def test_a_nominated_node_that_is_full_is_no_hindrance(team):
    team.node("node-1", gpus=1)
    team.node("node-2", gpus=1)
    team.job("held", on="node-1")
    team.job("a", task={"nominated_node": "node-1"})
    assert team.decide().bound == {"a-0": "node-2"}


def test_room_now_goes_before_a_fuller_node_where_somebody_leaves(team):
    team.node("node-1", gpus=8)
    team.node("node-2", gpus=2)
    team.job("stays", on="node-2")
    team.job("leaving", on="node-2", status=Status.RELEASING)
    team.job("a")
    decided = team.decide()
    assert decided.bound == {"a-0": "node-1"}
    assert decided.promised == {}


def test_equal_nodes_go_by_name(team):
    for name in ("node-b", "node-a", "node-c"):
        team.node(name, gpus=1)
    team.job("a")
    assert team.decide().bound == {"a-0": "node-a"}
