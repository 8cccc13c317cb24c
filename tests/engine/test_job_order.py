"""The next job of a queue: by priority, then below its minimum first, then by age, then by name."""

import pytest


@pytest.mark.parametrize(
    ("first", "second", "winner"),
    [
        ({"priority": 50}, {"priority": 75}, "b-0"),
        ({"priority": 75}, {"priority": 50}, "a-0"),
        ({"created": 2.0}, {"created": 1.0}, "b-0"),
        ({"created": 1.0}, {"created": 1.0}, "a-0"),
        ({"priority": 50, "created": 1.0}, {"priority": 75, "created": 2.0}, "b-0"),
    ],
)
def test_one_gpu_for_two_jobs(team, first, second, winner):
    team.node("node-1", gpus=1)
    team.job("a", **first)
    team.job("b", **second)
    assert team.decide().bound == {winner: "node-1"}


def test_a_job_below_its_minimum_goes_before_an_older_one_that_has_it(team):
    team.node("node-1", gpus=2)
    team.job("grown", tasks=2, on=["node-1"])
    team.job("new")
    assert team.decide().bound == {"new-0": "node-1"}


def test_tasks_with_a_priority_label_come_first_the_higher_the_earlier(team):
    team.node("node-1", gpus=2)
    team.job("a", tasks=4, labels=[1, 3, 2])
    assert sorted(team.decide().bound) == ["a-1", "a-2"]


def test_names_of_tasks_are_compared_as_text(team):
    team.node("node-1", gpus=3)
    team.job("a", tasks=11)
    assert sorted(team.decide().bound) == ["a-0", "a-1", "a-10"]


def test_a_job_that_does_not_fit_does_not_hold_up_the_next(team):
    team.node("node-1", gpus=2)
    team.job("big", gpus=4)
    team.job("small", gpus=2)
    assert team.decide().bound == {"small-0": "node-1"}
