"""Topology: a required level keeps the group in one domain, a preferred one if possible, the tightest that fits first."""

import pytest

from kailab.engine.snapshot.records import Constraint, PodSet, SubGroup


def racks(world, *sizes, nodes=2):
    """Racks r1, r2 ... of ``nodes`` nodes each, with so many GPUs a node, all in one zone."""
    world.topology("network", "zone", "rack")
    for rack, gpus in enumerate(sizes, start=1):
        for number in range(1, nodes + 1):
            world.node(f"r{rack}-n{number}", gpus=gpus, labels={"zone": "z", "rack": f"r{rack}"})


def racks_of(decided):
    return {node.split("-")[0] for node in decided.bound.values()}


REQUIRED = Constraint(topology="network", required="rack")
PREFERRED = Constraint(topology="network", preferred="rack")


def test_a_required_rack_holds_the_whole_gang(team):
    racks(team, 2, 2)
    team.job("gang", tasks=4, gang=4, constraint=REQUIRED)
    decided = team.decide()
    assert len(decided.bound) == 4
    assert len(racks_of(decided)) == 1


def test_a_gang_larger_than_any_rack_does_not_start_if_one_is_required(team):
    racks(team, 2, 2)
    team.job("gang", tasks=5, gang=5, constraint=REQUIRED)
    assert team.decide().nothing


def test_a_preferred_rack_is_left_when_the_gang_is_larger(team):
    racks(team, 2, 2)
    team.job("gang", tasks=5, gang=5, constraint=PREFERRED)
    assert racks_of(team.decide()) == {"r1", "r2"}


def test_a_preferred_rack_holds_the_gang_when_it_can(team):
    """Without the wish, packing would begin on the rack that is partly used."""
    racks(team, 2, 2)
    team.job("held", tasks=2, on=["r1-n1", "r1-n2"])
    team.job("gang", tasks=4, gang=4, constraint=PREFERRED)
    assert racks_of(team.decide()) == {"r2"}


def test_the_tightest_rack_that_fits_is_taken(team):
    racks(team, 8, 2, 4)
    team.job("gang", tasks=6, gang=6, constraint=REQUIRED)
    assert racks_of(team.decide()) == {"r3"}


def test_new_members_join_the_rack_where_the_job_runs(team):
    racks(team, 2, 8)
    team.job("elastic", tasks=3, gang=1, on=["r2-n1"], constraint=REQUIRED)
    assert racks_of(team.decide()) == {"r2"}


def test_nodes_without_the_label_are_no_rack(team):
    team.topology("network", "rack")
    team.node("plain", gpus=8)
    team.job("gang", tasks=2, gang=2, constraint=REQUIRED)
    assert team.decide().nothing


@pytest.mark.parametrize(("topology", "level", "told"), [("nowhere", "rack", "nowhere"), ("network", "row", "row")])
def test_an_unknown_topology_or_level_is_told_not_ignored(team, topology, level, told):
    racks(team, 8)
    team.job("gang", tasks=2, gang=2, constraint=Constraint(topology=topology, required=level))
    decided = team.decide()
    assert decided.nothing
    assert told in decided.pending("gang").message


def test_each_subgroup_keeps_to_its_own_rack(team):
    racks(team, 2, 2)
    root = SubGroup(
        podsets=tuple(PodSet(name=name, min_available=3, constraint=REQUIRED) for name in ("left", "right"))
    )
    team.job("job", root=root, members={"left": 3, "right": 3})
    bound = team.decide().bound
    sides = [{bound[f"job-{number}"].split("-")[0] for number in side} for side in (range(3), range(3, 6))]
    assert sorted(sides, key=str) == [{"r1"}, {"r2"}]


def test_reclaim_clears_one_rack_for_a_gang_that_needs_one(world):
    racks(world, 2, 2)
    world.queue("owner", quota=4)
    world.queue("borrower", quota=4)
    for number, node in enumerate(("r1-n1", "r1-n2", "r2-n1", "r2-n2")):
        world.job(f"b{number}", queue="borrower", gpus=2, on=node)
    world.job("mine", queue="owner", tasks=2, gang=2, gpus=2, constraint=REQUIRED)
    decided = world.decide()
    assert len({node.split("-")[0] for node in decided.promised.values()}) == 1
    assert len(decided.lost) == 2


@pytest.mark.parametrize(
    ("constraint", "others", "started"),
    [
        (Constraint(topology="network", required="zone"), 0, False),
        (Constraint(topology="network", required="zone"), 1, True),  # nodes in two racks
        (Constraint(topology="network", required="zone", preferred="zone"), 0, True),
        (Constraint(topology="network", required="zone", preferred="rack"), 0, True),
        (Constraint(topology="network", required="rack"), 0, True),
    ],
)
def test_nodes_that_are_one_domain_below_the_required_level_take_nobody_as_in_kai(team, constraint, others, started):
    """KAI's fifth fault: what is free is counted from the rack down, and its zone passes for empty."""
    racks(team, *[2] * (1 + others))
    team.job("gang", tasks=2, gang=2, constraint=constraint)
    assert (len(team.decide().bound) == 2) is started


@pytest.mark.parametrize(("constraint", "lost"), [(None, {"low-0"}), (REQUIRED, set())])
def test_what_runs_counts_among_what_a_required_level_needs_free_as_in_kai(team, constraint, lost):
    """One more pod wants one GPU, and the rack would have to have two."""
    racks(team, 2, 1, nodes=1)
    group = SubGroup(podsets=(PodSet(name="default"),), constraint=constraint)
    team.job("elastic", tasks=2, on=["r1-n1"], priority=75, root=group)
    team.job("low", on="r1-n1", priority=50)
    team.job("firm", on="r2-n1", priority=100)
    assert team.decide().lost == lost
