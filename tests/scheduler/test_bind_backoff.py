"""Pods whose binding fails: they are retried with pauses, block nobody, and do not start their gang in part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kailab.cluster.retries import Retries
from kailab.errors import ApiError, Conflict
from kailab.scheduler.binding.bind_backoff import CONFLICTS, BindBackoff

TRIED = list[tuple[str, float]]


@pytest.fixture
def refuse(lab, monkeypatch) -> Callable[[str], TRIED]:
    """Refuse every bind of a pod from now on. Returns the tries and their times."""

    def refusing(name: str) -> TRIED:
        real, tried = lab.cluster.bind, []

        def bind(namespace: str, pod: str, node: str, *rest: Any) -> None:
            if pod == name:
                tried.append((pod, lab.cluster.now()))
                raise ApiError("no")
            real(namespace, pod, node, *rest)

        monkeypatch.setattr(lab.cluster, "bind", bind)
        return tried

    return refusing


def run(lab, seconds: int) -> None:
    for _ in range(seconds * 4):
        lab.grouper.step()
        lab.scheduler.step()
        lab.cluster.advance(0.25)


def bound(lab) -> set[str]:
    return {name for name, node in lab.placed().items() if node}


def team(build) -> list[Any]:
    return [build.queue("org"), build.queue("team", "org", build.share(16, -1, 1))]


def test_pauses_double_up_to_a_bound() -> None:
    retries: Retries[str] = Retries(0.5, 30.0)
    now, pauses = 0.0, []
    for _ in range(9):
        until = retries.failed("a", now)
        assert retries.is_paused("a", now)
        assert retries.next_at == until
        assert retries.due(until - 0.01) == []
        assert retries.due(until) == ["a"]
        pauses.append(until - now)
        now = until
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    retries.forget("a")
    assert not retries.is_paused("a", now)
    assert retries.failed("a", now) == now + 0.5
    assert retries.failed("b", now) == now + 0.5


def test_ever_more_seldom(lab, build, refuse) -> None:
    lab.apply(*team(build), build.pod("bad", 1, "team"))
    tried = refuse("bad")
    run(lab, 100)
    assert 6 <= len(tried) <= 10


def test_its_place_is_given_to_others(lab, build, refuse) -> None:
    lab.apply(*team(build), build.pod("bad", 8, "team"))
    tried = refuse("bad")
    run(lab, 3)
    lab.apply(*(build.pod(f"good-{number}", 8, "team") for number in range(2)))
    run(lab, 3)
    assert bound(lab) == {"good-0", "good-1"}
    assert tried


def test_a_change_of_the_pod_ends_the_pause(lab, build, refuse) -> None:
    lab.apply(*team(build), build.pod("bad", 1, "team"))
    tried = refuse("bad")
    run(lab, 40)
    count = len(tried)
    lab.cluster.patch("Pod", "bad", "default", {"metadata": {"labels": {"tried": "again"}}})
    run(lab, 3)
    assert len(tried) >= count + 3


def test_a_restarted_scheduler_tries_at_once(lab, build, refuse) -> None:
    lab.apply(*team(build), build.pod("bad", 1, "team"))
    tried = refuse("bad")
    run(lab, 40)
    count = len(tried)
    lab.restart()
    run(lab, 1)
    assert len(tried) > count


def test_a_gang_does_not_start_without_a_pod_that_is_held_back(lab, build, refuse) -> None:
    lab.apply(*team(build), build.podgroup("gang", "team", 3), *(build.member(f"m{n}", "gang") for n in range(3)))
    tried = refuse("m1")
    lab.scheduler.step()
    assert bound(lab) == {"m0", "m2"}
    assert tried
    for name in ("m0", "m2"):
        lab.cluster.delete("Pod", name, "default", 0)
    lab.scheduler.step()
    lab.apply(*(build.member(f"n{n}", "gang") for n in range(2)))
    lab.scheduler.step()
    assert bound(lab) == set()


def test_a_gang_stays_stale_while_a_missing_pod_is_retried(lab, build, refuse) -> None:
    lab.apply(*team(build), build.podgroup("gang", "team", 3), *(build.member(f"m{n}", "gang") for n in range(3)))
    tried = refuse("m1")
    run(lab, 55)
    assert bound(lab) == {"m0", "m2"}
    assert len(tried) > 4
    run(lab, 40)
    assert bound(lab) == set()


def evictions(lab) -> int:
    return sum(len(record.decisions.evictions) for record in lab.records)


def test_nobody_is_evicted_twice_for_one_whose_binding_is_refused(build, monkeypatch) -> None:
    lab = build.lab(nodes=1)
    real = lab.cluster.bind

    def bind(namespace: str, pod: str, node: str, *rest: Any) -> None:
        if pod == "urgent":
            raise ApiError("no")
        real(namespace, pod, node, *rest)

    monkeypatch.setattr(lab.cluster, "bind", bind)
    lab.apply(*team(build), build.pod("low-0", 8, "team"))
    run(lab, 2)
    lab.apply(build.pod("urgent", 8, "team", labels={"priorityClassName": "build"}))
    run(lab, 5)
    assert evictions(lab) == 1
    lab.apply(build.pod("low-1", 8, "team"))
    run(lab, 120)
    assert bound(lab) == {"low-1"}
    assert evictions(lab) == 1
    lab.cluster.patch("Pod", "urgent", "default", {"metadata": {"labels": {"tried": "again"}}})
    run(lab, 5)
    assert evictions(lab) == 2


def test_a_gang_of_which_one_was_refused_is_begun_with_that_one(lab, build, refuse) -> None:
    lab.apply(*team(build), build.podgroup("gang", "team", 3), *(build.member(f"m{n}", "gang") for n in range(3)))
    tried = refuse("m1")
    run(lab, 62)
    assert bound(lab) == set()  # the gang was stale for longer than its grace
    lab.apply(*(build.member(f"n{n}", "gang") for n in range(2)))
    for _ in range(300):
        run(lab, 1)
        assert bound(lab) == set()
    assert len(tried) >= 15


def test_a_gang_of_which_one_was_refused_starts_once_it_is_not(lab, build, monkeypatch) -> None:
    real, tries = lab.cluster.bind, []

    def bind(namespace: str, pod: str, node: str, *rest: Any) -> None:
        if pod == "m1":
            tries.append(pod)
            if len(tries) < 3:
                raise ApiError("no")
        real(namespace, pod, node, *rest)

    monkeypatch.setattr(lab.cluster, "bind", bind)
    lab.apply(*team(build), build.podgroup("gang", "team", 3), *(build.member(f"m{n}", "gang") for n in range(3)))
    run(lab, 5)
    assert bound(lab) == {"m0", "m1", "m2"}


def test_a_lab_waits_for_retries_after_temporary_errors_but_not_after_final_refusals() -> None:
    retries: Retries[str] = Retries(0.5, 30.0)
    for count, at in enumerate((10.0, 10.5, 11.5), 1):
        until = retries.failed("a", at)
        assert retries.due_since(5.0) == (until if count < 3 else None)
    assert retries.due_since(12.0) == until


def test_a_conflict_counts_as_a_refusal_only_if_it_persists(lab, build) -> None:
    lab.apply(*team(build), build.pod("one", 1, "team"))
    run(lab, 1)
    (uid,) = lab.scheduler.mirror.pods
    held = BindBackoff(lab.scheduler.mirror)
    for _ in range(CONFLICTS - 1):
        held.failed(uid, Conflict("somebody was here before"), lab.cluster.now())
        assert not held.refused_pods
    held.failed(uid, Conflict("somebody was here before"), lab.cluster.now())
    assert held.refused_pods == {uid}
