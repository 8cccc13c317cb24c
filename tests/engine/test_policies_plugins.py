"""KAI's plugins and depths as switches: a rule that is not listed does not apply."""

import pytest
from msgspec import structs

from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.policies.switches import DEFAULT_PLUGINS, switches
from kailab.engine.snapshot.records import Constraint, PodSet, Status, SubGroup

NOW = 1_000_000.0
WAITING = {"status": Status.PENDING, "node": ""}


def without(*names):
    return tuple(name for name in DEFAULT_PLUGINS if name not in names)


def test_kais_own_list_is_the_default():
    assert switches(DEFAULT_PLUGINS) == switches(None)


def test_without_priority_age_decides(world):
    world.node("node", gpus=1)
    world.queue("team", quota=-1)
    world.job("old", created=1.0)
    world.job("high", priority=75, created=2.0)
    assert set(world.decide().bound) == {"high-0"}
    assert set(world.decide(plugins=without("priority")).bound) == {"old-0"}


@pytest.fixture
def elastic(world):
    """One GPU free; a running elastic job wants more, a younger one wants to start."""
    world.node("node", gpus=2)
    world.queue("team", quota=-1)
    world.job("elastic", tasks=3, on=["node"], created=1.0)
    world.job("new", created=2.0)
    return world


def test_without_elastic_surplus_is_as_good_as_a_start(elastic):
    assert set(elastic.decide().bound) == {"new-0"}
    assert set(elastic.decide(plugins=without("elastic")).bound) == {"elastic-1"}


def test_the_order_of_the_list_is_the_order_of_comparison(elastic):
    elastic.job("more", priority=75, tasks=2, on=["node"], created=3.0)
    assert set(elastic.decide(plugins=("predicates", "priority", "elastic")).bound) == set()
    elastic.node("node-2", gpus=1)
    assert set(elastic.decide(plugins=("predicates", "priority", "elastic")).bound) == {"more-1"}
    assert set(elastic.decide(plugins=("predicates", "elastic", "priority")).bound) == {"new-0"}


def test_without_nodeplacement_the_name_of_the_node_decides(world):
    world.node("a", gpus=8)
    world.node("b", gpus=4)
    world.queue("team", quota=-1)
    world.job("work")
    assert world.decide().bound == {"work-0": "b"}
    assert world.decide(plugins=without("nodeplacement")).bound == {"work-0": "a"}
    assert world.decide(gpu_placement="spread", plugins=without("nodeplacement")).bound == {"work-0": "a"}


@pytest.mark.parametrize(
    ("plugin", "a", "b", "work"),
    [
        # CPU work may sit on GPU nodes.
        ("resourcetype", {"gpus": 8, "cpu": 1000}, {"gpus": 0, "cpu": 2000}, {"gpus": 0}),
        # A promise to a pod is nothing.
        ("nominatednode", {"gpus": 4}, {"gpus": 8}, {"task": {"nominated_node": "b"}}),
    ],
)
def test_without_a_plugin_its_node_is_not_chosen(team, plugin, a, b, work):
    team.node("a", **a)
    team.node("b", **b)
    team.job("work", **work)
    assert team.decide().bound == {"work-0": "b"}
    assert team.decide(plugins=without(plugin)).bound == {"work-0": "a"}


def test_without_nodeavailability_waiting_for_a_fuller_node_is_as_good(world):
    world.node("a", gpus=2)
    world.node("b", gpus=4)
    world.queue("team", quota=-1)
    world.job("leaving", gpus=2, on="a", status=Status.RELEASING)
    world.job("work", gpus=1)
    assert world.decide().bound == {"work-0": "b"}
    assert world.decide(plugins=without("nodeavailability")).promised == {"work-0": "a"}


def test_without_minruntime_nobody_is_protected(world):
    world.node("node", gpus=1)
    world.queue("team", quota=-1, preempt_min_runtime=7200.0)
    world.job("low", on="node")
    world.job("high", priority=75)
    assert world.decide().nothing
    assert world.decide(plugins=without("minruntime")).evicted == {"low-0"}


def test_without_topology_constraints_bind_nobody(world):
    world.topology("dc", "rack")
    world.node("a", gpus=1, labels={"rack": "1"})
    world.node("b", gpus=1, labels={"rack": "2"})
    world.queue("team", quota=-1)
    world.job("gang", tasks=2, gang=2, constraint=Constraint(topology="dc", required="rack"))
    working = world.working()
    assert world.decide().nothing
    assert len(world.decide(plugins=without("topology")).bound) == 2
    run_cycle(working, EngineConfig(plugins=without("topology")), NOW)
    assert not run_cycle(working, EngineConfig(), NOW).binds  # the constraint is back


def test_without_taskorder_a_label_makes_no_task_first(world):
    world.node("node", gpus=1)
    world.queue("team", quota=-1)
    world.job("work", tasks=2, labels=(1, 9))
    assert set(world.decide().bound) == {"work-1"}
    assert set(world.decide(plugins=without("taskorder")).bound) == {"work-0"}


def test_without_subgrouporder_names_decide(world):
    """a has two of its one, b one of its one; one GPU is left for the surplus of either."""
    world.node("node", gpus=4)
    world.queue("team", quota=-1)
    root = SubGroup(podsets=(PodSet(name="a", min_available=1), PodSet(name="b", min_available=1)))
    world.job("work", root=root, members={"a": 2, "b": 1}, on=["node"] * 3)
    for number, subgroup in ((3, "a"), (4, "b")):
        world.records.append(structs.replace(world.records[-1], uid=f"w-{number}", subgroup=subgroup, **WAITING))
    assert set(world.decide().bound) == {"w-4"}
    assert set(world.decide(plugins=without("subgrouporder")).bound) == {"w-3"}


def test_without_generators_nothing_is_searched(world):
    world.node("node", gpus=1)
    world.queue("team", quota=-1)
    world.job("low", on="node")
    world.job("high", priority=75)
    for name in ("sg-nodelocalgreedy", "sg-multinodegang"):
        assert world.decide(plugins=without(name)).evicted == {"low-0"}
    assert world.decide(plugins=without("sg-nodelocalgreedy", "sg-multinodegang")).nothing


# --- depth ------------------------------------------------------------------------------------------------------------


def test_depth_is_how_many_jobs_of_a_queue_are_tried(world):
    world.node("node", gpus=8)
    world.queue("team", quota=-1)
    world.queue("other", quota=-1)
    for number in range(3):
        world.job(f"t-{number}")
        world.job(f"o-{number}", queue="other")
    assert set(world.decide(queue_depth={"allocate": 1}).bound) == {"t-0-0", "o-0-0"}
    assert len(world.decide(queue_depth={"allocate": -1}).bound) == 6
    assert world.decide(queue_depth={"allocate": 0}).nothing


def test_depth_passes_over_what_can_not_be_tried(world):
    """A gang that misses pods is no candidate; it takes nobody's turn."""
    world.node("node", gpus=8)
    world.queue("team", quota=-1)
    world.job("incomplete", tasks=1, gang=4)
    world.job("ready")
    assert set(world.decide(queue_depth={"allocate": 1}).bound) == {"ready-0"}


def test_depth_of_an_evicting_action(world):
    world.node("node", gpus=4)
    world.queue("team", quota=-1)
    for number in range(4):
        world.job(f"low-{number}", on="node")
    for number in range(3):
        world.job(f"high-{number}", priority=75)
    assert len(world.decide(queue_depth={"preempt": 2}).evicted) == 2
