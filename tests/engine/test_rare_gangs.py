"""Subgroups with minimums of their own, elastic work and staleness: what starts, what grows, what is evicted first."""

from __future__ import annotations

import pytest
from msgspec import structs

from kailab.engine.snapshot.records import Constraint, PodSet, Status, SubGroup

HOST = "kubernetes.io/hostname"


def tree(*members, minimum=None, name="", constraint=None):
    """A subgroup of pod sets (name, minimum) and further subgroups."""
    return SubGroup(
        name=name,
        podsets=tuple(PodSet(name=m[0], min_available=m[1]) for m in members if isinstance(m, tuple)),
        groups=tuple(m for m in members if isinstance(m, SubGroup)),
        min_members=minimum,
        constraint=constraint,
    )


def hosts(world, **gpus):
    world.topology("floor", "rack", HOST)
    for name, count in gpus.items():
        world.node(name, gpus=count, labels={HOST: name, "rack": "r0"})


def another(world, name, **fields):
    """One more pod of the job added last, like its last one."""
    fields = {"status": Status.PENDING, **fields}
    world.records.append(structs.replace(world.records[-1], uid=name, name=name, node="", **fields))


# Starting and growing


def test_one_of_two_subgroups_is_enough_where_the_group_says_so(team):
    team.node("n", gpus=2)
    team.job("either", root=tree(("a", 2), ("b", 2), minimum=1), members={"a": 2, "b": 2})
    assert set(team.decide().bound) == {"either-0", "either-1"}


def test_a_subgroup_beyond_the_minimum_starts_whole_or_not_at_all(team):
    team.node("n", gpus=3)
    team.job("either", root=tree(("a", 2), ("b", 2), minimum=1), members={"a": 2, "b": 2})
    assert set(team.decide().bound) == {"either-0", "either-1"}


def test_growth_goes_to_the_subgroup_that_has_less_of_its_minimum(team):
    # a has twice its minimum, b just its own.
    team.node("n", gpus=5)
    team.job("job", root=tree(("a", 1), ("b", 2)), members={"a": 2, "b": 2}, on=["n"] * 4)
    another(team, "job-a", subgroup="a")
    another(team, "job-b", subgroup="b")
    assert team.decide().bound == {"job-b": "n"}


def test_optional_members_come_after_all_that_must_be(team):
    team.node("n", gpus=2)
    team.job("job", root=tree(("helper", 0), ("worker", 2)), members={"helper": 1, "worker": 2})
    assert set(team.decide().bound) == {"job-1", "job-2"}


def test_an_optional_member_starts_once_the_others_have_their_minimum(team):
    team.node("n", gpus=3)
    team.job("job", root=tree(("helper", 0), ("worker", 2)), members={"helper": 1, "worker": 2})
    assert set(team.decide().bound) == {"job-0", "job-1", "job-2"}


@pytest.mark.parametrize(("gpus", "bound"), [(3, {"deep-0", "deep-1", "deep-2"}), (2, set())])
def test_minima_hold_at_every_level_of_a_nested_tree(team, gpus, bound):
    left = tree(("a", 1), ("b", 1), name="left")
    right = tree(("c", 1), ("d", 1), name="right", minimum=1)
    team.node("n", gpus=gpus)
    team.job("deep", root=tree(left, right), members={"a": 1, "b": 1, "c": 1, "d": 1})
    decided = team.decide()
    assert set(decided.bound) == bound
    assert decided.nothing is not bool(bound)


# Going


def test_a_whole_surplus_subgroup_goes_and_the_other_stays(world):
    world.lending(gpus=4)
    world.job(
        "either", queue="borrower", root=tree(("a", 2), ("b", 2), minimum=1), members={"a": 2, "b": 2}, on=["n"] * 4
    )
    world.job("owner", queue="lender")
    assert world.decide().lost == {"either-2", "either-3"}


def test_a_surplus_pod_of_a_subgroup_goes_before_a_surplus_subgroup(world):
    world.lending(gpus=5)
    world.job(
        "either", queue="borrower", root=tree(("a", 2), ("b", 2), minimum=1), members={"a": 3, "b": 2}, on=["n"] * 5
    )
    world.job("owner", queue="lender")
    assert world.decide().lost == {"either-2"}


def test_optional_members_go_first(world):
    world.lending(gpus=3)
    world.job(
        "job",
        queue="borrower",
        root=tree(("helper", 0), ("worker", 2)),
        members={"helper": 1, "worker": 2},
        on=["n"] * 3,
    )
    world.job("owner", queue="lender")
    assert world.decide().lost == {"job-0"}


def test_a_pod_without_a_task_priority_goes_before_one_with_the_lowest(world):
    world.lending(gpus=3)
    world.job("job", queue="borrower", tasks=3, gang=1, labels=[1, 2], on=["n"] * 3)
    world.job("owner", queue="lender")
    assert world.decide().lost == {"job-2"}


def test_of_labelled_pods_the_lowest_task_priority_goes_first(world):
    world.lending(gpus=3)
    world.job("job", queue="borrower", tasks=3, gang=1, labels=[1, 3, 2], on=["n"] * 3)
    world.job("owner", queue="lender")
    assert world.decide().lost == {"job-0"}


def test_preemption_takes_the_surplus_and_leaves_the_gang(team):
    team.node("n", gpus=3)
    team.job("low", tasks=3, gang=2, on=["n"] * 3)
    team.job("high", priority=75)
    assert team.decide().lost == {"low-2"}


def test_a_gang_that_would_fall_below_its_minimum_goes_whole(team):
    team.node("n", gpus=3)
    team.job("low", tasks=3, gang=2, on=["n"] * 3)
    team.job("high", tasks=2, gang=2, priority=75)
    decided = team.decide()
    assert decided.lost == {"low-0", "low-1", "low-2"}
    assert set(decided.promised) == {"high-0", "high-1"}


# Staleness


def test_a_subgroup_below_its_minimum_makes_the_job_stale_though_the_other_is_enough(team):
    # KAI looks at every pod set, whatever the group's own minimum says.
    team.node("n", gpus=2)
    team.job("half", root=tree(("a", 2), ("b", 2), minimum=1), members={"a": 2, "b": 1}, on=["n", "n"])
    assert team.decide(staleness_grace=0.0).evicted == {"half-0", "half-1"}


def test_a_job_that_has_a_finished_pod_is_not_stale(team):
    team.node("n", gpus=1)
    team.job("gang", tasks=2, gang=2, on=["n"])
    assert team.decide(staleness_grace=0.0).evicted == {"gang-0"}
    another(team, "gang-done", status=Status.SUCCEEDED)
    assert not team.decide(staleness_grace=0.0).evicted


# Hosts as a topology level


def test_a_gang_that_needs_one_host_waits_for_one_with_room_for_all(team):
    hosts(team, a=1, b=1)
    team.job("gang", tasks=2, gang=2, constraint=Constraint(topology="floor", required=HOST))
    assert team.decide().nothing


def test_a_gang_that_needs_one_host_takes_the_tightest(team):
    hosts(team, a=4, b=2, c=3)
    team.job("gang", tasks=2, gang=2, constraint=Constraint(topology="floor", required=HOST))
    assert set(team.decide().bound.values()) == {"b"}


def test_a_gang_that_prefers_one_host_spreads_when_none_holds_it(team):
    hosts(team, a=1, b=1)
    team.job("gang", tasks=2, gang=2, constraint=Constraint(topology="floor", preferred=HOST))
    assert set(team.decide().bound.values()) == {"a", "b"}


def test_a_gang_that_prefers_a_rack_and_fits_in_none_begins_in_the_emptiest(team):
    # KAI ranks the domains of the preferred level from the fullest up, so the emptiest scores highest.
    hosts(team, a=1, b=2)
    team.job("gang", tasks=3, gang=3, constraint=Constraint(topology="floor", preferred=HOST))
    assert team.decide().bound == {"gang-0": "b", "gang-1": "b", "gang-2": "a"}


def test_two_subgroups_may_each_need_a_host_of_their_own(team):
    hosts(team, a=2, b=2)
    host = Constraint(topology="floor", required=HOST)
    root = SubGroup(
        podsets=(
            PodSet(name="x", min_available=2, constraint=host),
            PodSet(name="y", min_available=2, constraint=host),
        )
    )
    team.job("pairs", root=root, members={"x": 2, "y": 2})
    bound = team.decide().bound
    assert bound["pairs-0"] == bound["pairs-1"]
    assert bound["pairs-2"] == bound["pairs-3"]
    assert set(bound.values()) == {"a", "b"}


def test_reclaim_clears_one_host_for_a_gang_that_needs_one(world):
    world.queue("lender", quota=2)
    world.queue("borrower")
    hosts(world, a=2, b=2)
    world.job("a-0", queue="borrower", on="a")
    world.job("b-0", queue="borrower", on="b")
    world.job("a-1", queue="borrower", on="a")
    world.job("b-1", queue="borrower", on="b")
    world.job("gang", queue="lender", tasks=2, gang=2, constraint=Constraint(topology="floor", required=HOST))
    decided = world.decide()
    nodes = set(decided.promised.values())
    assert len(nodes) == 1
    assert {task.split("-")[0] for task in decided.lost} == nodes
    assert len(decided.lost) == 2


# --- the core of an elastic job goes, its surplus runs elsewhere ------------------------------------------------------


def test_a_core_that_finds_another_place_moves_and_its_surplus_stays(team):
    for name in "abc":
        team.node(name, gpus=2)
    team.job("elastic", tasks=2, gang=1, on=("a", "b"))
    team.job("firm-b", on="b", priority=100)
    team.job("firm-c", on="c", priority=100)
    team.job("whole", gpus=2)
    decided = team.decide()
    assert decided.moved == {"elastic-0": "c"}
    assert decided.promised == {"whole-0": "a"}
    assert decided.evicted == {"elastic-0"}


def test_surplus_too_few_to_run_on_goes_with_a_core_that_is_lost(team):
    team.node("a", gpus=2)
    team.node("b", gpus=2)
    team.job("elastic", tasks=3, gang=2, on=("a", "a", "b"))
    team.job("firm", on="b", priority=100)
    team.job("whole", gpus=2, priority=75)
    decided = team.decide()
    assert decided.promised == {"whole-0": "a"}
    assert decided.lost == {"elastic-0", "elastic-1", "elastic-2"}
