"""A cluster that changes under the scheduler's feet: nodes and pods that go, binds that never succeed."""

from __future__ import annotations

import json
import time
from collections import Counter
from itertools import accumulate

import pytest

from tests.faults import oracle, work
from tests.faults.conftest import Field
from tests.faults.proxy import Asked, Fault

pytestmark = pytest.mark.slow


def _binds(asked: Asked, prefix: str = "") -> bool:
    return asked.method == "POST" and asked.path.endswith("/binding") and f"/pods/{prefix}" in asked.path


def _tainted(effect: str) -> dict:
    fake = {"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}
    return {"spec": {"taints": [fake, {"key": "trouble", "effect": effect}]}}


def test_a_node_deleted_under_a_gang(field: Field) -> None:
    """Its pods go with it, others come for them, and the gang runs whole elsewhere."""
    field.scheduler()
    field.create(*work.queues(32, "team-a"), *work.gang("ten", "team-a", 10))
    seen = field.settled({"ten": 10}, 10)
    victim = oracle.node_of(seen.running("ten")[0])
    field.api.delete("Node", victim)
    for pod in seen.running("ten"):
        if oracle.node_of(pod) == victim:  # as the garbage collector does after its while
            field.api.delete("Pod", pod["metadata"]["name"], gracePeriodSeconds=0)
    seen = field.settled({"ten": 10}, 10)
    assert victim not in {oracle.node_of(pod) for pod in seen.running("ten")}
    field.nobody_restarted()


def test_a_node_that_sends_its_pods_away(field: Field) -> None:
    field.scheduler()
    field.create(*work.queues(32, "team-a"), *work.gang("ten", "team-a", 10))
    victim = oracle.node_of(field.settled({"ten": 10}, 10).running("ten")[0])
    field.api.patch("Node", victim, _tainted("NoExecute"))
    seen = field.until(
        lambda seen: len(seen.running("ten")) == 10 and victim not in map(oracle.node_of, seen.running("ten")),
        "the gang runs elsewhere",
    )
    assert oracle.half_bound(seen) == []
    field.settled({"ten": 10}, 10)
    field.nobody_restarted()


def test_a_node_closed_while_filling(field: Field) -> None:
    """What runs there stays; nothing more comes."""
    field.scheduler()
    field.create(*work.queues(32, "team-a", "team-b"), *work.gang("four", "team-a", 4))
    home = oracle.node_of(field.settled({"four": 4}, 4).running("four")[0])
    there = {pod["metadata"]["name"] for pod in field.look().running("four") if oracle.node_of(pod) == home}
    field.api.patch("Node", home, _tainted("NoSchedule"))
    field.create(work.flood("flood", 40))
    gpus = field.look().node_gpus(home)
    full = 32 - gpus + len(there)
    seen = field.settled({"four": 4, "flood": full - 4}, full)
    assert {pod["metadata"]["name"] for pod in seen.pods if oracle.node_of(pod) == home} == there


def test_pods_deleted_between_decision_and_binding(field: Field) -> None:
    """The proxy holds bindings back for a while; the test deletes every other pod meanwhile."""
    slow = Fault("slow", "delay", seconds=3.0, on=lambda asked: _binds(asked, "short-"))
    proxy = field.proxy(slow)
    field.scheduler(kubeconfig=proxy.kubeconfig)
    pods = [work.pod(f"short-{number}", "team-a", 2, app="short") for number in range(16)]
    field.create(*work.queues(32, "team-a"), *pods)
    field.until(lambda seen: any(_binds(one) for one in proxy.asked), "bindings are under way")
    for number in range(0, 16, 2):
        field.api.delete("Pod", f"short-{number}", gracePeriodSeconds=0)
    field.create(*(work.pod(f"next-{number}", "team-a", 2, app="next") for number in range(8)))
    field.settled({"short": 8, "next": 8}, 32)
    field.nobody_restarted()


@pytest.mark.parametrize(("how", "code"), [("refuse", 500), ("refuse", 409), ("refuse", 504), ("delay", 0)])
def test_a_bind_that_never_succeeds(field: Field, how: str, code: int) -> None:
    """The others do not wait for it, its place goes to others, and it is tried again and again, but ever more seldom."""
    fault = Fault(
        "never",
        "refuse" if how == "refuse" else "delay",
        code=code,
        seconds=600.0,
        on=lambda asked: _binds(asked, "bad"),
    )
    proxy = field.proxy(fault)
    field.scheduler(kubeconfig=proxy.kubeconfig)
    field.create(*work.queues(32, "team-a"), work.pod("bad", "team-a", 1))
    begun = field.until(lambda seen: fault.done > 0, "the binding of the bad one was tried") and time.monotonic()
    field.create(*(work.pod(f"good-{number}", "team-a", 1, app="good") for number in range(32)))
    field.settled({"good": 32}, 32) if how == "refuse" else field.until(
        lambda seen: len(seen.running("good")) >= 31, "the others run"
    )
    field.looks(max(0.0, 20.0 - (time.monotonic() - begun)))
    tries = [one.at for one in proxy.asked if _binds(one, "bad")]
    # A try is up to three requests; then a pause that doubles, from half a second to half a minute.
    assert len(tries) <= 3 * _tries_in(time.monotonic() - tries[0])
    if how == "refuse":
        proxy.faults = []
        field.api.delete("Pod", "good-0", gracePeriodSeconds=0)
        field.settled({"good": 31, "bad": 1}, 32)
    field.nobody_restarted()


def _tries_in(seconds: float) -> int:
    """At most, with one to spare."""
    pauses = (min(0.5 * 2**number, 30.0) for number in range(1000))
    return 2 + sum(begun <= seconds for begun in accumulate(pauses))


def test_a_gang_of_which_one_cannot_be_bound(field: Field) -> None:
    """Half bound it is stale, and goes as a whole after its grace; it runs whole once binding works."""
    chosen: list[str] = []

    def first_of_all(asked: Asked) -> bool:
        if _binds(asked, "six-") and not chosen:
            chosen.append(asked.path)
        return _binds(asked) and asked.path in chosen

    proxy = field.proxy(Fault("never", "refuse", code=500, on=first_of_all))
    field.scheduler(kubeconfig=proxy.kubeconfig)
    field.create(*work.queues(32, "team-a"), *work.gang("six", "team-a", 6, grace="30s"))
    seen = field.until(lambda seen: len(seen.running("six")) == 5, "five are bound, one is not")
    stale = {pod["metadata"]["uid"] for pod in seen.running("six")}
    field.until(
        lambda seen: not stale & {pod["metadata"]["uid"] for pod in seen.placed("six")},
        "the stale gang was evicted whole",
    )
    proxy.faults = []
    field.settled({"six": 6}, 6)
    field.nobody_restarted()


def test_a_second_bind_to_another_node_is_refused_and_understood(field: Field) -> None:
    """The answer to the first is lost for good; whatever the scheduler does next, the pod stays where it was bound first, and
    nobody else gets its GPUs."""
    fault = Fault("lost", "lose", code=504, on=lambda asked: _binds(asked, "lost-"))
    blind = Fault("blind", "drop", seconds=0.0)
    proxy = field.proxy(fault, blind)
    pods = [work.pod(f"lost-{number}", "team-a", 4, app="lost") for number in range(4)]
    field.create(*work.queues(32, "team-a"), *pods)
    field.scheduler(kubeconfig=proxy.kubeconfig)
    field.until(lambda seen: len(seen.placed("lost")) == 4, "all are bound, and the scheduler was not told")
    targets: Counter[str] = Counter()
    for one in proxy.asked:
        if _binds(one):
            targets[one.path.split("/")[-2]] = len(
                {json.loads(other.body)["target"]["name"] for other in proxy.asked if other.path == one.path}
            )
    field.create(*(work.pod(f"after-{number}", "team-a", 2, app="after") for number in range(8)))
    field.settled({"lost": 4, "after": 8}, 32)
    assert set(targets.values()) == {1}
    field.nobody_restarted()
