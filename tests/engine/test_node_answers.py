"""The answer of each node to a pod: the first rule that refuses it, with both values, or that the node takes it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import structs

from checks.case_input import NOW as THEN
from checks.fuzzing.random_cluster import random_case_input
from checks.simulated_cluster import SimulatedCluster
from kailab.engine.config import EngineConfig
from kailab.engine.placing.placement import Placer
from kailab.engine.report.node_answers import node_answers
from kailab.engine.report.node_filter import NodeRule
from kailab.engine.session import Session
from kailab.engine.snapshot.gpu_requests import GpuMemory, MigInstances, WholeGpus
from kailab.engine.snapshot.records import (
    Constraint,
    NodeTerm,
    PodSet,
    PodTerm,
    Requirement,
    Status,
    SubGroup,
    Taint,
    Task,
    Toleration,
)
from tests.engine.conftest import NOW

MODEL = "nvidia.com/gpu.product"


def answers_by_node(world, task="a-0", **config):
    """Node -> (rule, text)."""
    session = Session(world.working(), EngineConfig(**config), NOW)
    try:
        answers = node_answers(session, session.working.tasks[task])
    finally:
        session.close()
    return {node: (answer.rule, answer.text) for answer in answers for node in answer.nodes}


def wants(key, *values, operator="In"):
    return Requirement(key=key, operator=operator, values=values)


def test_nodes_that_say_the_same_are_told_together_and_those_that_take_it_first(team):
    for name in ("node-1", "node-2", "node-3"):
        team.node(name, labels={MODEL: "A100"})
    team.node("node-4", labels={MODEL: "H100"})
    team.job("a", shape={"selector": (wants(MODEL, "H100"),)})
    session = Session(team.working(), EngineConfig(), NOW)
    first, second = node_answers(session, session.working.tasks["a-0"])
    assert (first.rule, first.nodes) == (None, ("node-4",))
    assert second.nodes == ("node-1", "node-2", "node-3")
    assert second.text == f"{MODEL}=A100, wants H100"


@pytest.mark.parametrize(
    ("requirement", "text"),
    [
        (wants("size", "20", operator="In"), "size=10, wants 20"),
        (wants("size", "20", "30"), "size=10, wants 20 or 30"),
        (wants("size", "10", operator="NotIn"), "size=10, wants not 10"),
        (wants("size", operator="DoesNotExist"), "size=10, wants none"),
        (wants("fast", operator="Exists"), "no label fast, wants one"),
        (wants("size", "15", operator="Gt"), "size=10, wants more than 15"),
        (wants("size", "5", operator="Lt"), "size=10, wants less than 5"),
    ],
    ids=lambda value: value.operator if isinstance(value, Requirement) else "",
)
def test_a_selector_is_told_with_what_the_node_has_and_what_is_wanted(team, requirement, text):
    team.node("node-1", labels={"size": "10"})
    team.job("a", shape={"selector": (requirement,)})
    team.job("b", shape={"terms": (NodeTerm(requirements=(requirement,)),)})
    assert answers_by_node(team) == answers_by_node(team, "b-0") == {"node-1": (NodeRule.SELECTOR, text)}


def test_of_several_affinity_terms_all_are_told(team):
    team.node("node-1", labels={"size": "10"})
    terms = (
        NodeTerm(requirements=(wants("size", "20"),)),
        NodeTerm(fields=(wants("metadata.name", "node-7"),)),
    )
    team.job("a", shape={"terms": terms})
    rule, text = answers_by_node(team)["node-1"]
    assert rule == NodeRule.SELECTOR
    assert "size=10, wants 20; metadata.name=node-1, wants node-7" in text


def test_a_taint_a_cordon_and_a_node_that_is_not_ready_are_told_by_name(team):
    team.node("node-1", taints=(Taint(key="known"), Taint(key="lab/reserved", value="frontier")))
    team.node("node-2", unavailable="node is unschedulable")
    team.node("node-3", unavailable="node is unschedulable, node has NotReady condition")
    team.job("a", shape={"tolerations": (Toleration(key="known", operator="Exists"),)})
    assert answers_by_node(team) == {
        "node-1": (NodeRule.TAINT, "taint lab/reserved=frontier:NoSchedule, not tolerated"),
        "node-2": (NodeRule.UNAVAILABLE, "cordoned"),
        "node-3": (NodeRule.UNAVAILABLE, "cordoned, not ready"),
    }


def test_amounts_are_told_with_what_is_free_what_there_is_and_what_is_wanted(team):
    team.node("cpu", cpu=64_000)
    team.node("gpus", gpus=8)
    team.node("small", gpus=2)
    team.node("none", gpus=0)
    team.node("memory", memory=64 << 30)
    team.job("busy", gpus=0, on="cpu", shape={"cpu": 61_000})
    team.job("full", gpus=7, on="gpus")
    team.job("fat", gpus=0, on="memory", shape={"memory": 50 << 30})
    team.job("a", gpus=4, shape={"cpu": 8000, "memory": 20 << 30})
    assert answers_by_node(team) == {
        "cpu": (NodeRule.FREE, "CPU 3 free of 64, wants 8"),
        "gpus": (NodeRule.FREE, "GPUs 1 free of 8, wants 4"),
        "small": (NodeRule.CAPACITY, "GPUs 2 in all, wants 4"),
        "none": (NodeRule.CAPACITY, "no GPUs, wants 4"),
        "memory": (NodeRule.FREE, "memory 14Gi free of 64Gi, wants 20Gi"),
    }


def test_what_leaving_pods_will_free_is_told_beside_what_is_free(team):
    team.node("node-1", gpus=8)
    team.job("leaving", gpus=4, on="node-1", status=Status.RELEASING)
    team.job("stays", gpus=3, on="node-1")
    team.job("a", gpus=2)
    assert answers_by_node(team)["node-1"] == (
        NodeRule.FREE,
        "GPUs 1 free of 8 (4 more once pods that leave are gone), wants 2",
    )


def test_pod_slots_count_like_any_resource(team):
    team.node("node-1", pods=3)
    team.job("held", tasks=3, on="node-1")
    team.job("a")
    assert answers_by_node(team)["node-1"] == (NodeRule.FREE, "pod slots 0 free of 3, wants 1")


def test_a_mig_profile_is_told_with_what_the_node_offers_instead(team):
    team.node("whole")
    team.node(
        "split",
        gpus=0,
        extended=(("nvidia.com/mig-1g.10gb", 7),),
        mig=True,
        labels={"nvidia.com/mig.strategy": "mixed"},
    )
    team.job("a", shape={"gpu": MigInstances(profiles=(("nvidia.com/mig-7g.80gb", 1),))})
    team.job("b")
    assert answers_by_node(team) == {
        "whole": (NodeRule.GPU_KIND, "its GPUs are whole (no MIG), wants 1 nvidia.com/mig-7g.80gb"),
        "split": (NodeRule.CAPACITY, "no nvidia.com/mig-7g.80gb, wants 1"),
    }
    assert answers_by_node(team, "b-0")["split"][0] == NodeRule.GPU_KIND


def test_shares_of_gpus_are_told_by_what_the_freest_device_has(team):
    team.node("small", gpu_memory_mib=24_000)
    team.node("silent", gpu_memory_mib=0)
    team.node("none", gpus=0)
    team.node("taken", gpus=1, gpu_memory_mib=80_000)
    team.job("sharing", gpus=0.7, on="taken", groups=[("g",)])
    team.job("a", shape={"gpu": GpuMemory(devices=1, memory_mib=40_000)})
    team.job("b", gpus=0.5)
    answers = answers_by_node(team)
    assert answers["small"] == (NodeRule.SHARE, "its GPUs have 24000 MiB each, wants 40000 MiB of a GPU")
    assert answers["silent"][0] == NodeRule.GPU_MEMORY
    assert "does not tell the memory of its GPUs" in answers["silent"][1]
    assert answers["none"][1].startswith("no GPUs, wants 40000 MiB")
    assert answers["taken"] == (
        NodeRule.SHARE,
        "0 GPUs free of 1, and at most 24000 MiB of a shared one, wants 40000 MiB of a GPU",
    )
    assert (
        answers_by_node(team, "b-0")["taken"][1]
        == "0 GPUs free of 1, and at most 0.3 of a shared one, wants 0.5 of a GPU"
    )


def test_a_multiple_of_a_devices_memory_is_told_with_what_kai_does(team):
    team.node("node-1", gpus=1, gpu_memory_mib=40_000)
    team.job("held", on="node-1")
    team.job("a", shape={"gpu": GpuMemory(devices=1, memory_mib=80_000)})
    told = "its GPUs have 40000 MiB each, wants 80000 MiB of a GPU (a whole multiple, which KAI binds to a single GPU of that size, by a fault)"
    assert answers_by_node(team)["node-1"] == (NodeRule.SHARE, told)
    assert answers_by_node(team, imitate_faults=True)["node-1"] == (NodeRule.SHARE, f"0 GPUs free of 1; {told}")


def test_a_device_to_be_shared_anew_needs_a_slot_for_its_reservation(team):
    team.node("node-1", pods=2)
    team.job("held", gpus=0, on="node-1")
    team.job("a", gpus=0.5)
    assert answers_by_node(team)["node-1"][0] == NodeRule.RESERVATION


def test_a_pod_that_keeps_another_off_is_named_whoever_has_the_rule(team):
    apart = PodTerm(topology_key="kubernetes.io/hostname", requirements=(wants("app", "db"),), namespaces=())
    far = PodTerm(topology_key="zone", requirements=(wants("app", "db"),), namespaces=())
    database = {"labels": (("app", "db"),), "namespace": "default"}
    for name, zone in (("node-1", "east"), ("node-2", "east"), ("node-3", "west")):
        team.node(name, labels={"kubernetes.io/hostname": name, "zone": zone})
    team.job("held", on="node-1", shape={**database, "anti_affinity": (far,)})
    team.job("a", shape={**database, "anti_affinity": (apart,)})
    answers = answers_by_node(team)
    assert answers["node-1"][0] == answers["node-2"][0] == NodeRule.ANTI_AFFINITY
    assert "pod default/held-0" in answers["node-1"][1]
    assert answers["node-2"][1] == "pod default/held-0 is in zone=east: kept apart by their anti-affinity"
    assert answers["node-3"] == (None, "takes it")


def test_an_affinity_that_finds_nobody_says_where(team):
    near = PodTerm(topology_key="zone", requirements=(wants("app", "db"),), namespaces=())
    team.node("node-1", labels={"zone": "east"})
    team.job("a", shape={"affinity": (near,), "labels": (("app", "web"),)})
    assert answers_by_node(team)["node-1"] == (
        NodeRule.AFFINITY,
        "no pod in zone=east that its affinity wants to be with",
    )


def test_a_host_port_is_told_with_who_has_it(team):
    team.node("node-1")
    ports = {"ports": (("0.0.0.0", "TCP", 8080),)}
    team.job("held", on="node-1", shape=ports)
    team.job("a", shape=ports)
    assert answers_by_node(team)["node-1"] == (NodeRule.PORT, "host port 8080 is taken by pod default/held-0")


def test_what_is_missing_is_said_by_all_nodes(team):
    team.node("node-1")
    team.node("node-2")
    team.job("a", shape={"blocked": ('persistentvolumeclaim "data" not found',)})
    assert set(answers_by_node(team).values()) == {(NodeRule.BLOCKED, 'persistentvolumeclaim "data" not found')}
    assert set(answers_by_node(team, predicates=False).values()) == {(None, "takes it")}


@pytest.fixture
def racks(team):
    team.topology("racks", "rack", "host")
    for number in range(4):
        team.node(f"node-{number}", labels={"rack": f"r{number // 2}", "host": str(number)})
    team.node("loose")
    return team


def test_a_node_whose_domain_has_no_room_for_the_group_says_how_much_it_has(racks):
    racks.job("held", gpus=4, on="node-0")
    racks.job("a", tasks=2, gang=2, gpus=8, constraint=Constraint(topology="racks", required="rack"))
    answers = answers_by_node(racks)
    assert answers["node-0"][0] == NodeRule.FREE
    assert answers["node-1"] == (
        NodeRule.TOPOLOGY,
        "rack=r0 has room for 1 of the 2 pods of its group (nvidia.com/gpu: 12 free, wants 16)",
    )
    assert answers["node-2"] == answers["node-3"] == (None, "takes it")
    assert answers["loose"] == (NodeRule.TOPOLOGY, "not part of topology racks: no label rack")


def test_a_domain_tells_the_room_for_a_pod_s_own_group_whatever_the_others_of_its_job_want(racks):
    one_rack = Constraint(topology="racks", required="rack")
    podsets = tuple(PodSet(name=name, min_available=3, constraint=one_rack) for name in ("left", "right"))
    racks.job("a", root=SubGroup(podsets=podsets, constraint=one_rack), members={"left": 3, "right": 3}, gpus=8)
    racks.job("held", gpus=2, on="node-1")
    smaller = WholeGpus(devices=6)
    racks.records = [
        structs.replace(one, shape=structs.replace(one.shape, gpu=smaller))
        if isinstance(one, Task) and one.subgroup == "left"
        else one
        for one in racks.records
    ]
    text = "rack=r0 has room for 2 of the 3 pods of its group (nvidia.com/gpu: 14 free, wants 18)"
    assert answers_by_node(racks, "a-0")["node-0"] == (NodeRule.TOPOLOGY, text)


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        (Constraint(topology="rakcs", required="rack"), "topology rakcs does not exist"),
        (Constraint(topology="racks", required="row"), "names row as its required topology level"),
    ],
)
def test_a_topology_that_is_not_there_is_said_by_all_nodes(racks, constraint, text):
    racks.job("a", constraint=constraint)
    for rule, messages in answers_by_node(racks).values():
        assert rule == NodeRule.TOPOLOGY
        assert text in messages


def test_a_pod_that_runs_hears_what_the_others_say(team):
    team.node("node-1")
    team.node("node-2", gpus=0)
    team.node("node-3")
    team.job("a", on="node-1")
    assert answers_by_node(team) == {
        "node-1": (None, "it is here"),
        "node-2": (NodeRule.CAPACITY, "no GPUs, wants 1"),
        "node-3": (None, "takes it"),
    }


def test_five_thousand_nodes_are_told_in_a_few_groups(team):
    for number in range(5000):
        team.node(f"node-{number:04}", labels={MODEL: "A100" if number % 2 else "L40S"}, gpus=8)
    team.job("a", gpus=16, shape={"selector": (wants(MODEL, "A100"),)})
    session = Session(team.working(), EngineConfig(), NOW)
    answers = node_answers(session, session.working.tasks["a-0"])
    assert {(len(answer.nodes), answer.text) for answer in answers} == {
        (2500, f"{MODEL}=L40S, wants A100"),
        (2500, "GPUs 8 in all, wants 16"),
    }


@st.composite
def clusters(draw):
    return random_case_input(lambda options: draw(st.sampled_from(options)))


@settings(
    max_examples=40,
    derandomize=True,
    deadline=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(clusters())
def test_a_node_takes_a_pod_by_itself_where_it_says_so_and_only_there(case_input):
    session = Session(SimulatedCluster(case_input).working(), case_input.config, THEN)
    placer = Placer(session)
    try:
        for job in session.jobs.values():
            for task in [task for task in job if task.status == Status.PENDING][:2]:
                constrained = job.root.constraint or (task.podset and task.podset.constraint)
                for answer in node_answers(session, task):
                    for node in answer.nodes:
                        mask = np.zeros(len(session.table), dtype=bool)
                        mask[session.table.index[node]] = True
                        mark = session.mark()
                        taken = placer.place(task, mask, pipeline_only=False)
                        now = taken and task.status == Status.ALLOCATED
                        session.undo(mark)
                        if answer.rule is None:
                            assert taken, (
                                answer.text,
                                node,
                            )  # of a share perhaps as a promise: of a device that others leave
                        elif answer.rule == NodeRule.TOPOLOGY:
                            assert constrained
                        else:
                            assert not now, (answer.rule, answer.text, node)
    finally:
        session.close()
