"""A server that binds slowly: who comes meanwhile does not wait for it, and what is being bound is nobody else's."""

from __future__ import annotations

import pytest

from tests.faults import oracle, work
from tests.faults.conftest import Field
from tests.faults.proxy import Asked, Fault

pytestmark = pytest.mark.slow

SLOW = 140
SECONDS = 0.25  # for each binding, one after the other: 35 s for all of them


def _binds_slow(asked: Asked) -> bool:
    return asked.method == "POST" and asked.path.endswith("/binding") and "/pods/slow-" in asked.path


def _bound(picture: oracle.Picture, app: str) -> int:
    return sum(1 for pod in picture.of(app) if oracle.node_of(pod))


def test_one_who_comes_while_others_are_being_bound_is_bound_before_them(field: Field) -> None:
    field.fleet(work.twenty())
    proxy = field.proxy(Fault("slow bindings", "line", seconds=SECONDS, on=_binds_slow))
    field.create(*work.queues(160, "team-a", "team-b"))
    field.create(*(work.pod(f"slow-{n:03}", "team-a", app="slow") for n in range(SLOW)))
    field.scheduler(kubeconfig=proxy.kubeconfig)
    field.until(lambda seen: _bound(seen, "slow") > 0, "the first is bound")
    # Gangs as well: whole, while the others go on.
    field.create(work.pod("urgent", "team-b"), *work.gang("late", "team-b", 8))
    seen = field.until(lambda seen: _bound(seen, "urgent") == 1 and _bound(seen, "late") == 8, "both are bound")
    assert _bound(seen, "slow") < SLOW
    field.settled({"slow": SLOW, "urgent": 1, "late": 8}, SLOW + 9)
    field.nobody_restarted()


def test_binds_that_are_refused_while_others_are_under_way_are_given_back(field: Field) -> None:
    """A full fleet, in two goes: half of the binds of the first are refused, and their places are needed in the end."""
    field.fleet(work.twenty())
    proxy = field.proxy(
        Fault("refused", "refuse", 0.5, 409, on=_binds_slow, most=60),
        Fault("slow bindings", "line", seconds=0.05, on=_binds_slow),
        Fault("lost", "lose", 0.2, 504, on=_binds_slow, most=20),
    )
    field.create(*work.queues(160, "team-a", "team-b"))
    field.create(*(work.pod(f"slow-{n:03}", "team-a", app="slow") for n in range(80)))
    field.scheduler(kubeconfig=proxy.kubeconfig)
    field.until(lambda seen: _bound(seen, "slow") > 0, "the first is bound")
    field.create(*(work.pod(f"slow-b-{n:03}", "team-b", app="others") for n in range(80)))
    field.settled({"slow": 80, "others": 80}, 160)
    field.nobody_restarted()
