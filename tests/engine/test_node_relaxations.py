"""Relaxations of node rules: a node that refused by one rule then takes the pod, or refuses by another."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from checks.case_input import NOW as THEN
from checks.fuzzing.random_cluster import random_case_input
from checks.simulated_cluster import SimulatedCluster
from kailab.engine.config import EngineConfig
from kailab.engine.relaxing.relaxed_cycles import RelaxedCycles
from kailab.engine.relaxing.rules import (
    AllTolerated,
    AntiAffinityGone,
    ClaimsGone,
    NodesAdded,
    NodesOpened,
    PodAffinityGone,
    PortsGone,
    Relaxation,
    RoomGiven,
    SelectorGone,
    TopologyGone,
    Unplaced,
)
from kailab.engine.report.barriers import Barrier, barriers
from kailab.engine.report.node_answers import NodeAnswer, node_answers
from kailab.engine.report.node_filter import NodeRule
from kailab.engine.session import Session
from kailab.engine.snapshot.gpu_requests import WholeGpus
from kailab.engine.snapshot.records import GPU, Constraint, Node, PodTerm, Requirement, Status, Taint, Toleration
from kailab.engine.working.workingset import WorkingSet
from tests.engine.conftest import NOW

APART = PodTerm(
    topology_key="host", requirements=(Requirement(key="app", operator="In", values=("db",)),), namespaces=()
)
DATABASE = {"labels": (("app", "db"),), "namespace": "default"}


def trials(world, subject="a"):
    return RelaxedCycles(world.working().value(), EngineConfig(), NOW, (subject,))


@pytest.mark.parametrize(
    ("change", "node", "shape"),
    [
        (NodesOpened(), {"unavailable": "node is unschedulable"}, {}),
        (NodesOpened(), {"taints": (Taint(key="node.kubernetes.io/unschedulable"),)}, {}),
        (AllTolerated(), {"taints": (Taint(key="reserved"),)}, {}),
        (SelectorGone(), {}, {"selector": (Requirement(key="disk", operator="Exists"),)}),
        (PodAffinityGone(), {"labels": {"host": "1"}}, {"affinity": (APART,)}),
        (RoomGiven(("cpu",)), {"cpu": 100}, {"cpu": 200}),
        (RoomGiven(("memory",)), {"memory": 100}, {"memory": 200}),
        (RoomGiven(("gpu",)), {"gpus": 1}, {"gpu": WholeGpus(devices=2)}),
        (RoomGiven(("pods",)), {"pods": 0}, {}),
        (RoomGiven(("extended",)), {"extended": (("example.com/nic", 1),)}, {"extended": (("example.com/nic", 2),)}),
    ],
)
def test_each_takes_away_its_own_and_no_other(team, change, node, shape):
    labels = node.pop("labels", None) if "labels" in node else None
    team.node("node-1", labels=labels, **node)
    team.job("a", shape=shape)
    result = trials(team)
    assert not result().further
    assert result(change).whole
    others = [
        NodesOpened(),
        AllTolerated(),
        SelectorGone(),
        PodAffinityGone(),
        RoomGiven(("cpu",)),
    ]
    taints = shape == {} and "taints" in node
    assert not any(result(other).further for other in others if other != change and not taints)


def test_pods_that_keep_away_no_longer_do_whoever_has_the_rule(team):
    team.node("node-1", labels={"host": "1"})
    team.job("held", on="node-1", shape={**DATABASE, "anti_affinity": (APART,)})
    team.job("a", shape=DATABASE)
    assert not trials(team)().further
    assert trials(team)(AntiAffinityGone()).whole


def test_ports_topologies_and_places_taken(team):
    team.topology("racks", "rack")
    team.node("node-1", labels={"rack": "1"}, gpus=1)
    team.node("node-2", labels={"rack": "2"}, gpus=1)
    ports = {"ports": (("0.0.0.0", "TCP", 80),)}
    team.job("held", gpus=0, tasks=2, on=["node-1", "node-2"], shape=ports)
    team.job("a", shape=ports)
    team.job("b", tasks=2, gang=2, constraint=Constraint(topology="racks", required="rack"))
    team.job("c", gpus=1, tasks=3, on=["node-1"])
    assert trials(team)(PortsGone()).whole
    assert not trials(team, "b")().further
    assert not trials(team, "b")(TopologyGone()).further
    assert trials(team, "b")(RoomGiven(("gpu",))).whole
    assert len(trials(team, "c")(Unplaced()).waiting) == 3


def test_without_its_claims_a_pod_still_wants_its_own_gpus(team):
    team.node("node-1", gpus=1)
    team.job("a", gpus=2, shape={"claims": ("default/net",)})
    result = trials(team)
    assert not result(ClaimsGone()).further
    assert result(ClaimsGone(), RoomGiven(("gpu",))).whole


def test_nodes_of_another_pool(team):
    team.node("node-1", gpus=0)
    team.job("a")
    more = Node(name="node-2", cpu=10**6, memory=10**12, gpus=8 * GPU)
    assert [bind.node for bind in trials(team)(NodesAdded((more,))).binds] == ["node-2"]


def answers_by_node(working: WorkingSet, config: EngineConfig, now: float, task: str) -> dict[str, NodeAnswer]:
    session = Session(working, config, now)
    try:
        return {node: one for one in node_answers(session, session.working.tasks[task]) for node in one.nodes}
    finally:
        session.close()


_RESOURCES = {"cpu": "cpu", "memory": "memory", "pods": "pods", "nvidia.com/gpu": "gpu"}


def _without(answer: NodeAnswer) -> Relaxation | None:
    """What takes the rule of an answer away."""
    rules: dict[NodeRule, Relaxation] = {
        NodeRule.UNAVAILABLE: NodesOpened(),
        NodeRule.SELECTOR: SelectorGone(),
        NodeRule.TAINT: AllTolerated(),
        NodeRule.CLAIM: ClaimsGone(),
        NodeRule.AFFINITY: PodAffinityGone(),
        NodeRule.ANTI_AFFINITY: AntiAffinityGone(),
        NodeRule.PORT: PortsGone(),
        NodeRule.TOPOLOGY: TopologyGone(),
    }
    if answer.rule in (NodeRule.FREE, NodeRule.CAPACITY):
        given = answer.capacity or answer.resource != "nvidia.com/gpu"  # a node without GPUs is given none
        return RoomGiven((_RESOURCES[answer.resource],)) if given and answer.resource in _RESOURCES else None  # type: ignore[arg-type]
    return rules.get(answer.rule) if answer.rule else None


@st.composite
def clusters(draw):
    return random_case_input(lambda options: draw(st.sampled_from(options)))


@settings(
    max_examples=25, derandomize=True, deadline=None, phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(clusters())
def test_a_rule_taken_away_leaves_a_node_that_takes_the_pod_or_has_another(case_input):
    snapshot = SimulatedCluster(case_input).working().value()
    for task in [task for task in snapshot.tasks if task.status == Status.PENDING and task.podgroup][:3]:
        result = RelaxedCycles(snapshot, case_input.config, THEN, (task.podgroup,))
        before = answers_by_node(WorkingSet.of(snapshot), case_input.config, THEN, task.uid)
        for relaxation in {_without(answer) for answer in before.values()} - {None}:
            draft = result.draft(relaxation)
            after = answers_by_node(WorkingSet.of(draft.whole()), draft.config, draft.now, task.uid)
            for node, answer in before.items():
                if _without(answer) == relaxation:
                    now = after[node]
                    assert (now.rule, now.resource) != (answer.rule, answer.resource), (node, answer.text, now.text)


# Which set of rules has to go


def least(world, task="a-0"):
    working = world.working()
    result = barriers(working.table, working.tasks[task].info)
    return None if result is None else (result.rules, [working.table.nodes[i].name for i in result.nodes])


def test_no_set_has_to_go_where_a_node_is_open(team):
    team.node("node-1", taints=(Taint(key="reserved"),))
    team.node("node-2")
    team.job("a")
    assert least(team) is None


def test_of_several_sets_the_least_has_to_go(team):
    """node-1 is not asked for, node-2 is too small and reserved, node-3 only reserved."""
    team.node("node-1", labels={"model": "old"})
    team.node("node-2", gpus=1, labels={"model": "new"}, taints=(Taint(key="reserved"),))
    team.node("node-3", gpus=8, labels={"model": "new"}, taints=(Taint(key="reserved"),))
    selector = (Requirement(key="model", operator="In", values=("new",)),)
    team.job("a", gpus=4, shape={"selector": selector})
    assert least(team) == ((Barrier(NodeRule.TAINT),), ["node-3"])


def test_what_has_to_go_first_comes_first(team):
    team.node("node-1", gpus=2, unavailable="node is unschedulable", taints=(Taint(key="reserved"),))
    team.job("a", gpus=4)
    rules, _ = least(team)
    assert [one.rule for one in rules] == [NodeRule.CAPACITY, NodeRule.TAINT, NodeRule.UNAVAILABLE]


def test_a_cordon_and_its_own_taint_are_one(team):
    team.node("node-1", unavailable="node is unschedulable", taints=(Taint(key="node.kubernetes.io/unschedulable"),))
    team.job("a", shape={"tolerations": (Toleration(key="other", operator="Exists"),)})
    assert least(team) == ((Barrier(NodeRule.UNAVAILABLE),), ["node-1"])
