"""Queue shares by a policy: what stays guaranteed, and which answers are refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kailab.engine.config import EngineConfig
from kailab.engine.policies.contract import QueueShares, register_policy
from kailab.engine.policies.settings import PolicyChoice
from kailab.engine.policies.views import QueueView
from kailab.engine.queueing.division import Division
from kailab.engine.report.reclaim_options import divisions
from kailab.engine.session import Session
from kailab.errors import PolicyError
from kailab.scheduler.settings.policies import policy_class
from tests.engine.conftest import World

NOW = 1_000_000.0


class Given(QueueShares, frozen=True):
    """What a test says of each queue."""

    answers: dict[str, object] = {}
    other: object = 1

    def weight(self, queue: QueueView) -> float | tuple[float, float]:
        found = self.answers.get(queue.queue.name, self.other)
        if found == "raise":
            raise ValueError("no idea")
        return tuple(found) if isinstance(found, list) else found  # type: ignore[return-value,arg-type]


class ByJobs(QueueShares, frozen=True):
    """Whoever has more jobs gets more."""

    def weight(self, queue: QueueView) -> float:
        return float(len(queue.jobs))


register_policy("given-shares", Given)
register_policy("by-jobs", ByJobs)


def shares(**answers: object) -> PolicyChoice:
    return PolicyChoice(name="given-shares", parameters={"answers": answers})


def themis(**parameters: object) -> PolicyChoice:
    policy_class("themis")
    return PolicyChoice(name="themis", parameters=parameters)


def gpus(world: World, choice: PolicyChoice | None) -> dict[str, float]:
    """Fair shares, in whole GPUs."""
    return {one.name: one.gpu.fair_share / 1000 for one in world.decide(queue_shares_policy=choice).decisions.queues}


@pytest.fixture
def three(world: World) -> World:
    """12 GPUs; three queues with a quota of one each that want 12 each."""
    world.node("n", gpus=12)
    for name in ("a", "b", "c"):
        world.queue(name, quota=1)
        world.jobs(12, name, queue=name)
    return world


def test_weights_divide_what_quotas_leave(three: World) -> None:
    assert gpus(three, None) == {"a": 4, "b": 4, "c": 4}
    assert gpus(three, shares(a=1, b=3, c=5)) == {"a": 2, "b": 4, "c": 6}
    assert gpus(three, shares(a=0, b=0, c=1)) == {"a": 1, "b": 1, "c": 10}


def test_the_highest_band_is_served_first(three: World) -> None:
    three.job("more", queue="b", gpus=1)
    assert gpus(three, shares(a=[1.5, 1], b=[0.5, 9], c=[1.5, 2])) == {"a": 4, "b": 1, "c": 7}


def test_who_is_served_follows(three: World) -> None:
    bound = three.decide(queue_shares_policy=shares(a=0, b=0, c=1)).bound
    assert sorted(name[0] for name in bound) == ["a", "b", *["c"] * 10]


def test_limits_requests_and_weights_of_zero_hold(world: World) -> None:
    world.node("n", gpus=12)
    world.queue("bounded", limit=3)
    world.queue("modest")
    world.queue("never", quota=1, weight=0)
    world.queue("open")
    for name, count in (("bounded", 9), ("modest", 2), ("never", 9), ("open", 12)):
        world.jobs(count, name, queue=name)
    result = gpus(world, shares(bounded=100, modest=100, never=100, open=1))
    assert result == {"bounded": 3, "modest": 2, "never": 1, "open": 6}


def test_jobs_are_shown_to_ancestors_too(world: World) -> None:
    world.node("n", gpus=12)
    for name in ("one", "two"):
        world.queue(name)
    world.queue("leaf", parent="one")
    world.queue("twig", parent="one")
    world.jobs(9, "l", queue="leaf")
    world.jobs(9, "t", queue="twig")
    world.jobs(6, "w", queue="two", gpus=2)
    result = gpus(world, PolicyChoice(name="by-jobs"))
    assert (result["one"], result["two"]) == (9, 3)
    assert result["leaf"] + result["twig"] == 9


def test_the_division_is_told_with_the_policys_weights(three: World) -> None:
    session = Session(three.working(), EngineConfig(queue_shares_policy=shares(a=1, b=3, c=5)), NOW)
    messages: list[Division] = [one for one in divisions(session) if one.resource == "GPU"]
    session.close()
    assert [(one.queue, one.weight, one.fair_share) for one in messages[0].queues] == [
        ("a", 1, 2000), ("b", 3, 4000), ("c", 5, 6000),
    ]  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 4), st.sampled_from([-1, 2, 5]), st.integers(0, 8), st.floats(0, 50), st.floats(-5, 5)
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(1, 16),
)
def test_quotas_are_kept_and_nothing_is_given_twice(queues, total) -> None:
    world = World()
    world.node("n", gpus=total)
    answers = {}
    for number, (quota, limit, wanted, weight, band) in enumerate(queues):
        world.queue(f"q{number}", quota=quota, limit=limit)
        world.jobs(wanted, f"q{number}-", queue=f"q{number}")
        answers[f"q{number}"] = [band, weight]
    result = gpus(world, shares(**answers))
    sure = 0
    for number, (quota, limit, wanted, _, _) in enumerate(queues):
        asks = wanted if limit < 0 else min(limit, wanted)
        assert min(quota, asks) <= result[f"q{number}"] <= asks
        sure += min(quota, asks)
    assert sum(result.values()) <= max(total, sure)
    assert len(world.decide(queue_shares_policy=shares(**answers)).bound) <= total


@pytest.mark.parametrize(
    "answer, told",
    [
        (-1, r"policy 'given-shares': weight of queue b is -1; expected a number from 0 on, or a band"),
        (float("nan"), "weight of queue b is nan"),
        (float("inf"), "weight of queue b is inf"),
        ("much", "weight of queue b is 'much'"),
        ([1, 2, 3], "weight of queue b is"),
        ([1, -2], "weight of queue b is"),
        (None, "weight of queue b is None"),
        ("raise", r"weight of queue b failed: ValueError: no idea \(.*test_policies_shares.py, line"),
    ],
)
def test_an_answer_that_is_none_ends_the_cycle(three: World, answer: object, told: str) -> None:
    with pytest.raises(PolicyError, match=told):
        three.decide(queue_shares_policy=shares(b=answer))


def test_themis_serves_the_queue_whose_jobs_are_worst_off(world: World) -> None:
    world.node("n", gpus=8)
    world.queue("late")
    world.queue("fresh")
    for name, waited in (("late", 7200), ("fresh", 60)):
        world.jobs(8, name, queue=name, created=NOW - waited, task={"expected_seconds": 3600.0})
    assert gpus(world, themis()) == {"late": 8, "fresh": 0}
    # To the step they are equal: both are slowed less than tenfold.
    assert gpus(world, themis(step=10)) == {"late": 4, "fresh": 4}


def test_to_themis_waiting_weighs_by_the_time_that_a_job_takes(world: World) -> None:
    world.node("n", gpus=8)
    world.queue("short")
    world.queue("long")
    for name, seconds in (("short", 600.0), ("long", 36_000.0)):
        world.jobs(8, name, queue=name, created=NOW - 3600, task={"expected_seconds": seconds})
    # An hour of waiting is sevenfold for ten minutes of work, and next to nothing for ten hours.
    assert gpus(world, themis()) == {"short": 8, "long": 0}


def test_to_themis_jobs_that_tell_no_time_are_worth_nothing(world: World) -> None:
    world.node("n", gpus=8)
    world.queue("mute")
    world.queue("tells")
    world.jobs(8, "mute", queue="mute", created=NOW - 90_000)
    world.jobs(8, "tells", queue="tells", created=NOW - 60, task={"expected_seconds": 60.0})
    assert gpus(world, themis()) == {"mute": 0, "tells": 8}
