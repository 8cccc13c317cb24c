"""Invalid answers of user policies, and policies that cannot be made: each is refused with the policy's name."""

from __future__ import annotations

from itertools import count
from typing import Any, ClassVar

import msgspec
import pytest

from kailab.engine.config import EngineConfig
from kailab.engine.cycle import run_cycle
from kailab.engine.policies.contract import (
    JobOrder,
    NodeScore,
    QueueShares,
    Reservation,
    VictimOrder,
    make_policy,
    register_policy,
)
from kailab.engine.policies.settings import PolicyChoice
from kailab.errors import InputError, PolicyError

NOW = 1_000_000.0
HUGE = 10**400
"""A whole number that no float holds."""
NUMBERS = count()
FIELDS: dict[type, tuple[str, str]] = {
    JobOrder: ("key", "job_order_policy"),
    VictimOrder: ("cost", "victim_order_policy"),
    NodeScore: ("score", "node_score_policy"),
    QueueShares: ("weight", "queue_shares_policy"),
    Reservation: ("expects", "reservation_policy"),
}


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class OfItsOwn(BaseException):
    pass


class Shy:
    def __repr__(self) -> str:
        raise ValueError("no words")


def gives(kind: type, answer: object, **more: Any) -> EngineConfig:
    """A configuration with a policy of this kind that gives the answer, or raises it."""

    def give(*_: object) -> object:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    method, field = FIELDS[kind]
    body = {"__module__": __name__, method: lambda self, *given: give(), **more}
    name = f"rubbish-{kind.__name__}-{next(NUMBERS)}"
    register_policy(name, msgspec.defstruct(name, [], bases=(kind,), namespace=body, frozen=True))
    return EngineConfig(**{field: PolicyChoice(name=name, parameters={})})


@pytest.fixture
def contended(team):
    """Somebody runs, somebody with a higher priority wants all, and somebody waits."""
    team.node("node", gpus=8)
    team.job("runs", gpus=4, on="node")
    team.job("urgent", gpus=8, priority=90)
    team.job("work", gpus=4)
    return team


RUBBISH = [
    (Shy(), "a Shy"),
    (Unspeakable(), "failed: Unspeakable"),
    (OfItsOwn("end it all"), "failed: OfItsOwn: end it all"),
]


@pytest.mark.parametrize(
    "kind, answer, told",
    [
        *((kind, answer, told) for kind in FIELDS for answer, told in RUBBISH),
        # Of a run time it means never.
        *((kind, HUGE, "") for kind in FIELDS if kind is not Reservation),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_rubbish_is_told_with_the_policys_name(contended, kind: type, answer: object, told: str) -> None:
    more = {"reserves": lambda self, job, kept: True} if kind is Reservation else {}
    with pytest.raises(PolicyError, match=f"^policy 'rubbish-{kind.__name__}-.*{told}"):
        run_cycle(contended.working(), gives(kind, answer, **more), NOW)


@pytest.mark.parametrize("seconds", [1e308, HUGE], ids=["1e308", "10**400"])
def test_a_run_time_beyond_all_calendars_is_as_good_as_none(contended, seconds: float) -> None:
    def pending_messages(answer: object) -> list[str]:
        config = gives(Reservation, answer, reserves=lambda self, job, kept: True)
        return [one.message for one in run_cycle(contended.working(), config, NOW).pending]

    assert pending_messages(seconds) == pending_messages(None)


def test_who_asks_for_an_end_while_a_policy_is_asked_gets_it(contended) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_cycle(contended.working(), gives(JobOrder, KeyboardInterrupt()), NOW)


@pytest.mark.parametrize("refresh", ["soon", 0, -1.0, float("inf"), float("nan"), True])
def test_when_to_ask_again_is_a_time(refresh: object) -> None:
    with pytest.raises(InputError, match=r"\.refresh is .*; expected seconds above 0, or None"):
        gives(JobOrder, 1.0, refresh=refresh)


def test_a_policy_that_can_not_be_made_is_told_by_its_name() -> None:
    class Broken(JobOrder, frozen=True):
        refresh: ClassVar[float | None] = 60.0

        def __post_init__(self) -> None:
            raise RuntimeError("not today")

        def key(self, job: object) -> float:
            return 0.0

    register_policy("broken-from-the-start", Broken)
    with pytest.raises(PolicyError, match="policy 'broken-from-the-start': it can't be made: RuntimeError: not today"):
        make_policy(PolicyChoice(name="broken-from-the-start", parameters={}), JobOrder)
