"""Gangs start together or not at all; pods beyond the minimum come and go one by one; subgroups have minimums too."""

from kailab.engine.decisions import PendingCode
from kailab.engine.snapshot.records import PodSet, Status, SubGroup


def test_a_gang_that_fits_starts_as_a_whole_on_several_nodes(team):
    team.node("node-1", gpus=4)
    team.node("node-2", gpus=4)
    team.job("gang", tasks=8, gang=8)
    assert len(team.decide().bound) == 8


def test_a_gang_that_lacks_one_device_does_not_start(team):
    team.node("node-1", gpus=7)
    team.job("gang", tasks=8, gang=8)
    decided = team.decide()
    assert decided.nothing
    assert decided.pending("gang").code == PendingCode.POD_SCHEDULING_ERRORS


def test_of_two_gangs_that_don_t_fit_together_one_starts_whole(team):
    team.node("node-1", gpus=8)
    team.job("a", tasks=5, gang=5)
    team.job("b", tasks=5, gang=5)
    assert sorted(team.decide().bound) == [f"a-{number}" for number in range(5)]


def test_a_gang_with_too_few_pods_waits_for_them(team):
    team.node("node-1")
    team.job("gang", tasks=2, gang=3)
    decided = team.decide()
    assert decided.nothing
    assert decided.pending("gang").code == PendingCode.NOT_READY


def test_gated_pods_don_t_count_towards_a_gang(team):
    team.node("node-1")
    team.job("three", tasks=3, gang=3, gated=1)
    team.job("two", tasks=3, gang=2, gated=1)
    decided = team.decide()
    assert sorted(decided.bound) == ["two-0", "two-1"]
    assert decided.pending("three").code == PendingCode.NOT_READY


def test_a_lost_member_of_a_gang_comes_back_alone(team):
    team.node("node-1")
    team.job("gang", tasks=3, gang=3, on=["node-1", "node-1"])
    assert team.decide(actions=("allocate",)).bound == {"gang-2": "node-1"}


def test_an_elastic_job_starts_with_its_minimum_and_grows_into_what_is_left(team):
    team.node("node-1", gpus=5)
    team.job("elastic", tasks=8, gang=2)
    assert len(team.decide().bound) == 5


def test_minima_come_before_growth(team):
    team.node("node-1", gpus=4)
    team.job("first", tasks=4, gang=2)
    team.job("second", tasks=2, gang=2)
    assert sorted(team.decide().bound) == ["first-0", "first-1", "second-0", "second-1"]


def test_a_gang_that_partly_waits_for_leaving_pods_waits_as_a_whole(team):
    team.node("node-1", gpus=4)
    team.job("leaving", tasks=2, on="node-1", status=Status.RELEASING)
    team.job("gang", tasks=4, gang=4)
    decided = team.decide()
    assert decided.bound == {}
    assert decided.promised == {f"gang-{number}": "node-1" for number in range(4)}


def test_nobody_waits_for_pods_that_are_stuck_in_leaving(team):
    team.node("node-1", gpus=4)
    team.job("stuck", tasks=2, on="node-1", status=Status.STUCK_RELEASING)
    team.job("gang", tasks=4, gang=4)
    assert team.decide().nothing


def leaders_and_workers(leaders: int, workers: int) -> SubGroup:
    return SubGroup(
        podsets=(PodSet(name="leader", min_available=leaders), PodSet(name="worker", min_available=workers))
    )


def test_subgroups_hold_their_own_minima(team):
    """Room for four pods, but not for one leader and four workers."""
    team.node("node-1", gpus=4)
    team.job("job", root=leaders_and_workers(1, 4), members={"leader": 1, "worker": 4})
    assert team.decide().nothing


def test_subgroups_start_together_when_all_minima_fit(team):
    team.node("node-1", gpus=4)
    team.job("job", root=leaders_and_workers(1, 3), members={"leader": 1, "worker": 5})
    assert sorted(team.decide().bound) == ["job-0", "job-1", "job-2", "job-3"]


def test_of_subgroups_as_many_start_as_the_group_demands(team):
    """Two of three replicas of two pods each; the third has no room."""
    replicas = tuple(PodSet(name=f"replica-{number}", min_available=2) for number in range(3))
    team.node("node-1", gpus=5)
    team.job("job", root=SubGroup(podsets=replicas, min_members=2), members={podset.name: 2 for podset in replicas})
    assert sorted(team.decide().bound) == ["job-0", "job-1", "job-2", "job-3"]


def test_nested_subgroups_must_all_be_satisfied(team):
    def segment(name: str) -> SubGroup:
        return SubGroup(
            name=name,
            podsets=(PodSet(name=f"{name}-lead", min_available=1), PodSet(name=f"{name}-work", min_available=2)),
        )

    root = SubGroup(groups=(segment("left"), segment("right")))
    members = {"left-lead": 1, "left-work": 2, "right-lead": 1, "right-work": 2}
    team.node("node-1", gpus=5)
    team.job("job", root=root, members=members)
    assert team.decide().nothing
    team.node("node-2", gpus=1)
    assert len(team.decide().bound) == 6


def test_a_pod_that_names_no_subgroup_of_its_job_is_not_placed(team):
    team.node("node-1")
    team.job("job", root=leaders_and_workers(1, 1), members={"leader": 1, "worker": 1, "stranger": 1})
    decided = team.decide()
    assert sorted(decided.bound) == ["job-0", "job-1"]
    assert decided.pending("job").tasks == ("job-2",)


def test_a_gang_below_its_minimum_for_longer_than_its_grace_goes_as_a_whole(team):
    team.node("node-1", gpus=2)
    team.job("gang", tasks=3, gang=3, on=["node-1", "node-1"], stale_since=1_000_000.0 - 61)
    decided = team.decide()
    assert decided.lost == {"gang-0", "gang-1"}
    assert decided.eviction("gang-0").action == "stalegangeviction"


def test_a_stale_gang_is_left_alone_within_its_grace(team):
    team.node("node-1", gpus=2)
    team.job("gang", tasks=3, gang=3, on=["node-1", "node-1"], stale_since=1_000_000.0 - 59)
    decided = team.decide()
    assert decided.evicted == set()
    assert decided.decisions.stale == ("gang",)
    assert decided.decisions.wake_at == 1_000_000.0 + 1


def test_a_gang_s_own_grace_overrules_the_default_and_a_negative_one_is_for_ever(team):
    team.node("node-1", gpus=4)
    for name, grace in (("soon", 10.0), ("never", -1.0)):
        team.job(name, tasks=3, gang=3, on=["node-1", "node-1"], stale_since=1_000_000.0 - 30, staleness_grace=grace)
    assert team.decide().lost == {"soon-0", "soon-1"}
